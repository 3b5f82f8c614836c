package tariff_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/schematest"
	"github.com/outlayhq/outlay/schema/tariff"
)

func rate(t *testing.T, text string) *price.Rate {
	t.Helper()
	r, err := price.ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

// An override comes back as it was kept, belongs to its account alone, and is there once.
func TestStoreKeepsOverrides(t *testing.T) {
	t.Parallel()
	db := schematest.Database(t)
	s := tariff.NewStore(db.Pool)
	now := time.Now().UTC().Truncate(time.Microsecond)
	mine, other, user := schema.ID{15: 1}, schema.ID{15: 2}, schema.ID{15: 3}
	for _, id := range []schema.ID{mine, other} {
		if _, err := db.Pool.Exec(t.Context(), `INSERT INTO accounts (id, name) VALUES ($1, 'test')`, id); err != nil {
			t.Fatal(err)
		}
	}
	plain := tariff.Override{
		ID: schema.NewID(now), AccountID: mine, CreatedAt: now,
		Override: price.Override{Match: "gpt-4o*", Rates: price.Rates{Input: rate(t, "0"), Output: rate(t, "0.000001")}},
	}
	full := tariff.Override{
		ID: schema.NewID(now), AccountID: mine, CreatedAt: now, CreatedBy: &user,
		Override: price.Override{
			Match: "gpt-4o*", Provider: "openai", From: now,
			Rates: price.Rates{
				Input: rate(t, "1.25"), Output: rate(t, "1000000"), CacheRead: rate(t, "0.5"), CacheWrite: rate(t, "2"),
				CacheWrite1h: rate(t, "3"), Reasoning: rate(t, "4"),
			},
		},
	}
	others := plain
	others.ID, others.AccountID = schema.NewID(now), other
	for _, o := range []tariff.Override{plain, full, others} {
		if err := s.Add(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.OfAccount(t.Context(), mine)
	if diff := cmp.Diff([]tariff.Override{plain, full}, got); err != nil || diff != "" {
		t.Errorf("%v; overrides (-want +got):\n%s", err, diff)
	}
	if all, err := s.All(t.Context()); err != nil || len(all) != 3 {
		t.Errorf("%d of all, %v, want 3", len(all), err)
	}
	again := plain
	again.ID = schema.NewID(now)
	if err := s.Add(t.Context(), again); !errors.Is(err, tariff.ErrExists) {
		t.Errorf("the same again: %v, want ErrExists", err)
	}
	if err := s.Delete(t.Context(), mine, others.ID); !errors.Is(err, tariff.ErrNotFound) {
		t.Errorf("remove another account's: %v, want ErrNotFound", err)
	}
	if err := s.Delete(t.Context(), mine, plain.ID); err != nil {
		t.Error(err)
	}
	if got, err := s.OfAccount(t.Context(), mine); err != nil || len(got) != 1 {
		t.Errorf("after removing one: %v, %v", got, err)
	}
}

// What a client may not ask for is listed whole.
func TestCheckListsFaults(t *testing.T) {
	t.Parallel()
	faults := tariff.Override{Override: price.Override{Match: " ", Provider: "a\x00"}}.Check()
	for _, field := range []string{"match", "provider", "input_usd_per_mtok", "output_usd_per_mtok"} {
		if !faults.Has(field) {
			t.Errorf("%v does not name %s", faults, field)
		}
	}
}
