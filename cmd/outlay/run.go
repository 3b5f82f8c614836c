package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/outlayhq/outlay/schema/cors"
	"github.com/outlayhq/outlay/schema/httpserver"
)

// process is one or more tiers that run together in this process.
type process struct {
	// tiers run from the start to the end of the process.
	tiers    []*tier
	registry *prometheus.Registry
	log      *slog.Logger

	// ops is the operations listener, which closes last.
	ops    net.Listener
	public net.Listener // nil for the processor
	// handler answers on public, also to pages of the origins of cors. writeTimeout bounds
	// an answer of it.
	handler      http.Handler
	cors         cors.Config
	writeTimeout time.Duration
	// connections bounds those of public.
	connections *httpserver.Connections
	// shutdownDelay is how long the process goes on answering after the signal
	// to stop, with /readyz failing, so that load balancers turn away first.
	shutdownDelay time.Duration
	stopping      atomic.Bool
}

// flushTimeout bounds the last step of a tier's stop.
const flushTimeout = 10 * time.Second

// run blocks until ctx ends or a tier fails. The stop order is: not ready any
// more; the public listener drains; producers flush; background work ends (the
// processor saves the batch in hand and leaves the group); the operations
// listener goes last.
func (p *process) run(ctx context.Context) error {
	// ctx only begins the stop. What is under way ends in the order above, by contexts of its own.
	opsCtx, stopOps := context.WithCancel(context.WithoutCancel(ctx))
	workCtx, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopOps()
	defer stopWork()

	// The operations listener answers during the whole stop, so that probes see what is going on.
	var ops errgroup.Group
	ops.Go(func() error {
		return httpserver.Serve(opsCtx, p.ops, opsHandler(p.registry, p.checks()...), httpserver.Config{WriteTimeout: opsWriteTimeout})
	})

	// workFailed ends when a tier fails, which stops the others.
	work, workFailed := errgroup.WithContext(workCtx)
	for _, t := range p.tiers {
		if t.run != nil {
			work.Go(func() error { return wrapTier(t, t.work(workFailed)) })
		}
	}

	work.Go(func() error { return p.watchReadiness(workFailed) })
	work.Go(func() error {
		// Too much memory is no reason to stop.
		if err := releaseStart(workFailed); err != nil {
			p.log.WarnContext(ctx, "memory of the start not released", "error", err)
		}
		return nil
	})

	// The order of these lines is the order of the stop.
	served := p.serve(ctx, workFailed)
	flushed := p.flush(ctx)
	stopWork()
	worked := work.Wait()
	stopOps()
	return errors.Join(served, flushed, worked, ops.Wait())
}

// serve answers public requests until ctx ends or the background work fails.
func (p *process) serve(ctx, workFailed context.Context) error {
	// stop is called when the delay is over, or at once when a tier has failed.
	serveCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() {
		defer stop()
		select {
		case <-ctx.Done():
		case <-workFailed.Done():
			return
		}
		p.stopping.Store(true)
		p.log.InfoContext(ctx, "stopping", "delay", p.shutdownDelay)
		time.Sleep(p.shutdownDelay)
	}()
	if p.public == nil {
		<-serveCtx.Done()
		return nil
	}
	return httpserver.Serve(serveCtx, p.public, p.cors.Handler(p.handler), httpserver.Config{WriteTimeout: p.writeTimeout, Connections: p.connections})
}

// flush has every tier finish what was accepted. It comes after the last response, when nothing new can come in.
func (p *process) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	// A tier that cannot flush does not keep the others from it.
	var failed error
	for _, t := range p.tiers {
		if t.flush != nil {
			failed = errors.Join(failed, wrapTier(t, t.flush(ctx)))
		}
	}
	return failed
}

// bind takes the addresses of both listeners.
func (p *process) bind(ctx context.Context, f listenFlags) (err error) {
	if err := f.CORS.Validate(); err != nil {
		return err
	}
	if f.MaxConnections < 1 {
		return errors.New("--max-connections must be at least 1")
	}
	p.cors, p.connections = f.CORS, httpserver.NewConnections(f.MaxConnections)
	if p.public, err = bind(ctx, "--listen", f.Listen); err != nil {
		return err
	}
	if p.ops, err = bind(ctx, "--ops-listen", f.OpsListen); err != nil {
		return errors.Join(err, p.public.Close())
	}
	registerConnections(p.registry, p.connections)
	return nil
}

// checks are what /readyz asks.
func (p *process) checks() []check {
	checks := []check{{"process", func(context.Context) error {
		if p.stopping.Load() {
			return errors.New("stopping")
		}
		return nil
	}}}
	for _, t := range p.tiers {
		checks = append(checks, check{t.name, t.isReady})
	}
	return checks
}

// wrapTier names the tier in an error. The end of its context is no error.
func wrapTier(t *tier, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", t.name, err)
}
