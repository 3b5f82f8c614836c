package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/deploy/child"
	"github.com/outlayhq/outlay/schema/backoff"
)

// How long a start waits for the processes that a killed server left behind, and how often it looks.
const (
	leftoverTimeout  = 20 * time.Second
	leftoverInterval = 100 * time.Millisecond
)

// stillInUse is what the server logs when it finds processes of a server that was killed. They end by themselves once they
// notice.
const stillInUse = "pre-existing shared memory block"

// run starts the server process and returns when it accepts connections.
func (c *cluster) run(ctx context.Context, settings []string) (*child.Process, error) {
	for end := time.Now().Add(leftoverTimeout); ; {
		p, err := c.runOnce(ctx, settings)
		if err == nil || !strings.Contains(err.Error(), stillInUse) || time.Now().After(end) {
			return p, err
		}
		if backoff.Sleep(ctx, leftoverInterval) != nil {
			return nil, err
		}
	}
}

// runOnce starts the server once. On an error the server has ended, and the error has the end of its log.
func (c *cluster) runOnce(ctx context.Context, settings []string) (*child.Process, error) {
	// The file is the server's from here on: our copy is closed when it runs.
	log, began, err := c.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // Only the server writes to it.

	cmd, err := c.command("postgres", append([]string{"-D", c.path("data")}, settings...)...)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	p, err := child.Start(cmd, syscall.SIGINT)
	if err != nil {
		return nil, err
	}
	if err := c.awaitReady(ctx, p); err != nil {
		_ = p.Signal(syscall.SIGQUIT) // It may have ended by itself.
		<-p.Done()
		return nil, fmt.Errorf("%w: %s", err, c.logSince(began))
	}
	return p, nil
}

// awaitReady waits until the server's lock file reports that it accepts connections. A connection attempt would not do: on
// that port it could reach somebody else.
func (c *cluster) awaitReady(ctx context.Context, p *child.Process) error {
	// Most starts take less than a second, to which the wait is to add little.
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if pid, ready := postmaster(c.path("data")); pid == p.PID() && ready {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return errors.New("the server ended during its start")
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: %w", ctx.Err())
		}
	}
}

// postmaster reads the server's lock file: the process id in its first line, "ready" in its eighth once connections are
// accepted. It returns 0 when there is none.
func postmaster(data string) (pid int, ready bool) {
	b, err := os.ReadFile(data + "/postmaster.pid")
	if err != nil {
		return 0, false
	}
	lines := strings.Split(string(b), "\n")
	pid, _ = strconv.Atoi(lines[0]) // Half a file: 0.
	return pid, len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready"
}

// maxLogBytes is how long the server's log may be at a start before it is begun anew.
const maxLogBytes = 16 << 20

// openLog opens the server's log and returns where it ends now.
func (c *cluster) openLog() (*os.File, int64, error) {
	path := c.path("server.log")
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogBytes {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, err
	}
	end, err := f.Seek(0, io.SeekEnd)
	return f, end, err
}

// logSince returns what the server logged after the given offset, the last 2 KB of it.
func (c *cluster) logSince(offset int64) string {
	b, err := os.ReadFile(c.path("server.log"))
	if err != nil {
		return err.Error()
	}
	const most = 2048
	b = b[min(offset, int64(len(b))):]
	return strings.TrimSpace(string(b[max(0, len(b)-most):]))
}

// ensureDatabase connects, makes the database when it is missing, and returns the server's version.
func ensureDatabase(ctx context.Context, url string) (version string, err error) {
	conn, err := pgx.Connect(ctx, url)
	var missing *pgconn.PgError
	if errors.As(err, &missing) && missing.Code == invalidCatalogName {
		if err := createDatabase(ctx, url); err != nil {
			return "", err
		}
		conn, err = pgx.Connect(ctx, url)
	}
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	return version, nil
}

// invalidCatalogName is the SQLSTATE of a connection to a database that does not exist.
const invalidCatalogName = "3D000"

// createDatabase makes the database through the one that initdb leaves.
func createDatabase(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	cfg.Database = "postgres"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+Database); err != nil {
		return fmt.Errorf("create database %s: %w", Database, err)
	}
	return nil
}
