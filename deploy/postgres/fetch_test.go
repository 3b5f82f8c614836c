package postgres

import (
	"context"
	"log/slog"
	"testing"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest/need"
)

// Where nothing is installed, a fetched build serves. It is kept, so that a machine fetches it once.
func TestFetchedBuildServes(t *testing.T) {
	t.Parallel()
	cacheDir := defaultCacheDir()
	in, ok := inspect(t.Context(), fetchedBin(cacheDir))
	if !ok {
		var err error
		if in, err = fetch(t.Context(), cacheDir, slog.New(slog.DiscardHandler)); err != nil {
			need.Missing(t, err)
		}
	}
	dir := openDir(t)
	f, err := lock(dir + "/lock")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{dir: dir, lock: f, install: in, edition: migrations.Plain}
	if c.owner, err = ownerOf(c.path("data")); err != nil {
		t.Fatal(err)
	}
	if err := c.ensureData(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	c.close()

	s := start(t, Config{DataDir: dir, Settings: fast})
	save(t, s.URL())
	if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if s.cluster.install != in {
		t.Errorf("data of the fetched build is served by %v, want %v", s.cluster.install, in)
	}
}
