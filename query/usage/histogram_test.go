package usage_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Percentiles read here are those that the database's own function gives to
// Grafana, for histograms of any kind.
func TestPercentilesAreThoseOfTheDatabase(t *testing.T) {
	t.Parallel()
	const ask = `
		SELECT sum(latency_histogram(ms)), coalesce(max(ms), 0), latency_percentiles(sum(latency_histogram(ms)), max(ms), 1, 50, 95, 99, 100)
		FROM unnest($1::bigint[]) AS ms`
	pool := schematest.Database(t).Pool
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		latencies := make([]int64, round/4)
		for i := range latencies {
			latencies[i] = random.Int64N(1 << random.IntN(53))
		}
		var h usage.Histogram
		var highest int64
		var want []int64
		if err := pool.QueryRow(t.Context(), ask, latencies).Scan(&h, &highest, &want); err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, percent := range []int64{1, 50, 95, 99, 100} {
			if p := h.Percentile(percent, highest); p != nil {
				got = append(got, *p)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("percentiles of %v (-database +here):\n%s", latencies, diff)
		}
	}
}
