package query_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
)

type shownSummary struct {
	From, To time.Time
	Totals   sums
	Previous struct {
		From, To time.Time
		Totals   sums
	}
	Change    map[string]*float64
	TopAgents []bucket `json:"top_agents"`
	TopModels []bucket `json:"top_models"`
	Month     struct {
		SpentUSD     json.Number `json:"spent_usd"`
		ProjectedUSD json.Number `json:"projected_usd"`
	}
}

// Totals are those of the events of the time and of the time before; the top is
// the dearest.
func TestSummaryAddsUpToTheEvents(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		t.Logf("seed %d", seed)
		w := newWorld(t, pool)
		events := w.alice.randomEvents(rand.New(rand.NewPCG(seed, 0)), 400)
		w.store(events...)
		w.materialise()
		var got shownSummary
		w.alice.get("/v1/analytics/summary?from=2025-11-01T06:30:00Z&to=2025-11-04T11:00:00Z").decode(http.StatusOK, &got)
		now, before, byAgent := total{Nano: "0"}, total{Nano: "0"}, map[string]total{}
		for i := range events {
			e := &events[i]
			switch {
			case !e.Time.Before(got.From) && e.Time.Before(got.To):
				now.add(ofEvent(e))
				sum, ok := byAgent[e.Agent]
				if !ok {
					sum.Nano = "0"
				}
				sum.add(ofEvent(e))
				byAgent[e.Agent] = sum
			case !e.Time.Before(got.Previous.From) && e.Time.Before(got.Previous.To):
				before.add(ofEvent(e))
			}
		}
		if diff := cmp.Diff([]total{now, before}, []total{got.Totals.total(t), got.Previous.Totals.total(t)}); diff != "" {
			t.Errorf("totals and previous (-events +answer):\n%s", diff)
		}
		top := map[string]total{}
		for i := range got.TopAgents {
			top[*got.TopAgents[i].Agent] = got.TopAgents[i].total(t)
			if i > 0 && len(got.TopAgents[i].total(t).Nano) > len(got.TopAgents[i-1].total(t).Nano) {
				t.Error("the top is not in the order of cost")
			}
		}
		if diff := cmp.Diff(byAgent, top); diff != "" {
			t.Errorf("top_agents (-events +answer):\n%s", diff)
		}
	})
}

// A month's spend goes on at the pace of the last week; change is in per cent.
func TestSummaryOfTheMonth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, database(t))
	var empty shownSummary
	w.alice.get("/v1/analytics/summary").decode(http.StatusOK, &empty)
	if empty.Month.SpentUSD != "0" || empty.Month.ProjectedUSD != "0" || empty.Change["cost_usd_percent"] != nil || empty.TopAgents == nil {
		t.Errorf("without events: %+v", empty)
	}
	w.store(
		w.alice.newEvent(func(e *schema.Event) { e.Cost = 150 }),
		w.alice.newEvent(func(e *schema.Event) { e.Cost, e.Time = 100, w.now.Add(-90*time.Minute) }),
	)
	to := w.now.Add(15 * time.Minute).Format("2006-01-02T15:04:05Z")
	from := w.now.Add(-45 * time.Minute).Format("2006-01-02T15:04:05Z")
	var got shownSummary
	w.alice.get("/v1/analytics/summary?from="+from+"&to="+to).decode(http.StatusOK, &got)
	if change := got.Change["cost_usd_percent"]; change == nil || *change != 50 {
		t.Errorf("cost_usd_percent = %v, want 50", change)
	}
	spent, _ := got.Month.SpentUSD.Float64()
	projected, _ := got.Month.ProjectedUSD.Float64()
	if projected < spent {
		t.Errorf("projected %v is less than spent %v", projected, spent)
	}
}
