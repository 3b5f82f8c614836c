package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
)

type shownDelivery struct {
	ID, Type, Address, Message, State string
	NextTryAt                         *time.Time `json:"next_try_at"`
	Tries                             []struct {
		Try     int
		Outcome string
		Status  *int
	}
}

// A test is noted for each channel, not more often than every ten seconds, and a
// delivery that is over can be sent again under the same id.
func TestTestsAndReplays(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		made := w.alice.newAlert(`{"name":"n","metric":"events","window":"5m","condition":{"type":"above","value":1}}`)
		path := "/v1/alerts/" + made.ID
		w.alice.post(path+"/test", "").refused(http.StatusConflict)
		w.alice.patch(path, `{"channels":[{"type":"webhook","url":"https://example.com/a"},{"type":"email","to":"a@b.example"}]}`).want(http.StatusOK)
		var page struct {
			Data []shownDelivery
			Next *string `json:"next_cursor"`
		}
		w.alice.post(path+"/test", "").decode(http.StatusAccepted, &page)
		if len(page.Data) != 2 || page.Data[0].State != "pending" || page.Data[0].Message != "alert.firing" || page.Data[0].NextTryAt == nil {
			t.Fatalf("test: %+v", page.Data)
		}
		tested := page.Data[0]
		w.alice.post(path+"/test", "").refused(http.StatusConflict)
		replay := path + "/deliveries/" + tested.ID + "/replay"
		w.alice.post(replay, "").refused(http.StatusConflict)
		w.alice.post(path+"/deliveries/whd_x/replay", "").refused(http.StatusNotFound)
		w.alice.post(path+"/deliveries/"+schema.NewID(w.now).Text(alert.DeliveryPrefix)+"/replay", "").refused(http.StatusNotFound)
		id, err := schema.ParseID(alert.DeliveryPrefix, tested.ID)
		if err != nil {
			t.Fatal(err)
		}
		w.exec(`UPDATE deliveries SET state = 'failed', finished_at = now(), tries = 1 WHERE delivery_id = $1`, id)
		w.exec(`INSERT INTO delivery_tries VALUES ($1, $2, 1, now(), 12, 'bad_status', 500)`, id, w.alice.account)
		w.alice.post(replay, "").want(http.StatusAccepted)
		w.alice.get(path+"/deliveries?limit=1").decode(http.StatusOK, &page)
		first := page.Data
		w.alice.get(path+"/deliveries?limit=1&cursor="+*page.Next).decode(http.StatusOK, &page)
		all := append(first, page.Data...)
		i := slices.IndexFunc(all, func(d shownDelivery) bool { return d.ID == tested.ID })
		if page.Next != nil || len(all) != 2 || i < 0 || all[i].State != "pending" || len(all[i].Tries) != 1 || *all[i].Tries[0].Status != 500 {
			t.Errorf("deliveries: %+v", all)
		}
		w.alice.get(path + "/deliveries?cursor=x").refused(http.StatusUnprocessableEntity)
	})
}

// Incidents are listed newest first, page by page, by rule, agent and state, with what
// was told, and stay when their rule is gone.
func TestIncidentsAreListed(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		made := w.alice.newAlert(`{"name":"n","metric":"cost_usd","window":"5m","condition":{"type":"above","value":1},"channels":[{"type":"email","to":"a@b.example"}]}`)
		rule, err := schema.ParseID(alert.RulePrefix, made.ID)
		if err != nil {
			t.Fatal(err)
		}
		at := func(minute int) time.Time { return w.now.Add(time.Duration(minute) * time.Minute) }
		for i := range 4 {
			id := schema.NewID(at(i))
			w.exec(`INSERT INTO incidents (incident_id, account_id, kind, alert_id, name, metric, scope, started_at, ended_at, value, peak, peak_at, summary)
				VALUES ($1, $2, 'alert', $3, 'n', 'cost_usd', $4, $5, $6, 1500000000, 2000000001, $5, 's')`,
				id, w.alice.account, rule, []string{"bot", ""}[i%2], at(i), map[bool]any{true: at(i + 1), false: nil}[i < 2])
			w.exec(`INSERT INTO deliveries (delivery_id, account_id, channel_id, channel_type, address, alert_id, incident_id, type, cause, title,
				summary, payload, state, created_at, next_try_at, give_up_at, finished_at)
				VALUES ($1, $2, $3, 'email', 'a@b.example', $4, $5, 'alert.firing', 'c', 't', 's', '{}', 'delivered', $6, $6, $6, $6)`,
				schema.NewID(at(i)), w.alice.account, schema.NewID(at(i)), rule, id, at(i))
		}
		w.exec(`INSERT INTO incidents (incident_id, account_id, kind, name, metric, scope, started_at, ended_at, value, peak, peak_at, summary, period_start, epoch, share)
			VALUES ($1, $2, 'budget', 'b', 'budget_used', 'bot', $3, $3, 0.8, 0.8, $3, 's', $3, 0, 0.8)`, schema.NewID(at(9)), w.alice.account, at(9))
		type incident struct {
			ID, Kind, State, Agent string
			Value, Peak            json.Number
			StartedAt              time.Time `json:"started_at"`
			Deliveries             []struct{ State, Address, Message string }
		}
		list := func(query string) (all []incident) {
			t.Helper()
			for cursor := ""; ; {
				var page struct {
					Data []incident
					Next *string `json:"next_cursor"`
				}
				w.alice.get("/v1/incidents?limit=2"+query+cursor).decode(http.StatusOK, &page)
				all = append(all, page.Data...)
				if page.Next == nil {
					return all
				}
				cursor = "&cursor=" + *page.Next
			}
		}
		for query, want := range map[string]string{
			"": "9 3 2 1 0", "&state=firing": "3 2", "&state=resolved": "9 1 0", "&agent=bot": "9 2 0", "&alert_id=" + made.ID: "3 2 1 0",
			"&from=" + at(1).Format(time.RFC3339) + "&to=" + at(3).Format(time.RFC3339): "2 1",
		} {
			var got []string
			for _, i := range list(query) {
				got = append(got, fmt.Sprint(int(i.StartedAt.Sub(w.now).Minutes())))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %v, want %s", query, got, want)
			}
		}
		w.send(w.alice.token, http.MethodDelete, "/v1/alerts/"+made.ID, "").want(http.StatusNoContent)
		last := list("")[4]
		if last.State != "resolved" || last.Value != "1.5" || last.Peak != "2.000000001" || len(last.Deliveries) != 1 || last.Deliveries[0].State != "delivered" {
			t.Errorf("the first incident: %+v", last)
		}
		for _, bad := range []string{"alert_id=x", "state=open", "cursor=x", "limit=0", "scope=x"} {
			w.alice.get("/v1/incidents?" + bad).refused(http.StatusUnprocessableEntity)
		}
		var page struct{ Data []incident }
		w.bob.get("/v1/incidents").decode(http.StatusOK, &page)
		if len(page.Data) != 0 {
			t.Errorf("bob sees %d incidents", len(page.Data))
		}
	})
}
