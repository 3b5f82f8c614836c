package schema

import (
	"strings"
	"testing"
	"time"
)

func TestTextFault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		faulty     bool
	}{
		{"plain", "support-bot", false},
		{"any script", "оператор 🚀 客服", false},
		{"exactly the limit, in characters", strings.Repeat("é", 200), false},
		{"one too many", strings.Repeat("é", 201), true},
		{"one too many in ASCII", strings.Repeat("e", 201), true},
		{"NUL", "a\x00b", true},
		{"line break", "a\nb", true},
		{"delete", "a\x7fb", true},
		{"C1 control", "a\u0085b", true},
		{"invalid UTF-8", "a\xffb", true},
	} {
		if fault := TextFault(c.text, 200); (fault != "") != c.faulty {
			t.Errorf("%s: TextFault = %q, want a fault: %v", c.name, fault, c.faulty)
		}
	}
}

// The horizons are exact to the microsecond.
func TestCheckTimeAtTheHorizons(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		at     time.Time
		faulty bool
	}{
		{"now", now, false},
		{"oldest", now.Add(-MaxEventAge), false},
		{"too old", now.Add(-MaxEventAge - time.Microsecond), true},
		{"furthest ahead", now.Add(MaxEventAhead), false},
		{"too far ahead", now.Add(MaxEventAhead + time.Microsecond), true},
	} {
		var f Faults
		f.CheckTime("timestamp", c.at, now)
		if (len(f) > 0) != c.faulty {
			t.Errorf("%s: faults %v, want a fault: %v", c.name, f, c.faulty)
		}
	}
}
