package query

import (
	"context"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/webhook"
)

// channelPolicy decides which channels this installation can send to, and may.
type channelPolicy struct {
	// mail is whether the processors can send e-mail.
	mail bool
	// webhooks knows which addresses the operator permits; private networks are refused unless allowed.
	webhooks *webhook.Policy
	// names looks up hosts. What a name stands for is checked again when a message is sent.
	names webhook.Resolver
}

// needsMail is what is wrong with an e-mail address where no mail server is set up.
const needsMail = "cannot be used: this installation has no mail server; the operator sets one with --smtp-host on the processor and the query tier"

// lookUpTimeout bounds looking up the names of all channels of a request.
const lookUpTimeout = 5 * time.Second

// check returns a problem that names every channel that is not permitted. The channels were checked before for what is wrong with
// them by themselves. It looks names up, so it is called outside of transactions.
func (p *channelPolicy) check(ctx context.Context, channels []alert.Channel) error {
	// All look-ups of a request share the time: they hold none of the database's connections meanwhile.
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	var faults schema.Faults
	for i := range channels {
		c := &channels[i]
		field := fmt.Sprintf("channels[%d]", i)
		switch c.Type {
		case alert.Email:
			if !p.mail {
				faults.Add(field+".to", needsMail)
			}
		case alert.Webhook, alert.Slack:
			if message := p.webhooks.Check(ctx, p.names, c.Address); message != "" {
				faults.Add(field+".url", message)
			}
		}
	}
	return rest.Invalid(faults)
}

// checkRequest is check for the channels of a request, if it has any. What is wrong with them by themselves is left to others.
func (p *channelPolicy) checkRequest(ctx context.Context, requests *[]channelRequest) error {
	if requests == nil {
		return nil
	}
	var faults schema.Faults
	channels := channelsOf(*requests, &faults)
	// What is wrong with a channel by itself is found again, and reported, under the lock of the rule.
	if alert.CheckChannels(&faults, channels); len(faults) > 0 {
		return nil
	}
	return p.check(ctx, channels)
}
