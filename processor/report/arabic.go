package report

import (
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Arabic letters join. The font has a glyph for each of the forms of a letter, at the code points that Unicode keeps for them:
// alone, after another letter, before one, and between two. A letter that joins nothing behind it has the first two only.
const (
	isolated = iota
	final
	initial
	medial
)

// forms are the forms of a letter, or of lam and alef, which are written as one. The tables of Unicode give them in this order.
var forms = sync.OnceValue(func() map[string][]rune {
	found := map[string][]rune{}
	add := func(from, to rune) {
		for r := from; r <= to; r++ {
			if letters := norm.NFKC.String(string(r)); letters != string(r) && hasGlyph(r) {
				found[letters] = append(found[letters], r)
			}
		}
	}
	add(0xfe80, 0xfefc)
	add(0xfb50, 0xfbb1)
	add(0xfbd3, 0xfbe9)
	add(0xfbfc, 0xfbff)
	return found
})

// joined gives each Arabic letter of a text, which is in the order of reading, the form that its neighbours ask for.
func joined(text string) string {
	runes := []rune(text)
	// A new slice: a ligature makes the text shorter.
	out := runes[:0:0]
	joins := false // whether the letter before joins what follows
	for i := 0; i < len(runes); i++ {
		if unicode.Is(unicode.Mn, runes[i]) {
			out = append(out, runes[i]) // It stands on its letter.
			continue
		}
		letter, end := letterAt(runes, i)
		if letter == nil {
			joins = false
			out = append(out, runes[i])
			continue
		}
		i = end - 1
		next := i + 1
		for next < len(runes) && unicode.Is(unicode.Mn, runes[next]) {
			next++
		}
		following, _ := letterAt(runes, next)
		out = append(out, letter[formOf(letter, joins, len(following) > final)])
		joins = len(letter) > initial
	}
	return string(out)
}

// letterAt returns the forms of the letter at i, and where the next one begins; nil for what is no Arabic letter.
func letterAt(runes []rune, i int) (letter []rune, end int) {
	if i >= len(runes) || !unicode.Is(unicode.Arabic, runes[i]) {
		return nil, i
	}
	if i+1 < len(runes) {
		if both := forms()[string(runes[i:i+2])]; both != nil {
			return both, i + 2
		}
	}
	return forms()[string(runes[i])], i + 1
}

// formOf returns the place of a form in letter. joined is whether the letter before joins this one, joins whether the next one can
// be joined.
func formOf(letter []rune, joined, joins bool) int {
	joins = joins && len(letter) > initial
	switch {
	case joined && joins && len(letter) > medial:
		return medial
	case joined && len(letter) > final:
		return final
	case joins:
		return initial
	}
	return isolated
}
