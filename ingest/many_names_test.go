package ingest

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outlayhq/outlay/schema/budget"
	"github.com/outlayhq/outlay/schema/schematest"
)

// series is how many time series a registry shows.
func series(t *testing.T, r *prometheus.Registry) (n int) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		n += len(family.Metric)
	}
	return n
}

// heap is what is reachable, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // What pools held is gone after the second.
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Whoever sends ever new names, to be recorded or refused, makes neither time series nor memory of them. It does not run
// beside other tests, which use memory as well.
func TestNewNamesTakeNoSeriesAndNoMemory(t *testing.T) {
	// What was refused is summed up by agent, within bounds, until it is written.
	for name, most := range map[string]int64{"recorded": 8 << 20, "refused": 48 << 20} {
		t.Run(name, func(t *testing.T) {
			f := newFixtureWithCaps(t, &laterCaps{noCaps{}})
			f.forgetRecords()
			if name == "refused" {
				f.cap(t, schematest.Database(t), budget.Budget{
					Scope: budget.Scope{AccountID: f.account}, Limit: 1, Period: budget.Total, Timezone: "UTC", OnUnpriced: budget.Allow,
				})
				if got := f.post(t, "/v1/track", `{"agent":"a","cost_usd":1}`); got.status != http.StatusOK {
					t.Fatal(got.status)
				}
			}
			want := "200"
			if name == "refused" {
				want = "402"
			}
			round := func(n int) {
				t.Helper()
				for batch := range 20 {
					var b strings.Builder
					for i := range 500 {
						x := fmt.Sprintf("%d-%d-%d-%s", n, batch, i, strings.Repeat("x", 80))
						fmt.Fprintf(&b, `,{"agent":"a%s","model":"m%s","provider":"p%s","user_id":"u%s","step":"s%s","session_id":"i%s","tags":["t%.40s"],"status":"error","error_type":"e%.60s","cost_usd":0.1,"latency_ms":1}`,
							x, x, x, x, x, x, x, x)
					}
					for _, result := range f.post(t, "/v1/track/batch", "["+b.String()[1:]+"]").results(t) {
						if fmt.Sprint(result["status"]) != want {
							t.Fatalf("%.300v, want status %s", result, want)
						}
					}
					f.post(t, "/v1/"+strings.Repeat("y", n+batch), `{}`)
				}
			}
			round(0)
			before, used := series(t, f.registry), heap()
			for n := range 4 {
				round(n + 1)
			}
			after, more := series(t, f.registry), int64(heap())-int64(used)
			t.Logf("%d series and %d KiB more after 40000 events with new names", after-before, more>>10)
			// Their names alone are more than 20 MB.
			if after != before || more > most {
				t.Errorf("%d series became %d, and %d bytes more are held", before, after, more)
			}
		})
	}
}

// forgetRecords makes the broker acknowledge records and keep none.
func (f *fixture) forgetRecords() {
	f.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		request := r.(*kmsg.ProduceRequest)
		response := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range request.Topics {
			answered := kmsg.NewProduceResponseTopic()
			answered.Topic, answered.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition = partition.Partition
				answered.Partitions = append(answered.Partitions, p)
			}
			response.Topics = append(response.Topics, answered)
		}
		return response, nil, true
	})
}
