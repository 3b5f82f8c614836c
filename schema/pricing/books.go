package pricing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/pgdb"
	"github.com/outlayhq/outlay/schema/price"
	"github.com/outlayhq/outlay/schema/tariff"
)

// Deps are what Books works with; the caller owns them.
type Deps struct {
	Pool *pgxpool.Pool
	// Metrics may be nil for who shows prices and charges nobody: the metrics are not registered then.
	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time
}

// Books returns the price book of each account. It is safe for concurrent use.
type Books struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	now    func() time.Time
	source *source // nil when the built-in prices hold
	// charges is set by Run before anything else runs.
	charges bool
	metrics *metrics

	// current is replaced whole; nil before the overrides were read once.
	current  atomic.Pointer[books]
	loadedAt atomic.Int64 // Unix nanoseconds, 0 before that

	mu        sync.Mutex
	published *price.Book
	overrides map[schema.ID][]price.Override // nil before the first load
}

type books struct {
	published *price.Book
	// own holds the books of accounts with overrides.
	own map[schema.ID]*price.Book
}

// New returns Books that hold nothing yet; Run fills them. The configuration was validated. A catalogue that can be had
// is in force before the first event is priced.
func New(cfg Config, d Deps) *Books {
	b := &Books{pool: d.Pool, log: d.Log, now: d.Now, published: price.Default()}
	b.metrics = newMetrics(d.Metrics, b)
	b.source = newSource(cfg, b.metrics, d.Log)
	return b
}

// Of returns the book that an account is charged by, or nil while it is not known yet.
func (b *Books) Of(accountID schema.ID) *price.Book {
	current := b.current.Load()
	if current == nil {
		return nil
	}
	if own, ok := current.own[accountID]; ok {
		return own
	}
	return current.published
}

// Ready returns nil once the books are known.
func (b *Books) Ready() error {
	if b.current.Load() == nil {
		return errors.New("prices are not loaded yet")
	}
	return nil
}

// Published returns the common book, without the prices of any account.
func (b *Books) Published() *price.Book {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.published
}

// RunPublished keeps the common book fresh until ctx ends, for who shows it and charges nobody by it.
func (b *Books) RunPublished(ctx context.Context) {
	if b.source != nil {
		b.recall(ctx)
		b.refresh(ctx)
	}
	b.keepPublished(ctx)
}

// Run keeps the books fresh until ctx ends, and keeps which were in force for the next start.
func (b *Books) Run(ctx context.Context) {
	b.charges = true
	if b.source != nil {
		b.recall(ctx)
		b.refresh(ctx)
	}
	var wg sync.WaitGroup
	wg.Go(func() { b.keepPublished(ctx) })
	watch := account.Watch{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, b.pool.Config().ConnConfig)
		},
		Load: func(ctx context.Context, conn *pgx.Conn) error { return b.load(ctx, conn) },
		Log:  b.log,
	}
	watch.Run(ctx)
	wg.Wait()
}

// load reads every override anew.
func (b *Books) load(ctx context.Context, db pgdb.DB) error {
	list, err := tariff.NewStore(db).All(ctx)
	if err != nil {
		return err
	}
	overrides := map[schema.ID][]price.Override{}
	for _, o := range list {
		overrides[o.AccountID] = append(overrides[o.AccountID], o.Override)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.overrides = overrides
	b.publish()
	b.metrics.overrides.Set(float64(len(list)))
	b.loadedAt.Store(b.now().UnixNano())
	return nil
}

// keepPublished reads the published prices anew again and again.
func (b *Books) keepPublished(ctx context.Context) {
	if b.source == nil {
		return
	}
	tick := time.NewTicker(b.source.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.refresh(ctx)
		}
	}
}

// refresh takes the catalogue of the source if there is a new one that may be applied.
func (b *Books) refresh(ctx context.Context) {
	book := b.source.read(ctx, b.Published(), b.now())
	if book == nil {
		return
	}
	b.replace(book)
	if !b.charges {
		return
	}
	if err := b.remember(ctx, book); err != nil {
		b.log.WarnContext(ctx, "after a restart the prices that held before will hold until these are read again", "error", err)
	}
}

// replace puts another common book into force.
func (b *Books) replace(book *price.Book) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.published = book
	if b.overrides != nil {
		b.publish()
	}
}

// publish puts the books into force. The caller holds mu.
func (b *Books) publish() {
	current := &books{published: b.published, own: make(map[schema.ID]*price.Book, len(b.overrides))}
	for accountID, list := range b.overrides {
		current.own[accountID] = b.published.With(list)
	}
	b.current.Store(current)
}
