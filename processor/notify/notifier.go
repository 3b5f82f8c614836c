package notify

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/secret"
	"github.com/outlayhq/outlay/schema/webhook"
)

// Deps are what a Notifier works with; the caller owns them.
type Deps struct {
	// Pool gives up to two connections at a time.
	Pool *pgxpool.Pool
	// Secrets open the secrets of channels. Defaults to none.
	Secrets *secret.Keys
	// Mail sends e-mail.
	Mail    *mail.Sender
	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time
}

// Notifier sends messages.
type Notifier struct {
	// outbox is the table of messages, poster and mail are the ways out.
	outbox  outbox
	poster  poster
	mail    *mail.Sender
	secrets *secret.Keys
	metrics *metrics
	log     *slog.Logger
	now     func() time.Time

	// mu guards inHand, which counts the messages that are being tried by account, and
	// with it the number of them.
	mu     sync.Mutex
	inHand map[schema.ID]int
	// done receives when a try has ended, so that the next one begins without waiting for the poll.
	total int
	done  chan struct{}
}

// New returns a Notifier. Its configuration was validated.
func New(cfg webhook.Config, d Deps) *Notifier {
	// The policy of the query tier refuses addresses when they are given; this one refuses them when they are used.
	policy := webhook.NewPolicy(cfg)
	return &Notifier{
		outbox: outbox{d.Pool, d.Now}, secrets: d.Secrets, poster: poster{policy, newClient(policy, nil), d.Now}, mail: d.Mail,
		metrics: newMetrics(d.Metrics), log: d.Log, now: d.Now, inHand: map[schema.ID]int{}, done: make(chan struct{}, 1),
	}
}

// How many messages are tried at once: by this process, and of one account, so that a
// receiver that hangs holds up nobody else.
const (
	maxInHand       = 16
	maxInHandOfOne  = 4
	pollInterval    = time.Second
	measureInterval = 15 * time.Second
	resealInterval  = time.Hour
)

// Run sends until ctx ends, and returns nil when the tries in hand are noted.
func (n *Notifier) Run(ctx context.Context) error {
	var tries sync.WaitGroup
	defer tries.Wait()
	// Zero: both happen in the first round.
	var measured, resealed time.Time
	for ctx.Err() == nil {
		started, err := n.start(ctx, &tries)
		if now := n.now(); err == nil && now.After(measured.Add(measureInterval)) {
			measured = now
			err = n.measure(ctx)
		}
		if now := n.now(); err == nil && now.After(resealed.Add(resealInterval)) {
			resealed = now
			err = n.reseal(ctx)
		}
		if err != nil && ctx.Err() == nil {
			n.metrics.errors.Inc()
			n.log.WarnContext(ctx, "deliveries not looked after", "error", err)
		}
		if started {
			continue
		}
		select {
		case <-ctx.Done():
		case <-n.done:
		case <-time.After(pollInterval):
		}
	}
	return nil
}

// start begins a try if one is due and there is room for it.
func (n *Notifier) start(ctx context.Context, tries *sync.WaitGroup) (bool, error) {
	busy, room := n.busy()
	if !room {
		return false, nil
	}
	d, err := n.outbox.next(ctx, busy)
	if d == nil || err != nil {
		return false, err
	}
	n.count(d.AccountID, 1)
	tries.Go(func() {
		// A try that has begun is noted, also when the process is asked to stop.
		n.try(context.WithoutCancel(ctx), d)
		n.count(d.AccountID, -1)
		select {
		case n.done <- struct{}{}:
		default:
		}
	})
	return true, nil
}

// busy returns the accounts that have all of their places taken, never nil, and whether this process has one left.
func (n *Notifier) busy() (accounts []schema.ID, room bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	accounts = []schema.ID{}
	for id, tries := range n.inHand {
		if tries >= maxInHandOfOne {
			accounts = append(accounts, id)
		}
	}
	return accounts, n.total < maxInHand
}

// count adds to the number of tries in hand.
func (n *Notifier) count(account schema.ID, by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.total += by
	if n.inHand[account] += by; n.inHand[account] == 0 {
		delete(n.inHand, account)
	}
}

// noteTimeout bounds writing down how a try went.
const noteTimeout = 5 * time.Second

// try sends a message once and writes down how that went. If it cannot be written down, the claim runs out and another try follows:
// the receiver may then get the message twice, with the same id.
func (n *Notifier) try(ctx context.Context, d *delivery) {
	began := n.now()
	r := n.send(ctx, d)
	n.metrics.tries.WithLabelValues(string(d.ChannelType), string(r.outcome)).Inc()
	n.metrics.duration.Observe(n.now().Sub(began).Seconds())
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	if err := n.outbox.note(ctx, d, r, began); err != nil {
		n.metrics.errors.Inc()
		n.log.WarnContext(ctx, "try not noted, so it will be made again", "delivery", d.ID.Text(alert.DeliveryPrefix), "outcome", r.outcome, "error", err)
		return
	}
	n.log.DebugContext(ctx, "delivery tried", "delivery", d.ID.Text(alert.DeliveryPrefix), "try", d.Tries, "outcome", r.outcome, "status", r.status)
}

// send hands a message to its channel. The secret is opened here and stays in d, which nobody else has.
func (n *Notifier) send(ctx context.Context, d *delivery) result {
	if d.Removed {
		return result{outcome: outcomeRemoved}
	}
	var err error
	if d.Secret, err = n.secrets.Open(d.Secret, alert.SecretPlace(d.ChannelID)); err != nil {
		n.log.ErrorContext(ctx, "secret of a channel not opened", "delivery", d.ID.Text(alert.DeliveryPrefix), "error", err)
		return result{outcome: outcomeKey}
	}
	switch d.ChannelType {
	case alert.Webhook:
		return n.poster.webhook(ctx, d)
	case alert.Slack:
		return n.poster.slack(ctx, d)
	case alert.Email:
		return sendMail(ctx, n.mail, d)
	}
	panic("BUG: the database holds a channel of type " + string(d.ChannelType))
}

// measure sets the gauges of the outbox. Every processor shows the same.
func (n *Notifier) measure(ctx context.Context) error {
	b, err := n.outbox.backlog(ctx)
	if err == nil {
		n.metrics.pending.Set(float64(b.Pending))
		n.metrics.oldest.Set(b.Oldest)
		n.metrics.overdue.Set(b.Overdue)
	}
	return err
}
