package main

import (
	_ "embed"
	"strings"

	"github.com/alecthomas/kong"
)

// helpText is what --help prints of the commands below their one line: an example that can be copied, what the command leaves
// behind, and what to do next. A section begins with the path of its command, such as "# outlay account create".
//
//go:embed help.txt
var helpText string

// describe gives the command n and those below it their sections of helpText.
func describe(n *kong.Node) {
	if _, section, ok := strings.Cut(helpText, "# "+n.FullPath()+"\n"); ok {
		text, _, _ := strings.Cut(section, "\n# ")
		n.Detail = strings.TrimRight(text, "\n")
	}
	for _, child := range n.Children {
		describe(child)
	}
}
