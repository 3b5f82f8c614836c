// Package postgres runs a PostgreSQL server of our own: the database behind `outlay up` and behind the tests. It finds an
// installed server, the best edition first, or fetches a build where none is installed; it makes the data directory, starts the
// server on 127.0.0.1 and stops it. The server never runs as root, never outlives this process by more than its shutdown, and
// what it stored is there at the next start, also after everything was killed. Migrations and queries are the caller's.
package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/outlayhq/outlay/deploy/child"
	"github.com/outlayhq/outlay/schema/migrations"
)

// Superuser is the role that owns everything in a server of ours, and Database the database its URL names.
const (
	Superuser = "outlay"
	Database  = "outlay"
)

// Config sets which server to start.
type Config struct {
	// DataDir is the directory that everything is kept in: the server's data, its password, its log. It is made when it is
	// missing. One process at a time can use it.
	DataDir string

	// Port is the TCP port on 127.0.0.1. 0 picks a free one, another one at every start.
	Port int

	// Edition is what the database must be able to do. Best, the default, takes the most that is installed. A data
	// directory keeps the edition it was made with: Best follows it, and any other value must agree with it.
	Edition migrations.Edition

	// Settings are server settings (as in postgresql.conf) that override the defaults of this package.
	Settings map[string]string

	// CacheDir is where a fetched build is kept. Defaults to /var/cache/outlay for root and to outlay in the user's cache
	// directory for anybody else.
	CacheDir string

	// Log hears of starts, stops and left-behind servers. Defaults to no log.
	Log *slog.Logger
}

// Server is a running server. Its owner calls Stop, also after Done was closed.
type Server struct {
	cluster *cluster
	process *child.Process
	// port is on 127.0.0.1; it changes with every start unless the caller chose it.
	port int
	// version is asked from the server, which may have been upgraded since the data was made.
	version string
	log     *slog.Logger
}

// Start starts the server and returns when it accepts connections. ctx bounds the start, not the life of the server. Recovery
// after a crash is part of the start and may need more than the usual second.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	began := time.Now()
	log := cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	// From here on the directory is locked, until close.
	c, err := open(ctx, cfg, log)
	if err != nil {
		return nil, fmt.Errorf("postgres in %s: %w", cfg.DataDir, err)
	}
	s := &Server{cluster: c, log: log}
	if err := s.start(ctx, cfg); err != nil {
		c.close()
		return nil, fmt.Errorf("postgres in %s: %w", cfg.DataDir, err)
	}
	log.InfoContext(ctx, "postgres started", "version", s.version, "edition", string(c.edition), "port", s.port, "took", time.Since(began))
	return s, nil
}

// start launches the server and makes sure of its database.
func (s *Server) start(ctx context.Context, cfg Config) error {
	if err := s.launch(ctx, cfg); err != nil {
		return err
	}
	version, err := ensureDatabase(ctx, s.URL())
	if err != nil {
		s.end(syscall.SIGQUIT, time.Second)
		return err
	}
	s.version = version
	return nil
}

// launch starts the server process. A free port can be taken by somebody else before the server has bound it: another is
// tried, and only a port that the caller asked for by number is final.
func (s *Server) launch(ctx context.Context, cfg Config) error {
	const tries = 3
	for try := 1; ; try++ {
		port, err := choosePort(ctx, cfg.Port)
		if err != nil {
			return err
		}
		s.port = port
		s.process, err = s.cluster.run(ctx, settings(s.cluster.edition, port, cfg.Settings))
		if err == nil || cfg.Port != 0 || try == tries || ctx.Err() != nil {
			return err
		}
	}
}

// choosePort returns want when nobody listens there, or a free port when want is 0.
func choosePort(ctx context.Context, want int) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(want)))
	if err != nil {
		return 0, fmt.Errorf("choose a port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// URL is the address of the database for a client on this machine, password included.
func (s *Server) URL() string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(Superuser, s.cluster.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     Database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is the TCP port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Edition is what the server can do; never Best.
func (s *Server) Edition() migrations.Edition { return s.cluster.edition }

// Version is what the server calls itself, "15.18 (Debian 15.18-0+deb12u1)".
func (s *Server) Version() string { return s.version }

// PID is the process id of the server's first process, for tests that stop or kill it.
func (s *Server) PID() int { return s.process.PID() }

// Done is closed when the server has ended, by Stop or by itself.
func (s *Server) Done() <-chan struct{} { return s.process.Done() }

// Stop shuts the server down: connections are closed, what is committed is written out. When ctx ends first, the server stops
// at once, and the next start recovers from its log. Stop returns when the server has ended.
func (s *Server) Stop(ctx context.Context) error {
	defer s.cluster.close()
	// SIGINT is PostgreSQL's fast shutdown: it ends the sessions and makes a checkpoint.
	if err := s.process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-s.process.Done():
		s.log.InfoContext(ctx, "postgres stopped")
		return nil
	case <-ctx.Done():
		s.end(syscall.SIGQUIT, immediateStop)
		return fmt.Errorf("postgres in %s: stopped without a checkpoint: %w", s.cluster.dir, ctx.Err())
	}
}

// immediateStop is how long an immediate shutdown may last before the server is killed.
const immediateStop = 5 * time.Second

// end sends sig, and SIGKILL after patience, and waits for the end.
func (s *Server) end(sig syscall.Signal, patience time.Duration) {
	_ = s.process.Signal(sig) // It fails only for a process that cannot be ours; SIGKILL follows.
	select {
	case <-s.process.Done():
	case <-time.After(patience):
		_ = s.process.Signal(syscall.SIGKILL) // As above.
		<-s.process.Done()
	}
}
