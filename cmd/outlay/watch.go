package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How often readiness is looked at for the log, and how often it is logged that it
// lasts. A process is given a moment to start.
const (
	watchInterval = 3 * time.Second
	watchRepeat   = time.Minute
)

// watchReadiness logs what the tiers wait for, such as Kafka or room on a disk: once
// when it begins, every minute while it lasts, and when it has ended.
func (p *process) watchReadiness(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var since, logged time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := p.tiersReady(ctx)
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !since.IsZero():
			p.log.InfoContext(ctx, "ready again", "after", now.Sub(since).Round(time.Second))
			since, logged = time.Time{}, time.Time{}
		case err != nil && now.Sub(logged) >= watchRepeat:
			if since.IsZero() {
				since = now
			}
			p.log.WarnContext(ctx, "not ready", "error", err)
			logged = now
		}
	}
}

// tiersReady returns nil when every tier is ready.
func (p *process) tiersReady(ctx context.Context) (failed error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for _, t := range p.tiers {
		if err := t.ready(ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", t.name, err))
		}
	}
	return failed
}
