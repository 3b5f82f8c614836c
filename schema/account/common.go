package account

import (
	_ "embed"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// commonPasswords has one password in a line, sorted, as FoldPassword returns them. It
// covers the 10 000 most common ones, of which most are shorter than MinPasswordLength
// and so left out. Package generate makes it.
//
//go:embed common_passwords.txt
var commonPasswords string

// FoldPassword returns the form in which passwords are compared with the common ones:
// case and compatibility forms, such as full-width letters, make no difference.
func FoldPassword(password string) string {
	return norm.NFKC.String(strings.ToLower(norm.NFKC.String(password)))
}

func isCommon(password string) bool {
	_, found := slices.BinarySearch(strings.Split(commonPasswords, "\n"), FoldPassword(password))
	return found
}
