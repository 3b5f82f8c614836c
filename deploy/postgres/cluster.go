package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/outlayhq/outlay/deploy/child"
	"github.com/outlayhq/outlay/schema/migrations"
)

// cluster is a data directory of ours, locked, with the programs and the user that fit it.
//
//	DataDir/lock      held while a process uses the directory
//	DataDir/password  of the superuser, readable by the server's user only
//	DataDir/edition   what the data was made with
//	DataDir/server.log
//	DataDir/data      PostgreSQL's own
type cluster struct {
	// dir is absolute and without symbolic links: the server compares it with the one in its lock file.
	dir  string
	lock *os.File
	// install and edition are those that made the data, or the best found for new data.
	install Installation
	edition migrations.Edition
	owner   owner
	// password is that of Superuser. Only scram-sha-256 over the loopback accepts it.
	password string
}

// path returns the path of a file or directory in DataDir.
func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

// open takes the directory over: it waits for nobody, ends what an earlier process left running, and makes the data when there
// is none.
func open(ctx context.Context, cfg Config, log *slog.Logger) (_ *cluster, err error) {
	dir, err := makeDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir}
	if c.lock, err = lock(c.path("lock")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := stopLeftover(ctx, c.path("data"), log); err != nil {
		return nil, err
	}
	if err := c.selectPrograms(ctx, cfg, log); err != nil {
		return nil, err
	}
	if c.owner, err = ownerOf(c.path("data")); err != nil {
		return nil, err
	}
	if err := c.ensureData(ctx, cfg.Settings["fsync"] != "off"); err != nil {
		return nil, err
	}
	password, err := os.ReadFile(c.path("password"))
	if err != nil {
		return nil, fmt.Errorf("read the superuser's password: %w", err)
	}
	c.password = string(password)
	return c, nil
}

// close gives the directory free for another process.
func (c *cluster) close() { unlock(c.lock) }

// makeDir makes the directory, open for the server's user to enter, and returns its one true path.
func makeDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// selectPrograms picks the programs: those that made the data when there is data, the best otherwise.
func (c *cluster) selectPrograms(ctx context.Context, cfg Config, log *slog.Logger) error {
	// Data decides before the configuration: it cannot be opened by another major version or edition.
	want := cfg.Edition
	if want != Best && rank(want) < 0 {
		return fmt.Errorf("there is no edition %q", want)
	}
	made, major, err := c.recorded()
	if err != nil {
		return err
	}
	if made != Best {
		if want != Best && want != made {
			return fmt.Errorf("the data is of edition %s, not %s: choose another directory", made, want)
		}
		want = made
	}
	cacheDir := cmp.Or(cfg.CacheDir, defaultCacheDir())
	// A build that was fetched before is among what is found.
	found := Installed(ctx, cacheDir)
	c.install, c.edition, err = choose(found, want, major)
	if errors.Is(err, ErrNotInstalled) && fetchable(want, major) {
		in, err := fetch(ctx, cacheDir, log)
		if err != nil {
			return err
		}
		c.install, c.edition = in, migrations.Plain
		return nil
	}
	return err
}

// recorded returns what the data was made with: nothing for a new directory.
func (c *cluster) recorded() (migrations.Edition, int, error) {
	// The directory has its name only when initdb is done, so the file is complete.
	version, err := os.ReadFile(c.path("data/PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return Best, 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(version)))
	if err != nil {
		return "", 0, fmt.Errorf("read the version of the data: %w", err)
	}
	made, err := os.ReadFile(c.path("edition"))
	if err != nil {
		return "", 0, fmt.Errorf("read the edition of the data: %w", err)
	}
	return migrations.Edition(made), major, nil
}

// ensureData initialises the data directory when there is none. It is built under another name and renamed when it is
// complete, so that a start that was killed half-way leaves nothing that looks like data.
func (c *cluster) ensureData(ctx context.Context, durable bool) error {
	if _, err := os.Stat(c.path("data")); err == nil {
		return nil
	}
	// What a killed start left half-way goes first.
	if err := os.RemoveAll(c.path("data.new")); err != nil {
		return err
	}
	if err := os.Mkdir(c.path("data.new"), 0o700); err != nil {
		return err
	}
	if err := c.owner.give(c.path("data.new")); err != nil {
		return err
	}
	if err := os.WriteFile(c.path("edition"), []byte(c.edition), 0o644); err != nil {
		return err
	}
	if err := c.writePassword(); err != nil {
		return err
	}
	if err := c.initdb(ctx, durable); err != nil {
		return err
	}
	return os.Rename(c.path("data.new"), c.path("data"))
}

// writePassword keeps a new random password where only the server's user, who hands it to initdb, and root can read it.
func (c *cluster) writePassword() error {
	if err := os.RemoveAll(c.path("password")); err != nil {
		return err
	}
	if err := os.WriteFile(c.path("password"), []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	return c.owner.give(c.path("password"))
}

// initdb makes the files of a new cluster. durable waits until they are on the disk.
func (c *cluster) initdb(ctx context.Context, durable bool) error {
	// Checksums find a disk that changes data; the C locale keeps indexes valid when the system's library is upgraded.
	args := []string{
		"--pgdata=" + c.path("data.new"), "--username=" + Superuser, "--pwfile=" + c.path("password"),
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=" + locale(), "--data-checksums", "--no-instructions",
	}
	if !durable {
		args = append(args, "--no-sync")
	}
	// initdb refuses root, so it runs as the owner like the server.
	cmd, err := c.command("initdb", args...)
	if err != nil {
		return err
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		_ = p.Signal(syscall.SIGKILL) // What it made so far is thrown away by the next start.
		<-p.Done()
	}
	if p.Err() != nil {
		return fmt.Errorf("initdb: %w: %s", cmp.Or(ctx.Err(), p.Err()), strings.TrimSpace(out.String()))
	}
	return nil
}

// locale sorts by code point and knows upper from lower case beyond ASCII where the system offers that.
func locale() string {
	if runtime.GOOS == "linux" {
		return "C.UTF-8"
	}
	return "C"
}

// command prepares one of the programs to run as the owner, whatever our own directory and environment are.
func (c *cluster) command(name string, args ...string) (*exec.Cmd, error) {
	attr, err := c.owner.attr(c.dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(c.install.Bin, name), args...)
	// The owner may not be able to enter our own directory, and the environment may have PGDATA or PGPORT of another server.
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = attr
	return cmd, nil
}
