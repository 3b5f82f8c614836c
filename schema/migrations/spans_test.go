package migrations

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func clock(text string) time.Time {
	t, err := time.Parse("02 15:04", text)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return t
}

// Buckets that touch become one span, at every width.
func TestSpansOf(t *testing.T) {
	t.Parallel()
	times := []time.Time{clock("01 10:00"), clock("01 10:15"), clock("01 11:45"), clock("02 00:00")}
	for width, want := range map[time.Duration][]span{
		15 * time.Minute: {
			{clock("01 10:00"), clock("01 10:30")}, {clock("01 11:45"), clock("01 12:00")}, {clock("02 00:00"), clock("02 00:15")},
		},
		time.Hour: {{clock("01 10:00"), clock("01 12:00")}, {clock("02 00:00"), clock("02 01:00")}},
		day:       {{clock("01 00:00"), clock("03 00:00")}},
	} {
		if diff := cmp.Diff(want, spansOf(times, width), cmp.AllowUnexported(span{})); diff != "" {
			t.Errorf("spansOf(%v) (-want +got):\n%s", width, diff)
		}
	}
}

// Whatever ends above the bottom becomes one span that leaves no gap above it.
func TestFill(t *testing.T) {
	t.Parallel()
	spans := []span{{clock("01 10:00"), clock("01 11:00")}, {clock("01 13:00"), clock("01 14:00")}, {clock("01 16:00"), clock("01 17:00")}}
	for _, tc := range []struct {
		name, bottom string
		want         []span
	}{
		{"all below", "01 17:00", spans},
		{"bottom between", "01 15:00", []span{spans[0], spans[1], {clock("01 15:00"), clock("01 17:00")}}},
		{"bottom inside", "01 13:30", []span{spans[0], {clock("01 13:00"), clock("01 17:00")}}},
		{"all above", "01 09:00", []span{{clock("01 09:00"), clock("01 17:00")}}},
	} {
		if diff := cmp.Diff(tc.want, fill(spans, clock(tc.bottom)), cmp.AllowUnexported(span{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	if got := fill(nil, clock("01 09:00")); got != nil {
		t.Errorf("fill of nothing = %v", got)
	}
}
