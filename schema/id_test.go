package schema

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The text of an id names the same id, whatever its bytes.
func TestIDTextRoundTrips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var id ID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
		text := id.Text(EventPrefix)
		if len(text) != len("evt_")+26 {
			t.Fatalf("Text() = %q, want 26 characters after the prefix", text)
		}
		back, err := ParseID(EventPrefix, text)
		if err != nil || back != id {
			t.Fatalf("ParseID(%q) = %x, %v, want %x", text, back, err, id)
		}
	})
}

// The alphabet and bit order are TypeID's: its specification gives this pair.
func TestIDTextIsTypeID(t *testing.T) {
	t.Parallel()
	id := ID{0x01, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77, 0x4b, 0xbc, 0xce, 0xb3, 0x02, 0x09, 0x9a, 0x80, 0x57}
	if got, want := id.Text("prefix"), "prefix_01h455vb4pex5vsknk084sn02q"; got != want {
		t.Errorf("Text() = %q, want %q", got, want)
	}
}

func TestParseIDRefuses(t *testing.T) {
	t.Parallel()
	good := ID{15: 1}.Text(EventPrefix)
	for name, text := range map[string]string{
		"empty":          "",
		"other prefix":   "ses" + good[3:],
		"no underscore":  "evt-" + good[4:],
		"too short":      good[:len(good)-1],
		"too long":       good + "0",
		"upper case":     "evt_" + "0000000000000000000000000Z",
		"letter l":       "evt_" + "0000000000000000000000000l",
		"above 128 bits": "evt_" + "80000000000000000000000000",
	} {
		if _, err := ParseID(EventPrefix, text); !errors.Is(err, ErrBadID) {
			t.Errorf("%s: ParseID(%q) error = %v, want ErrBadID", name, text, err)
		}
	}
}

// Ids made later sort later, in bytes and in text.
func TestNewIDSortsByTime(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	a, b := NewID(now), NewID(now.Add(time.Millisecond))
	if bytes.Compare(a[:], b[:]) >= 0 || a.Text(EventPrefix) >= b.Text(EventPrefix) {
		t.Errorf("%x does not sort before %x", a, b)
	}
	if a[6]>>4 != 7 || a[8]>>6 != 2 {
		t.Errorf("%x is not a UUIDv7", a)
	}
}

// A key of one account has nothing to do with the same key of another.
func TestKeyedEventIDBelongsToAccount(t *testing.T) {
	t.Parallel()
	a, b := ID{15: 1}, ID{15: 2}
	once, again := KeyedEventID(a, "k"), KeyedEventID(a, "k")
	if once != again {
		t.Error("the same account and key give different ids")
	}
	if KeyedEventID(a, "k") == KeyedEventID(b, "k") || KeyedEventID(a, "k") == KeyedEventID(a, "l") {
		t.Error("different accounts or keys give the same id")
	}
}
