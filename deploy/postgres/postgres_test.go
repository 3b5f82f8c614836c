package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest/need"
)

// asParent makes the test binary a program that runs a server in the directory that the variable names, prints its process id
// and its URL, and waits to be killed, or to be asked to stop by the end of its standard input.
const asParent = "OUTLAY_POSTGRES_TEST_PARENT"

func TestMain(m *testing.M) {
	dir := os.Getenv(asParent)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := Start(context.Background(), Config{DataDir: dir, Edition: migrations.Plain, Settings: fast})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.PID(), s.URL())
	_, _ = io.Copy(io.Discard, os.Stdin) // Only its end matters.
	if err := s.Stop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fast gives up durability against a crash of the machine, which no test here can cause.
var fast = map[string]string{"fsync": "off"}

// needPostgres skips where there is no server to test, and fails there in CI.
func needPostgres(t *testing.T) {
	t.Helper()
	if len(Installed(t.Context(), t.TempDir())) == 0 {
		need.Missing(t, fmt.Errorf("PostgreSQL: %w", ErrNotInstalled))
	}
}

// openDir is a directory that the server's user can enter, unlike t.TempDir's when the tests run as root.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "outlay-postgres-test-") //nolint:usetesting // t.TempDir makes one that is closed to others.
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// start starts a server that the test, or its end, stops.
func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) }) // A test that stopped it has seen the error.
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// query returns the one value of a statement.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var value string
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// execute runs a statement and returns its error.
func execute(t *testing.T, url, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), sql)
	return err
}

// save stores a row that later starts have to find.
func save(t *testing.T, url string) {
	t.Helper()
	if err := execute(t, url, "CREATE TABLE IF NOT EXISTS kept (n int); INSERT INTO kept VALUES (1)"); err != nil {
		t.Fatal(err)
	}
}

// A server is ready when Start returns, has our settings, asks for the password, is not root's, and is gone after Stop.
func TestStartIsReadyAndStopEnds(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	s := start(t, Config{DataDir: openDir(t), Settings: map[string]string{"fsync": "off", "work_mem": "7MB"}})
	got := query(t, s.URL(), "SELECT concat_ws(' ', current_database(), current_setting('timezone'), current_setting('jit'), current_setting('work_mem'))")
	if want := "outlay UTC off 7MB"; got != want {
		t.Errorf("settings = %q, want %q", got, want)
	}
	if v := query(t, s.URL(), "SHOW server_version"); v != s.Version() {
		t.Errorf("Version() = %q, want %q", s.Version(), v)
	}
	if uid, _, err := idsOf(fmt.Sprintf("/proc/%d", s.PID())); err != nil || uid == 0 {
		t.Errorf("the server runs as user %d (%v), want any but root", uid, err)
	}
	wrong, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword(Superuser, "wrong")
	var refused *pgconn.PgError
	if err := execute(t, wrong.String(), "SELECT"); !errors.As(err, &refused) || refused.Code != "28P01" {
		t.Errorf("connect with a wrong password = %v, want SQLSTATE 28P01", err)
	}
	stop(t, s)
	if err := execute(t, s.URL(), "SELECT"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connect after Stop = %v, want ECONNREFUSED", err)
	}
}

// The password file is closed to everybody but the server's user.
func TestPasswordIsPrivate(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	dir := openDir(t)
	start(t, Config{DataDir: dir, Settings: fast})
	info, err := os.Stat(filepath.Join(dir, "password"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode of the password file = %o, want 600", got)
	}
}

// What was stored is there after a stop and a start, with durable settings as well.
func TestRestartKeepsData(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	dir := openDir(t)
	s := start(t, Config{DataDir: dir})
	if got := query(t, s.URL(), "SHOW fsync"); got != "on" {
		t.Errorf("fsync = %s without a setting, want on", got)
	}
	save(t, s.URL())
	stop(t, s)
	s = start(t, Config{DataDir: dir})
	if got := query(t, s.URL(), "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("rows after a restart = %s, want 1", got)
	}
}

// Root's home and other directories that the server's user cannot enter work as well.
func TestClosedDirectoryWorksForRoot(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server as somebody else")
	}
	parent := openDir(t)
	if err := os.Chmod(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "a", "b")
	s := start(t, Config{DataDir: dir, Settings: fast})
	save(t, s.URL())
	stop(t, s)
	s = start(t, Config{DataDir: dir, Settings: fast})
	if got := query(t, s.URL(), "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("rows after a restart = %s, want 1", got)
	}
	p := startParent(t, os.Args[0], filepath.Join(parent, "c"), nil)
	p.kill(t)
	if err := Remove(t.Context(), filepath.Join(parent, "c")); err != nil {
		t.Error(err)
	}
}

