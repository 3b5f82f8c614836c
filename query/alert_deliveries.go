package query

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/problem"
)

// tryReply is one try to deliver a message.
type tryReply struct {
	// Try counts from 1.
	Try    int        `json:"try"`
	At     usage.Time `json:"at"`
	TookMS int64      `json:"took_ms"`
	// Outcome is delivered, or why not, a word of a closed list.
	Outcome string `json:"outcome"`
	// Status is the HTTP status of the receiver, null when there was none.
	Status *int `json:"status"`
}

// messageReply is a message to one channel, with all tries.
type messageReply struct {
	// ID is the webhook-id of a webhook.
	ID   string            `json:"id"`
	Type alert.ChannelType `json:"type"`
	// Address is shown without secrets: of a Slack address only the end.
	Address string     `json:"address"`
	Message alert.Type `json:"message"`
	Title   string     `json:"title"`
	Summary string     `json:"summary"`
	// IncidentID is null for a test, and for what is not about an incident.
	IncidentID *string `json:"incident_id"`
	// State is pending, delivered or failed. A message is tried for a day.
	State     alert.DeliveryState `json:"state"`
	CreatedAt usage.Time          `json:"created_at"`
	// NextTryAt is null unless the message is pending.
	NextTryAt  usage.Time `json:"next_try_at"`
	FinishedAt usage.Time `json:"finished_at"`
	Tries      []tryReply `json:"tries"`
}

// newMessageReply shows NextTryAt only while there will be a next try.
func newMessageReply(d *alert.Delivery) messageReply {
	reply := messageReply{
		ID: d.ID.Text(alert.DeliveryPrefix), Type: d.Channel, Address: d.Address, Message: d.Type, Title: d.Title, Summary: d.Summary,
		State: d.State, CreatedAt: usage.Time{Time: d.CreatedAt}, FinishedAt: timeOf(d.FinishedAt), Tries: make([]tryReply, len(d.Tries)),
	}
	if d.State == alert.Pending {
		reply.NextTryAt = usage.Time{Time: d.NextTryAt}
	}
	reply.IncidentID = idText(d.IncidentID, alert.IncidentPrefix)
	for i, t := range d.Tries {
		reply.Tries[i] = tryReply{t.Try, usage.Time{Time: t.At}, t.TookMS, t.Outcome, t.Status}
	}
	return reply
}

// ruleHandler answers a request about what belongs to a rule, or to the account itself
// for nil.
type ruleHandler func(c *rest.Request, rule *schema.ID) error

// ofOwnChannels serves the messages of the account's own channels with the handlers of a rule's.
func ofOwnChannels(h ruleHandler) handler { return func(c *rest.Request) error { return h(c, nil) } }

// ofKnownRule answers 404 for a rule that is not there.
func (s *Server) ofKnownRule(h ruleHandler) func(c *rest.Request, id schema.ID) error {
	return func(c *rest.Request, id schema.ID) error {
		err := s.alerting(c, func(ctx context.Context, store *alert.Store) error {
			_, err := store.Get(ctx, c.Who.AccountID, id)
			return err
		})
		if err != nil {
			return alertError(err)
		}
		return h(c, &id)
	}
}

// listDeliveries answers a page of messages with every try, newest first.
func (s *Server) listDeliveries(c *rest.Request, rule *schema.ID) error {
	p := c.Params("limit", "cursor")
	limit := p.Limit()
	after := rest.ReadCursor(c, p, (*rest.TimedPosition).Valid)
	if err := p.Err(); err != nil {
		return err
	}
	_, end := usage.AllTime()
	at := after.Place(end)
	var found []alert.Delivery
	err := s.alerting(c, func(ctx context.Context, store *alert.Store) (err error) {
		found, err = store.Deliveries(ctx, c.Who.AccountID, rule, at.Time, at.ID, limit+1)
		return err
	})
	if err != nil {
		return alertError(err)
	}
	return rest.ReplyPage(c, p, limit, found, newMessageReply,
		func(d *alert.Delivery) rest.TimedPosition { return rest.NewTimedPosition(d.CreatedAt, d.ID) })
}

