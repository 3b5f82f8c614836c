package schema_test

import (
	"testing"

	"github.com/outlayhq/outlay/schema"
)

// What a spreadsheet could take for a formula gets an apostrophe; anything else stays as
// it is.
func TestSpreadsheetText(t *testing.T) {
	t.Parallel()
	for _, formula := range []string{
		"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=", " =1+1", "   @x", "\u00a0=1", "\u3000=1", "\ufeff=1", "\u200b=1",
		"\u2003 \u200d+1", "\v=1", "\u0085=1", "\u2028=1", "＝1+1", "＋1", "－1", "＠x", " ＝1", "﹦1", "﹢1", "﹣1", "﹫x", "−1", " \t=1",
		`=cmd|' /C calc'!A0`,
	} {
		if got := schema.SpreadsheetText(formula); got != "'"+formula {
			t.Errorf("SpreadsheetText(%q) = %q, want an apostrophe in front", formula, got)
		}
	}
	for _, text := range []string{"", " ", "a=1", "support-bot", "1+1", "'=1", "日本語", "\xff=1", "(=1)"} {
		if got := schema.SpreadsheetText(text); got != text {
			t.Errorf("SpreadsheetText(%q) = %q, want it as it is", text, got)
		}
	}
}
