package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// commands calls f with each command that can be run.
func commands(f func(*kong.Node)) {
	var visit func(*kong.Node)
	visit = func(n *kong.Node) {
		if n.Type == kong.CommandNode && len(n.Children) == 0 {
			f(n)
		}
		for _, child := range n.Children {
			visit(child)
		}
	}
	visit(newParser(&cli{}).Model.Node)
}

// The help of every command that does something begins with an example, and what the
// examples say is what the program takes.
func TestExamplesOfTheHelpAreRight(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := ensureKeyFile("jwt.pem"); err != nil {
		t.Fatal(err)
	}
	commands(func(n *kong.Node) {
		if n.Detail == "" {
			if n.Name != "list" {
				t.Errorf("%s: no example", n.Path())
			}
			return
		}
		example, _, _ := strings.Cut(strings.ReplaceAll(n.Detail, "\\\n", " "), "\n\n")
		lines := strings.Split(strings.TrimSpace(example), "\n")
		args := strings.Fields(lines[len(lines)-1])
		if args[0] != "outlay" {
			t.Fatalf("%s: %q is no example", n.Path(), example)
		}
		parsed, err := newParser(&cli{}).Parse(args[1:])
		if err != nil {
			t.Errorf("%s: %v", example, err)
			return
		}
		if got := parsed.Selected().Path(); got != n.Path() {
			t.Errorf("%s: an example of %s, not of %s", example, got, n.Path())
		}
	})
}

// Every flag of every command states what it is for, in a sentence.
func TestEveryFlagIsExplained(t *testing.T) {
	t.Parallel()
	commands(func(n *kong.Node) {
		for _, group := range n.AllFlags(false) {
			for _, flag := range group {
				if !strings.HasSuffix(flag.Help, ".") && !strings.Contains(flag.Help, "ed25519") && !strings.Contains(flag.Help, "/debug/pprof") {
					t.Errorf("%s --%s: %q", n.Path(), flag.Name, flag.Help)
				}
			}
		}
	})
}

// A mistake is answered with the mistake, and not with pages of flags above it.
func TestMistakesAreAnsweredShortly(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"ingest"}, {"nothing"}, {"up", "--colour"}} {
		var out bytes.Buffer
		parser := newParser(&cli{})
		parser.Stdout, parser.Stderr, parser.Exit = &out, &out, func(int) {}
		_, err := parser.Parse(args)
		parser.FatalIfErrorf(err)
		if text := out.String(); strings.Count(text, "\n") > 12 || !strings.Contains(text, "--help") || !strings.Contains(text, "error") {
			t.Errorf("%s:\n%s", strings.Join(args, " "), text)
		}
	}
}
