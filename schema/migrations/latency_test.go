package migrations_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

const selectPercentiles = `
select coalesce(latency_percentiles(sum(latency_histogram(ms)), max(ms), 50, 95, 99), '{}')
from unnest($1::bigint[]) as ms`

// Percentiles are within 11 percent of the true ones by nearest rank, never above the highest latency, and the same in all
// editions.
func TestLatencyPercentilesAreNearTheTruth(t *testing.T) {
	t.Parallel()
	samples := latencySamples()
	schematest.EachEdition(t, func(t *testing.T, db *schematest.DB) {
		conn := connect(t, db)
		for name, sample := range samples {
			got := one[[]int64](t, conn, selectPercentiles, sample)
			if len(got) != 3 {
				t.Fatalf("%s: percentiles = %v, want three", name, got)
			}
			slices.Sort(sample)
			for i, percent := range []int{50, 95, 99} {
				want := sample[(len(sample)*percent+99)/100-1]
				if off := math.Abs(float64(got[i]-want)) / float64(max(want, 1)); off > 0.112 {
					t.Errorf("%s: p%d = %d, want %d within 11 percent: %.1f percent off", name, percent, got[i], want, 100*off)
				}
				if highest := sample[len(sample)-1]; got[i] > highest {
					t.Errorf("%s: p%d = %d is above the highest, %d", name, percent, got[i], highest)
				}
			}
		}
	})
}

// latencySamples have every length that a slot may come by: whole milliseconds to hours.
func latencySamples() map[string][]int64 {
	random := rand.New(rand.NewPCG(1, 2))
	samples := map[string][]int64{"zero": {0}, "one": {1}, "same": {700, 700, 700}, "zero and one": {0, 1}}
	var every, even []int64
	for v := range int64(2000) {
		every = append(every, v)
		even = append(even, v*8000)
	}
	samples["every millisecond"], samples["up to hours"] = every, even
	var skewed, hours []int64
	for range 5000 {
		skewed = append(skewed, int64(math.Exp(6.5+1.1*random.NormFloat64())))
		hours = append(hours, random.Int64N(16_000_000))
	}
	samples["skewed"], samples["hours"] = skewed, hours
	return samples
}

// The histogram of a whole is the sum of those of its parts, whatever the parts.
func TestLatencyHistogramsAdd(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.DatabaseOf(t, migrations.Plain))
	sample := latencySamples()["skewed"]
	whole := one[string](t, conn, `select sum(latency_histogram(ms))::text from unnest($1::bigint[]) as ms`, sample)
	parts := one[string](t, conn, `
		select sum(part)::text
		from (select sum(latency_histogram(ms)) as part from unnest($1::bigint[]) as ms group by ms % 17) as p`, sample)
	if diff := cmp.Diff(whole, parts); diff != "" {
		t.Errorf("whole (-) and sum of parts (+) differ:\n%s", diff)
	}
}

// What has no latency has no percentile, and the ends of the scale are in a slot.
func TestLatencyAtTheEdges(t *testing.T) {
	t.Parallel()
	conn := connect(t, schematest.DatabaseOf(t, migrations.Plain))
	got := column[*int64](t, conn, `
		select latency_percentile(histogram, highest, percent)
		from (values
			(1, 0, 0, 50), (2, null, 5, 50), (3, latency_histogram(null), null, 50),
			(4, latency_histogram(0), 0, 50), (5, latency_histogram(1), 1, 99),
			(6, latency_histogram(16777215), 16777215, 50), (7, latency_histogram(16777216), 16777216, 50),
			(8, latency_histogram(9007199254740991), 9007199254740991, 99),
			(9, latency_histogram(10) + latency_histogram(20), 20, 50),
			(10, latency_histogram(10) + latency_histogram(20), 20, 51),
			(11, latency_histogram(23) * 99999999999 + latency_histogram(1), 26, 99)
		) as edge (n, histogram, highest, percent)
		order by n`)
	ms := func(v int64) *int64 { return &v }
	want := []*int64{nil, nil, nil, ms(0), ms(1), ms(15384775), ms(16777216), ms(9007199254740991), ms(10), ms(20), ms(24)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("percentiles at the edges (-want +got):\n%s", diff)
	}
}
