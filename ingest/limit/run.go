package limit

import (
	"context"
	"sync"
	"time"
)

const (
	// tickInterval is how soon a new account is found without a lock, and how often
	// a database that is away is tried again.
	tickInterval = 500 * time.Millisecond
	// watchTicks is how many of them pass between two looks at the replicas and the
	// clock, cleanTicks between two clean-ups.
	watchTicks = 4
	cleanTicks = 120
	// maxAsks bounds the windows of one statement.
	maxAsks = 500
)

// Run asks the database for more, counts the replicas and follows the database's
// clock. When it has ended, requests are decided without the database.
func (l *Limiter) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { l.watch(ctx) })
	l.serve(ctx)
	wg.Wait()
}

// serve makes the calls to the database, all that wait in one.
func (l *Limiter) serve(ctx context.Context) {
	l.queue.open()
	defer func() {
		l.leave()
		for _, w := range l.queue.close() {
			w.finish()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.queue.wake:
			l.call(ctx)
		}
	}
}

// call asks about windows that wait. While the database is away only watch asks.
func (l *Limiter) call(ctx context.Context) {
	windows := l.queue.take(maxAsks)
	if len(windows) == 0 {
		return
	}
	asks := make([]ask, len(windows))
	for i, w := range windows {
		asks[i] = w.send()
	}
	if l.away.Load() {
		finish(asks)
		return
	}
	grants, err := l.bank.take(ctx, asks)
	if err != nil {
		l.lost(ctx, err)
		finish(asks)
		return
	}
	l.metrics.callsOK.Inc()
	for i, a := range asks {
		a.window.granted(a, grants[i])
	}
}

func finish(asks []ask) {
	for _, a := range asks {
		a.window.finish()
	}
}

// lost notes that the database does not answer.
func (l *Limiter) lost(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.metrics.callsFailed.Inc()
	if l.leave() {
		l.log.WarnContext(ctx, "rate limits go on without the database", "replicas", l.replicas.Load(), "error", err)
	}
}

// leave goes on without the database. It returns false if it did already.
func (l *Limiter) leave() bool {
	if l.away.Load() {
		return false
	}
	l.awaySince.Store(l.clock.unixNano())
	l.metrics.away.Set(1)
	return !l.away.Swap(true)
}

// watch keeps the count of replicas, the clock and the accounts fresh, and notices
// when the database is back.
func (l *Limiter) watch(ctx context.Context) {
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n%watchTicks == 0 || l.away.Load() {
			l.look(ctx)
		}
		if n%cleanTicks == 0 {
			l.clean(ctx)
		}
		l.settle(n%cleanTicks == 0)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look asks how many replicas there are and what time it is.
func (l *Limiter) look(ctx context.Context) {
	sent := l.clock.now()
	replicas, databaseTime, err := l.bank.replicas(ctx)
	if err != nil {
		l.lost(ctx, err)
		return
	}
	l.metrics.callsOK.Inc()
	l.clock.set(databaseTime, sent, l.clock.now())
	l.replicas.Store(max(1, replicas))
	l.metrics.replicas.Set(float64(max(1, replicas)))
	l.found(ctx)
}

// found notes that the database answers, and reports to it what was let through
// meanwhile.
func (l *Limiter) found(ctx context.Context) {
	if ctx.Err() != nil || !l.away.Swap(false) {
		return
	}
	l.metrics.away.Set(0)
	l.log.InfoContext(ctx, "rate limits follow the database", "replicas", l.replicas.Load())
	l.settle(false)
	now := l.clock.unixNano() / int64(time.Second)
	for _, w := range l.accounts.windows() {
		if w.start+windowSeconds > now && w.inDebt() {
			l.ask(w, 0)
		}
	}
}

// settle takes new accounts in, and now and then forgets those that sent nothing
// in the last window.
func (l *Limiter) settle(forget bool) {
	if !forget && !l.accounts.waiting() {
		return
	}
	now := l.clock.unixNano() / int64(time.Second)
	l.metrics.accounts.Set(float64(l.accounts.settle(now - 2*windowSeconds)))
}

func (l *Limiter) clean(ctx context.Context) {
	if l.away.Load() {
		return
	}
	if err := l.bank.clean(ctx); err != nil && ctx.Err() == nil {
		l.metrics.callsFailed.Inc()
		l.log.WarnContext(ctx, "past rate windows stay", "error", err)
	}
}
