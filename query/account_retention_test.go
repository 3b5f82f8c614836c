package query_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
)

type shownRetention struct {
	RetentionDays    *int    `json:"retention_days"`
	InstallationDays *int    `json:"installation_days"`
	MinimumDays      int     `json:"minimum_days"`
	DeletedBefore    *string `json:"deleted_before"`
	SumsKept         bool    `json:"sums_kept"`
}

// A retention is between what the aggregates need and what the installation keeps, is the account's own, and is on the audit log.
func TestRetentionOfAnAccount(t *testing.T) {
	t.Parallel()
	eachEdition(t, func(t *testing.T, pool *pgxpool.Pool) {
		w := newWorld(t, pool)
		var edition string
		if err := pool.QueryRow(t.Context(), `SELECT edition FROM schema_settings`).Scan(&edition); err != nil {
			t.Fatal(err)
		}
		w.exec(`UPDATE schema_settings SET raw_retention = interval '365 days'`)
		days, year := 90, 365
		check := func(p *person, own *int) {
			t.Helper()
			var got shownRetention
			p.get("/v1/account/retention").decode(http.StatusOK, &got)
			if got.DeletedBefore == nil {
				t.Error("no deleted_before where the installation drops events")
			}
			got.DeletedBefore = nil
			want := shownRetention{RetentionDays: own, InstallationDays: &year, MinimumDays: 46, SumsKept: true}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("retention (-want +got):\n%s", diff)
			}
		}
		check(w.alice, nil)
		w.alice.put("/v1/account/retention", `{"retention_days":90}`).want(http.StatusOK)
		check(w.alice, &days)
		check(w.bob, nil)
		for _, bad := range []string{`{"retention_days":45}`, `{"retention_days":366}`, `{"retention_days":0}`, `{"retention_days":99999999}`, `{}`} {
			refusal := w.alice.put("/v1/account/retention", bad).refused(http.StatusUnprocessableEntity)
			if refusal.Errors[0].Field != "retention_days" {
				t.Errorf("%s: %+v", bad, refusal)
			}
		}
		check(w.alice, &days)
		w.alice.remove("/v1/account/retention").want(http.StatusNoContent)
		check(w.alice, nil)
		audit := string(w.alice.get("/v1/audit").body)
		for _, action := range []string{"account.set_retention", "account.remove_retention"} {
			if !strings.Contains(audit, action) {
				t.Errorf("the audit log lacks %s: %s", action, audit)
			}
		}
	})
}
