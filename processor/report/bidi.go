package report

import (
	"slices"
	"unicode"
)

// visual puts a text into the order in which it is drawn, from the left: each stretch of a script that is read from the right is
// turned round, numbers inside of it are not. It is the part of the Unicode bidirectional algorithm that names need, in a line
// that runs from the left; what overrides directions was taken out before.
func visual(text string) string {
	runes := []rune(text)
	if !slices.ContainsFunc(runes, fromTheRight) {
		return text
	}
	for i := 0; i < len(runes); i++ {
		if fromTheRight(runes[i]) {
			end := stretch(runes, i)
			turn(runes[i:end])
			i = end
		}
	}
	return string(runes)
}

// stretch returns the end of the stretch that begins at start: after its last letter, or number behind one.
func stretch(runes []rune, start int) int {
	end := start + 1
	for i := start; i < len(runes); i++ {
		switch r := runes[i]; {
		case fromTheRight(r), unicode.IsDigit(r), unicode.Is(unicode.Mn, r):
			end = i + 1
		case unicode.IsLetter(r):
			return end
		}
	}
	return end
}

// turn turns a stretch round, with marks behind their letters, numbers as they were, and brackets mirrored.
func turn(runes []rune) {
	slices.Reverse(runes)
	for i := 0; i < len(runes); i++ {
		if m, ok := mirrored[runes[i]]; ok {
			runes[i] = m
		}
		end := i
		for end < len(runes) && unicode.Is(unicode.Mn, runes[end]) {
			end++
		}
		if end > i && end < len(runes) {
			slices.Reverse(runes[i : end+1])
			i = end
			continue
		}
		for end < len(runes) && unicode.IsDigit(runes[end]) {
			end++
		}
		if end > i {
			slices.Reverse(runes[i:end])
			i = end - 1
		}
	}
}

var mirrored = map[rune]rune{'(': ')', ')': '(', '[': ']', ']': '[', '{': '}', '}': '{', '<': '>', '>': '<', '«': '»', '»': '«'}

// fromTheRight reports whether a rune is a letter of Hebrew, Arabic or a script beside them.
func fromTheRight(r rune) bool {
	return unicode.IsLetter(r) && (r >= 0x0590 && r <= 0x08ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff)
}