// A user who is not root runs the server as itself.
func TestOrdinaryUserRunsItsOwn(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	if os.Geteuid() != 0 {
		t.Skip("every other test here shows it")
	}
	dir := openDir(t)
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	p := startParent(t, program, filepath.Join(home, "db"), &syscall.Credential{Uid: nobody, Gid: nobody})
	uid, _, err := idsOf(fmt.Sprintf("/proc/%d", p.pid))
	if err != nil || uid != nobody {
		t.Errorf("the server runs as user %d (%v), want %d", uid, err, nobody)
	}
	save(t, p.url)
}

// An edition that does not exist is an error, not a server that happens to start.
func TestUnknownEditionIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := Start(t.Context(), Config{DataDir: t.TempDir(), Edition: "enterprise"}); err == nil || !strings.Contains(err.Error(), "enterprise") {
		t.Errorf("Start = %v, want an error that names the edition", err)
	}
}

// A port that somebody listens on is named in the error, and nothing is left locked or running.
func TestTakenPortIsAnError(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	dir := openDir(t)
	_, err = Start(t.Context(), Config{DataDir: dir, Port: port, Settings: fast})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), strconv.Itoa(port)) {
		t.Errorf("Start on a taken port = %v, want EADDRINUSE with the port", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, Config{DataDir: dir, Port: port, Settings: fast})
}

// A setting that the server refuses is shown with the server's own words.
func TestRefusedSettingIsShown(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	_, err := Start(t.Context(), Config{DataDir: openDir(t), Settings: map[string]string{"fsync": "off", "max_connections": "many"}})
	if err == nil || !strings.Contains(err.Error(), "max_connections") {
		t.Errorf("Start with a bad setting = %v, want the server's message about it", err)
	}
}

// Two processes, or two servers in one, never share a directory.
func TestDirectoryInUseIsRefused(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	dir := openDir(t)
	s := start(t, Config{DataDir: dir, Settings: fast})
	if _, err := Start(t.Context(), Config{DataDir: dir, Settings: fast}); !errors.Is(err, ErrInUse) {
		t.Errorf("second Start = %v, want ErrInUse", err)
	}
	if err := Remove(t.Context(), dir); !errors.Is(err, ErrInUse) {
		t.Errorf("Remove of a used directory = %v, want ErrInUse", err)
	}
	if got := query(t, s.URL(), "SELECT 'alive'"); got != "alive" {
		t.Errorf("the first server answers %q", got)
	}
}

// Each edition that is installed starts and is what it states; the data keeps its edition.
func TestEditionsAreWhatTheySay(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	licenses := map[migrations.Edition]string{migrations.Plain: "", migrations.Apache: "apache", migrations.Community: "timescale"}
	for _, e := range Editions(t.Context()) {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			dir := openDir(t)
			s := start(t, Config{DataDir: dir, Edition: e, Settings: fast})
			if e != migrations.Plain {
				if err := execute(t, s.URL(), "CREATE EXTENSION timescaledb"); err != nil {
					t.Fatal(err)
				}
			}
			got := query(t, s.URL(), "SELECT coalesce(current_setting('timescaledb.license', true), '')")
			if diff := cmp.Diff(licenses[e], got); diff != "" {
				t.Errorf("license (-want +got):\n%s", diff)
			}
			stop(t, s)
			for _, other := range []migrations.Edition{migrations.Plain, migrations.Apache, migrations.Community} {
				if other == e {
					continue
				}
				if _, err := Start(t.Context(), Config{DataDir: dir, Edition: other, Settings: fast}); err == nil {
					t.Errorf("Start as %s of data made as %s = nil, want an error", other, e)
				}
			}
			if s := start(t, Config{DataDir: dir, Settings: fast}); s.Edition() != e {
				t.Errorf("Edition() = %s for data made as %s", s.Edition(), e)
			}
		})
	}
}

// A stop whose patience ends leaves data that the next start recovers.
func TestImpatientStopLosesNothing(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	dir := openDir(t)
	s := start(t, Config{DataDir: dir, Settings: fast})
	save(t, s.URL())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Stop = %v, want nil or context.Canceled", err)
	}
	s = start(t, Config{DataDir: dir, Settings: fast})
	if got := query(t, s.URL(), "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("rows after an immediate stop = %s, want 1", got)
	}
}
