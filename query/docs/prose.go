package docs

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"
)

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	boldSpan = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// prose turns the little Markdown of our own document into HTML: paragraphs, code
// blocks, `code` and **bold**. Everything is escaped first.
func prose(text string) template.HTML {
	var out strings.Builder
	for i, block := range strings.Split(text, "```") {
		if i%2 == 1 {
			// The first line names the language.
			_, code, _ := strings.Cut(block, "\n")
			fmt.Fprintf(&out, "<pre>%s</pre>", template.HTMLEscapeString(strings.TrimRight(code, "\n ")))
			continue
		}
		for paragraph := range strings.SplitSeq(block, "\n\n") {
			if strings.TrimSpace(paragraph) == "" {
				continue
			}
			escaped := template.HTMLEscapeString(strings.TrimSpace(paragraph))
			escaped = codeSpan.ReplaceAllString(escaped, "<code>$1</code>")
			fmt.Fprintf(&out, "<p>%s</p>", boldSpan.ReplaceAllString(escaped, "<strong>$1</strong>"))
		}
	}
	return template.HTML(out.String()) //nolint:gosec // Escaped above; the text is our own.
}

// pixels is the class that indents a field by its depth.
func pixels(depth int) string { return fmt.Sprintf("depth%d", depth) }
