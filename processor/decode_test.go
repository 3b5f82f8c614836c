package processor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/processor/timescale"
)

// records makes a batch of the given partition and offset pairs.
func records(pairs ...[2]int64) batch {
	var b batch
	for _, p := range pairs {
		b = append(b, item{Item: timescale.Item{Partition: int32(p[0]), Offset: p[1]}})
	}
	return b
}

func TestSpansOfDenseBatch(t *testing.T) {
	t.Parallel()
	got, ok := records([2]int64{0, 5}, [2]int64{0, 6}, [2]int64{2, 0}).spans()
	want := []timescale.Span{{Partition: 0, First: 5, Next: 7}, {Partition: 2, First: 0, Next: 1}}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("spans differ, ok %v (-want +got):\n%s", ok, diff)
	}
}

// A gap inside a partition must never be stored over.
func TestSpansRefusesAGap(t *testing.T) {
	t.Parallel()
	if _, ok := records([2]int64{0, 5}, [2]int64{0, 7}).spans(); ok {
		t.Error("a batch with a gap has spans")
	}
}

func TestAfterDropsWhatIsStored(t *testing.T) {
	t.Parallel()
	b := records([2]int64{0, 5}, [2]int64{0, 6}, [2]int64{1, 3})
	for _, c := range []struct {
		name string
		next map[int32]int64
		want batch
		ok   bool
	}{
		{"nothing stored", map[int32]int64{0: 5, 1: 3}, b, true},
		{"some stored", map[int32]int64{0: 6, 1: 3}, b[1:], true},
		{"one partition stored", map[int32]int64{0: 7, 1: 3}, b[2:], true},
		{"all stored", map[int32]int64{0: 9, 1: 4}, nil, true},
		{"records before it are missing", map[int32]int64{0: 4, 1: 3}, nil, false},
		{"partition unknown", map[int32]int64{0: 5}, nil, false},
	} {
		got, ok := b.after(c.next)
		if ok != c.ok || len(got) != len(c.want) {
			t.Errorf("%s: %d records, %v, want %d, %v", c.name, len(got), ok, len(c.want), c.ok)
			continue
		}
		for i := range got {
			if got[i].Partition != c.want[i].Partition || got[i].Offset != c.want[i].Offset {
				t.Errorf("%s: record %d is %d/%d", c.name, i, got[i].Partition, got[i].Offset)
			}
		}
	}
}
