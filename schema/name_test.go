package schema

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Texts that differ in how a letter is encoded are one name; those that differ in case, width or script are not.
func TestNormalName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                   "",
		"Support-Bot":        "Support-Bot",
		"cafe\u0301":         "caf\u00e9",
		"\u212b":             "\u00c5", // the sign for angstroms is the letter
		"\u1112\u1161\u11ab": "\ud55c",
		"ﬁ":                  "ﬁ",
		"\uff41":             "\uff41",
		"\u0430gent":         "\u0430gent", // a Cyrillic letter
		"a\xffb":             "a\xffb",
	} {
		if got := NormalName(name); got != want {
			t.Errorf("NormalName(%+q) = %+q, want %+q", name, got, want)
		}
	}
}

// A name has nothing in it that is not seen, or that turns what is seen around.
func TestNameFault(t *testing.T) {
	t.Parallel()
	for _, hidden := range []string{
		"\u00ad", "\u034f", "\u061c", "\u115f", "\u1160", "\u17b4", "\u180e", "\u200b", "\u200c", "\u200d", "\u200e", "\u200f",
		"\u2028", "\u2029", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2060", "\u2061", "\u2064", "\u2066", "\u2067", "\u2068",
		"\u2069", "\u206a", "\u206f", "\u2800", "\u3164", "\ufe00", "\ufe0e", "\ufe0f", "\ufeff", "\uffa0", "\ufff9", "\U0001bca0",
		"\U0001d173", "\U000e0001", "\U000e0041", "\U000e0100", "\U000e0fff", "\u180b",
	} {
		for _, name := range []string{hidden, hidden + "bot", "bot" + hidden, "b" + hidden + "ot", "日本" + "x" + hidden, "a\U0001f916\ufe0f" + hidden} {
			fault := NameFault(NormalName(name), MaxNameLength)
			if r, _ := utf8.DecodeRuneInString(hidden); !strings.Contains(fault, fmt.Sprintf("U+%04X", r)) {
				t.Errorf("NameFault(%+q) = %q, want it to name %+q", name, fault, hidden)
			}
		}
	}
	for _, seen := range []string{
		"support-bot", "оператор 🚀 客服", "ação", "مساعد", "עוזר", "ผู้ช่วย", "한국어", "a\u00a0b", "a\u3000b",
		"\u2699\ufe0f", "\u2764\ufe0f", "\u2194\ufe0e", "1\ufe0f\u20e3", "#\ufe0f\u20e3", "\u00a9\ufe0f", "\u203c\ufe0f", "\u2139\ufe0f",
		"\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "葛\U000e0100", "\u2229\ufe00", "\u1820\u180b", "\u06dd\u0661", "\ufffd",
	} {
		if fault := NameFault(NormalName(seen), MaxNameLength); fault != "" {
			t.Errorf("NameFault(%+q) = %q, want none", seen, fault)
		}
	}
	for _, name := range []string{"1\ufe0f", "a\ufe0f\u20e3", "葛\ufe0f", "葛\U000e0100\U000e0100", "+\ufe0f"} {
		if NameFault(name, MaxNameLength) == "" {
			t.Errorf("NameFault(%+q) = none, though its selector chooses nothing", name)
		}
	}
	if fault := NameFault(NormalName("a"+strings.Repeat("\u0301", 40)), MaxNameLength); !strings.Contains(fault, "30 combining marks") {
		t.Errorf("40 combining marks: %q", fault)
	}
	if fault := NameFault(NormalName(strings.Repeat("u\u0308", 200)), MaxNameLength); fault != "" {
		t.Errorf("200 characters once composed: %q", fault)
	}
}

// Normalising twice changes nothing, what passes is in normal form, and the three ways to ask agree.
func FuzzName(f *testing.F) {
	for _, seed := range []string{"bot", "cafe\u0301", "a\u200b", "\u0958", "a\xff", "\u2699\ufe0f", "a" + strings.Repeat("\u0301", 31)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name := NormalName(text)
		if again := NormalName(name); again != name {
			t.Errorf("%+q is normalised to %+q and then to %+q", text, name, again)
		}
		fault := NameFault(name, MaxNameLength)
		if fault == "" && (!norm.NFC.IsNormalString(name) || TextFault(name, MaxNameLength) != "") {
			t.Errorf("accepted %+q", name)
		}
		if is := IsName([]byte(text), MaxNameLength); is != (name == text && fault == "") {
			t.Errorf("IsName(%+q) = %v; it is normalised to %+q: %q", text, is, name, fault)
		}
	})
}

// Nearly all names are ASCII. Counting allocations is not possible in parallel.
func TestNormalNameOfASCIIAllocatesNothing(t *testing.T) {
	name, fault := "", ""
	if n := testing.AllocsPerRun(100, func() { name = NormalName("support-bot"); fault = NameFault(name, MaxNameLength) }); n != 0 {
		t.Errorf("%v allocations for %q %q", n, name, fault)
	}
}
