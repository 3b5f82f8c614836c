package report

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/bidi"
)

// leftToRightMark makes the paragraph that it begins one that runs from left to right, as the lines of the document do.
const leftToRightMark = "\u200e"

// visual puts a text into the order in which it is drawn from the left, by the Unicode bidirectional algorithm. What overrides
// directions was taken out before. The library returns runs in the order of reading and without their levels, so the one case where
// runs change places is found here: a number beside a run that is read from the right belongs to it.
func visual(text string) string {
	// An error of the library leaves the text in its order of reading, which is legible.
	var p bidi.Paragraph
	if _, err := p.SetString(leftToRightMark + text); err != nil {
		return text
	}
	runs, err := p.Order()
	if err != nil {
		return text
	}
	var drawn strings.Builder
	fromRight := "" // A stretch that is read from the right, as it is drawn.
	for i := range runs.NumRuns() {
		run := runs.Run(i)
		if run.Direction() == bidi.RightToLeft {
			fromRight = reversed(run.String()) + fromRight
			continue
		}
		rest := run.String()
		if fromRight != "" {
			number := rest[:len(rest)-len(strings.TrimLeftFunc(rest, inNumber))]
			if number = strings.TrimRightFunc(number, isSeparator); !strings.ContainsFunc(number, unicode.IsDigit) {
				number = "" // A currency or per cent sign alone is no number.
			}
			fromRight, rest = number+fromRight, rest[len(number):]
		}
		if rest == "" {
			continue
		}
		number := rest[len(strings.TrimRightFunc(rest, isArabicNumber)):]
		drawn.WriteString(fromRight + strings.TrimSuffix(rest, number))
		fromRight = number
	}
	return strings.TrimPrefix(drawn.String()+fromRight, leftToRightMark)
}

// class returns the bidirectional class of a rune.
func class(r rune) bidi.Class {
	properties, _ := bidi.LookupRune(r)
	return properties.Class()
}

// isArabicNumber reports whether a rune is an Arabic digit: such numbers belong to the text that is read from the right.
func isArabicNumber(r rune) bool { return class(r) == bidi.AN }

// isSeparator reports whether a rune belongs to a number only when digits follow it.
func isSeparator(r rune) bool { return class(r) == bidi.ES || class(r) == bidi.CS }

// inNumber reports whether a rune may be part of a number: a digit, a sign before or behind it, or a separator.
func inNumber(r rune) bool {
	return slices.Contains([]bidi.Class{bidi.EN, bidi.AN, bidi.ET, bidi.ES, bidi.CS, bidi.NSM}, class(r))
}

// mirrored are the brackets that are drawn the other way round in text that is read from the right.
var mirrored = map[rune]rune{'(': ')', ')': '(', '[': ']', ']': '[', '{': '}', '}': '{', '<': '>', '>': '<', '«': '»', '»': '«'}

// reversed turns a text round, with marks behind their letters and brackets mirrored.
func reversed(text string) string {
	var letters []string // Each with its marks.
	for _, r := range text {
		if m, ok := mirrored[r]; ok {
			r = m
		}
		if unicode.Is(unicode.Mn, r) && len(letters) > 0 {
			letters[len(letters)-1] += string(r)
		} else {
			letters = append(letters, string(r))
		}
	}
	slices.Reverse(letters)
	return strings.Join(letters, "")
}
