package postgres

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"

	"github.com/outlayhq/outlay/schema/migrations"
)

// fetchedVersion is the build that is fetched where nothing is installed: the major version of the production image.
const fetchedVersion = embedded.V17

// fetchedBin is where a fetched build has its programs.
func fetchedBin(cacheDir string) string {
	return filepath.Join(cacheDir, "postgresql-"+string(fetchedVersion), "bin")
}

// fetchedMajor is the major version of the build that is fetched.
func fetchedMajor() int {
	major, _, _ := strings.Cut(string(fetchedVersion), ".")
	n, _ := strconv.Atoi(major) // A constant of the library.
	return n
}

// fetchable reports whether the build that can be fetched serves an edition and existing data of version major, 0 for none.
func fetchable(want migrations.Edition, major int) bool {
	return (want == Best || want == migrations.Plain) && (major == 0 || major == fetchedMajor())
}

// defaultCacheDir is a directory that the server's user can reach: the cache directory of root's home is closed to it.
func defaultCacheDir() string {
	if os.Geteuid() == 0 {
		return "/var/cache/outlay"
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "outlay")
}

// fetch downloads a build of PostgreSQL into cacheDir, once; another start finds it there. The library can only download as the
// first half of a start that initialises a cluster, and refuses root in the second half; given a data directory that
// looks initialised and has no configuration, it unpacks the programs and stops there, whoever runs it.
func fetch(ctx context.Context, cacheDir string, log *slog.Logger) (Installation, error) {
	log.InfoContext(ctx, "no postgres is installed: fetching one", "version", string(fetchedVersion), "into", cacheDir)
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return Installation{}, fmt.Errorf("fetch postgres: %w", err)
	}
	// The programs are unpacked beside their place and renamed, so that a killed fetch leaves none that look complete.
	work, err := os.MkdirTemp(cacheDir, "fetch-")
	if err != nil {
		return Installation{}, fmt.Errorf("fetch postgres: %w", err)
	}
	defer os.RemoveAll(work)

	if err := unpack(ctx, work); err != nil {
		return Installation{}, fmt.Errorf("fetch postgres %s: %w", fetchedVersion, err)
	}
	home := filepath.Dir(fetchedBin(cacheDir))
	if err := os.Rename(filepath.Join(work, "home"), home); err != nil {
		return Installation{}, fmt.Errorf("fetch postgres: %w", err)
	}
	in, ok := inspect(ctx, fetchedBin(cacheDir))
	if !ok {
		return Installation{}, fmt.Errorf("fetch postgres: the programs in %s do not run here", home)
	}
	return in, nil
}

// unpack leaves the programs in work/home.
func unpack(ctx context.Context, work string) error {
	home, data := filepath.Join(work, "home"), filepath.Join(work, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(strconv.Itoa(fetchedMajor())+"\n"), 0o600); err != nil {
		return err
	}
	// The library wants a port that is free, and never listens on it here.
	port, err := choosePort(ctx, 0)
	if err != nil {
		return err
	}
	err = embedded.NewDatabase(embedded.DefaultConfig().Version(fetchedVersion).Port(uint32(port)).Logger(io.Discard).
		CachePath(work).RuntimePath(filepath.Join(work, "run")).BinariesPath(home).DataPath(data)).Start()
	if _, missing := os.Stat(filepath.Join(home, "bin", "postgres")); missing != nil {
		return err
	}
	return nil
}
