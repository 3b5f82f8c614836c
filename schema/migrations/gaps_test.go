package migrations

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/tern/v2/migrate"
)

// A migration keeps the number of its file, whatever numbers are missing before it.
func TestNumbersMayBeMissing(t *testing.T) {
	t.Parallel()
	dir := gapless{fstest.MapFS{
		"001_first.sql": {Data: []byte("select 'first'")}, "004_fourth.sql": {Data: []byte("select 'fourth'")},
		"usage/part.sql": {Data: []byte("select 'part'")},
	}}
	found, err := migrate.FindMigrations(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"001_first.sql", "002" + unusedSuffix, "003" + unusedSuffix, "004_fourth.sql"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("migrations (-want +got):\n%s", diff)
	}
	if text, err := fs.ReadFile(dir, "004_fourth.sql"); err != nil || string(text) != "select 'fourth'" {
		t.Errorf("the fourth reads %q, %v", text, err)
	}
}
