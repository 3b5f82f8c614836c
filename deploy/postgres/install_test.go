package postgres

import (
	"errors"
	"testing"

	"github.com/outlayhq/outlay/schema/migrations"
)

// The best edition wins, then the order of the list; data decides over both.
func TestChoose(t *testing.T) {
	t.Parallel()
	community15 := Installation{Bin: "community15", Major: 15, Timescale: migrations.Community}
	apache17 := Installation{Bin: "apache17", Major: 17, Timescale: migrations.Apache}
	plain18 := Installation{Bin: "plain18", Major: 18, Timescale: migrations.Plain}
	all := []Installation{community15, apache17, plain18}
	cases := []struct {
		name    string
		found   []Installation
		want    migrations.Edition
		major   int
		bin     string
		edition migrations.Edition
		err     error
	}{
		{"best of all", all, Best, 0, "community15", migrations.Community, nil},
		{"best for data of 17", all, Best, 17, "apache17", migrations.Apache, nil},
		{"best for data of 18", all, Best, 18, "plain18", migrations.Plain, nil},
		{"community can do apache", all, migrations.Apache, 0, "community15", migrations.Apache, nil},
		{"anything can do plain", []Installation{plain18}, migrations.Plain, 0, "plain18", migrations.Plain, nil},
		{"plain cannot do apache", []Installation{plain18}, migrations.Apache, 0, "", "", ErrNotInstalled},
		{"apache cannot do community", []Installation{apache17, plain18}, migrations.Community, 0, "", "", ErrNotInstalled},
		{"no programs for the data", all, Best, 16, "", "", ErrNotInstalled},
		{"community data of another version", all, migrations.Community, 17, "", "", ErrNotInstalled},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in, edition, err := choose(c.found, c.want, c.major)
			if in.Bin != c.bin || edition != c.edition || !errors.Is(err, c.err) {
				t.Errorf("choose(%q, %d) = %q, %q, %v, want %q, %q, %v", c.want, c.major, in.Bin, edition, err, c.bin, c.edition, c.err)
			}
		})
	}
}
