package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outlayhq/outlay/schema/migrations"
)

// Best stands for the most capable edition that is installed.
const Best migrations.Edition = ""

// oldest is the oldest major version of PostgreSQL that Outlay runs on.
const oldest = 15

// ErrNotInstalled is in the chain of an error about an edition, or a version, that this machine does not have.
var ErrNotInstalled = errors.New("not installed")

// Installation is a set of PostgreSQL programs found on this machine.
type Installation struct {
	Bin       string             // The directory of postgres and initdb.
	Major     int                // 15 for 15.18.
	Minor     int                // 18 for 15.18.
	Timescale migrations.Edition // The most that its TimescaleDB can do: Community, Apache, or Plain when it has none.
}

// places are where packages put the programs, as patterns.
var places = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/usr/local/opt/postgresql*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
}

// Installed lists what is installed, the best first: the most capable edition, then the newest version. Builds that were
// fetched into cacheDir come last.
func Installed(ctx context.Context, cacheDir string) []Installation {
	var found []Installation
	for _, bin := range binDirs() {
		if in, ok := inspect(ctx, bin); ok {
			found = append(found, in)
		}
	}
	// Stable: of equal ones the first in the order of the directories wins, at every start.
	slices.SortStableFunc(found, func(a, b Installation) int {
		return cmp.Or(rank(b.Timescale)-rank(a.Timescale), b.Major-a.Major, b.Minor-a.Minor)
	})
	if in, ok := inspect(ctx, fetchedBin(cacheDir)); ok {
		found = append(found, in)
	}
	return found
}

// Editions lists the editions that the installed servers offer, the least first.
func Editions(ctx context.Context) []migrations.Edition {
	var all []migrations.Edition
	for _, in := range Installed(ctx, defaultCacheDir()) {
		for _, e := range []migrations.Edition{migrations.Plain, migrations.Apache, migrations.Community} {
			if rank(e) <= rank(in.Timescale) && !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b migrations.Edition) int { return rank(a) - rank(b) })
	return all
}

// rank orders editions by what they can do; one of them offers all that a lower one does.
func rank(e migrations.Edition) int {
	return slices.Index([]migrations.Edition{migrations.Plain, migrations.Apache, migrations.Community}, e)
}

// choose picks the installation for an edition that is known. major is the version that existing data needs, or 0.
func choose(found []Installation, want migrations.Edition, major int) (Installation, migrations.Edition, error) {
	for _, in := range found {
		if major != 0 && in.Major != major {
			continue
		}
		if want == Best {
			return in, in.Timescale, nil
		}
		if rank(want) <= rank(in.Timescale) {
			return in, want, nil
		}
	}
	// The error names what to install.
	what := fmt.Sprintf("PostgreSQL %d or later", oldest)
	if major != 0 {
		what = fmt.Sprintf("PostgreSQL %d, which the data was made with,", major)
	}
	if want == migrations.Community || want == migrations.Apache {
		what += " with TimescaleDB (" + string(want) + ")"
	}
	return Installation{}, "", fmt.Errorf("%s: %w", what, ErrNotInstalled)
}

// binDirs lists the directories that may hold the programs, each once.
func binDirs() []string {
	var dirs []string
	for _, pattern := range places {
		matches, _ := filepath.Glob(pattern) // The only error is a bad pattern, and ours are constant.
		dirs = append(dirs, matches...)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	// Several patterns may reach one directory through links.
	for i, dir := range dirs {
		if target, err := filepath.EvalSymlinks(dir); err == nil {
			dirs[i] = target
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// versionPattern matches what postgres --version prints, such as "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)".
var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?`)

// inspect asks the programs in bin what they are. ok is false for a directory that lacks one, and for a version too old for us.
func inspect(ctx context.Context, bin string) (in Installation, ok bool) {
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
		return in, false
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return in, false
	}
	m := versionPattern.FindStringSubmatch(string(out))
	if m == nil {
		return in, false
	}
	major, _ := strconv.Atoi(m[1]) // The pattern admits digits only.
	minor, _ := strconv.Atoi(m[2]) // As above; nothing, in a beta version, is 0.
	return Installation{Bin: bin, Major: major, Minor: minor, Timescale: timescale(ctx, bin)}, major >= oldest
}

// timescale returns the edition of the TimescaleDB beside the programs in bin. The Community code is a library of its own, which an
// Apache-2 build does not have.
func timescale(ctx context.Context, bin string) migrations.Edition {
	share := configured(ctx, bin, "--sharedir", "../share/postgresql")
	if _, err := os.Stat(filepath.Join(share, "extension", "timescaledb.control")); err != nil {
		return migrations.Plain
	}
	// Debian keeps libraries and extensions in other directories than the programs.
	lib := configured(ctx, bin, "--pkglibdir", "../lib/postgresql")
	if tsl, _ := filepath.Glob(filepath.Join(lib, "timescaledb-tsl-*")); len(tsl) > 0 {
		return migrations.Community
	}
	return migrations.Apache
}

// configured asks the pg_config beside the programs for a directory, and assumes the usual one where there is no pg_config.
func configured(ctx context.Context, bin, option, usual string) string {
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "pg_config"), option).Output()
	if err != nil {
		return filepath.Join(bin, usual)
	}
	return strings.TrimSpace(string(out))
}