// replayDelivery has a message sent again, under the same id.
func (s *Server) replayDelivery(c *rest.Request, rule *schema.ID) error {
	// The id of the message is read here and that of the rule by ofRule, since only one of both paths has a rule.
	id, err := schema.ParseID(alert.DeliveryPrefix, c.Param("delivery"))
	if err != nil {
		return alertError(alert.ErrNotFound)
	}
	var found []alert.Delivery
	err = s.administer(c, "delivery.replay", struct{}{}, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		// The store looks for a message of this rule: another rule's id in the path finds nothing.
		store, target := alert.NewStore(tx), id.Text(alert.DeliveryPrefix)
		if err := store.Replay(ctx, c.Who.AccountID, rule, id, s.now()); err != nil {
			return target, err
		}
		found, err = store.DeliveriesOf(ctx, c.Who.AccountID, []schema.ID{id})
		return target, err
	})
	if err != nil {
		return alertError(err)
	}
	return c.ReplyStatus(http.StatusAccepted, newMessageReply(&found[0]))
}

// testInterval is how often a rule may be tested: channels may be somebody else's.
const testInterval = 10 * time.Second

var (
	errTested     = problem.New(problem.Conflict, "A test of this rule is on its way or was made in the last 10 seconds. Try again in a moment.")
	errNoChannels = problem.New(problem.Conflict, "The rule has no channels. PATCH it with some.")
)

// testAlert sends a message to the channels of a rule, so that one can see that they
// work.
func (s *Server) testAlert(c *rest.Request, id schema.ID) error {
	if err := c.OptionalBody(&struct{}{}); err != nil {
		return err
	}
	var found []alert.Delivery
	err := s.administer(c, "alert.test", struct{}{}, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		store, now := alert.NewStore(tx), s.now().UTC().Truncate(time.Microsecond)
		target := id.Text(alert.RulePrefix)
		// The lock makes two tests at the same time one after the other, so that the second sees the first.
		rule, err := store.Lock(ctx, c.Who.AccountID, id)
		if err != nil {
			return target, err
		}
		// The channels are those of the locked rule: a change at the same time is before or after the test as a
		// whole.
		if len(rule.Channels) == 0 {
			return target, errNoChannels
		}
		tested, err := store.TestedSince(ctx, c.Who.AccountID, id, now.Add(-testInterval))
		if err != nil {
			return target, err
		}
		if tested {
			return target, errTested
		}
		ids, err := store.Notify(ctx, c.Who.AccountID, alert.Test(&rule, now), rule.Channels)
		if err != nil {
			return target, err
		}
		found, err = store.DeliveriesOf(ctx, c.Who.AccountID, ids)
		return target, err
	})
	if err != nil {
		return alertError(err)
	}
	page := rest.List[messageReply]{Data: make([]messageReply, 0, len(found))}
	for i := range found {
		page.Data = append(page.Data, newMessageReply(&found[i]))
	}
	return c.ReplyStatus(http.StatusAccepted, page)
}

// channelsBody is the account's own channels as an admin sets them, all at once.
type channelsBody struct {
	Channels []channelRequest `json:"channels"`
}

// channelsReply shows them; secrets only of those that were added by this request.
type channelsReply struct {
	Channels []channelReply `json:"channels"`
}

// ownChannels answers whom the account tells of its caps and reports.
func (s *Server) ownChannels(c *rest.Request) error {
	var channels []alert.Channel
	err := s.alerting(c, func(ctx context.Context, store *alert.Store) (err error) {
		channels, err = store.Channels(ctx, c.Who.AccountID, nil)
		return err
	})
	if err != nil {
		return alertError(err)
	}
	return c.Reply(channelsReply{newChannelReplies(channels)})
}

// putOwnChannels sets them. The answer holds the secrets of webhooks that were added.
func (s *Server) putOwnChannels(c *rest.Request, request *channelsBody) error {
	var faults schema.Faults
	// An empty list is a wish, a missing one most likely a mistake.
	if request.Channels == nil {
		faults.Add("channels", "is required; an empty list takes all away")
	}
	channels := channelsOf(request.Channels, &faults)
	alert.CheckChannels(&faults, channels)
	if len(faults) > 0 {
		return problem.FromFaults(faults)
	}
	if err := s.channels.check(c.Ctx(), channels); err != nil {
		return err
	}
	detail := map[string]any{"channels": alertDetail(&alert.Rule{Channels: channels})["channels"]}
	err := s.administer(c, "channels.set", detail, func(ctx context.Context, tx pgx.Tx, _ *account.Store) (string, error) {
		var err error
		channels, err = alert.NewStore(tx).Sealing(s.secrets).SetChannels(ctx, c.Who.AccountID, nil, channels, s.now().UTC().Truncate(time.Microsecond))
		return c.Who.AccountID.Text(schema.AccountPrefix), err
	})
	if err != nil {
		return alertError(err)
	}
	return c.Reply(channelsReply{newChannelReplies(channels)})
}
