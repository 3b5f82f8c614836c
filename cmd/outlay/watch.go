package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// How often readiness is looked at for the log, how often it is logged that a process is
// not ready, and how long another reason for it has to wait. A recovery counts when it
// has lasted watchStable. A process is given a moment to start.
const (
	watchInterval = 3 * time.Second
	watchRepeat   = time.Minute
	watchChange   = 15 * time.Second
	watchStable   = 15 * time.Second
)

// watchReadiness logs what the tiers wait for, such as Kafka, a database or space on a
// disk: once when it begins, every minute while it lasts, when the reason has become
// another one, and when it has ended for good: what comes and goes is one wait. The tiers
// leave it to this line.
func (p *process) watchReadiness(ctx context.Context) error {
	// The first look comes after an interval, in which most starts are over.
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	// since is when the wait began, logged when it was last logged, recovered when readiness came back; zero: none.
	var since, logged, recovered time.Time
	var last string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		ready, err := p.waitsFor(ctx)
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			recovered = time.Time{}
		case since.IsZero():
		case recovered.IsZero():
			recovered = now
		case now.Sub(recovered) >= watchStable:
			p.log.InfoContext(ctx, "ready again", "after", recovered.Sub(since).Round(time.Second))
			since, logged, recovered, last = time.Time{}, time.Time{}, time.Time{}, ""
		}
		if err != nil && (now.Sub(logged) >= watchRepeat || err.Error() != last && now.Sub(logged) >= watchChange) {
			if since.IsZero() {
				since = now
			}
			if ready {
				p.log.WarnContext(ctx, "ready, but goes on without its database", "error", err)
			} else {
				p.log.WarnContext(ctx, "not ready", "error", err)
			}
			logged, last = now, err.Error()
		}
	}
}

// waitsFor returns why tiers are not ready, or what those that are ready go on without, in
// one line.
func (p *process) waitsFor(ctx context.Context) (ready bool, err error) {
	if err := p.whyNot(ctx, (*tier).isReady); err != nil {
		return false, err
	}
	return true, p.whyNot(ctx, (*tier).databasesReady)
}

// whyNot joins what look returns for the tiers. What several wait for is there once.
func (p *process) whyNot(ctx context.Context, look func(*tier, context.Context) error) error {
	// Each reason begins with the names of the tiers that it holds up.
	var reasons []string
	for _, t := range p.tiers {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		err := look(t, ctx)
		cancel()
		if err == nil {
			continue
		}
		reason := strings.ReplaceAll(err.Error(), "\n", "; ")
		i := slices.IndexFunc(reasons, func(r string) bool { return strings.HasSuffix(r, ": "+reason) })
		if i < 0 {
			reasons = append(reasons, t.name+": "+reason)
		} else {
			reasons[i] = t.name + ", " + reasons[i]
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return errors.New(strings.Join(reasons, "; "))
}
