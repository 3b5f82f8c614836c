package alert

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/mail"
	"net/url"
	"strings"

	"github.com/outlayhq/outlay/schema"
)

// ChannelType says how a channel is notified.
type ChannelType string

// The types of channels.
const (
	Webhook ChannelType = "webhook"
	Slack   ChannelType = "slack"
	Email   ChannelType = "email"
)

// Channel is where messages go.
type Channel struct {
	ID   schema.ID `db:"channel_id"`
	Type ChannelType
	// Address is a URL or an e-mail address, as it may be shown.
	Address string
	// Secret is what signs a webhook, or the whole address of Slack. It is set only
	// where it was just made or is about to be used.
	Secret string `db:"-"`
}

// maxAddress bounds an address, in characters.
const maxAddress = 2000

// checkChannels notes what is wrong with channels as a client gave them: Address is
// the whole address.
func checkChannels(faults *schema.Faults, channels []Channel) {
	if len(channels) > MaxChannels {
		faults.Add("channels", fmt.Sprintf("must have at most %d entries", MaxChannels))
		return
	}
	seen := map[string]bool{}
	for i := range channels {
		c := &channels[i]
		at := fmt.Sprintf("channels[%d]", i)
		c.check(faults, at)
		if key := string(c.Type) + " " + c.Address; seen[key] {
			faults.Add(at, "is there already")
		} else {
			seen[key] = true
		}
	}
}

// CheckChannels notes what is wrong with a list of channels.
func CheckChannels(faults *schema.Faults, channels []Channel) { checkChannels(faults, channels) }

func (c *Channel) check(faults *schema.Faults, at string) {
	switch c.Type {
	case Webhook, Slack:
		if message := urlFault(c.Address); message != "" {
			faults.Add(at+".url", message)
		}
	case Email:
		if !validMail(c.Address) {
			faults.Add(at+".to", "must be an e-mail address")
		}
	default:
		faults.Add(at+".type", `must be "webhook", "slack" or "email"`)
	}
}

// urlFault returns what is wrong with an address that messages are posted to, or "".
// Where it leads is judged when it is connected to, because names change.
func urlFault(text string) string {
	if message := schema.TextFault(text, maxAddress); message != "" {
		return message
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "":
		return "must be an address that starts with https:// or http://"
	case u.User != nil:
		return "must not hold a user name or password"
	case u.Fragment != "" || strings.Contains(text, "#"):
		return "must not have a part behind #"
	}
	return ""
}

func validMail(text string) bool {
	if schema.TextFault(text, 254) != "" {
		return false
	}
	address, err := mail.ParseAddress(text)
	return err == nil && address.Address == text && strings.Contains(text, "@")
}

// hidden stands for the part of an address that is not shown.
const hidden = "…"

// Shown returns an address as it may be shown. That of Slack lets anybody who knows
// it write to the channel, so only its end is left.
func (c *Channel) Shown() string {
	if c.Type != Slack {
		return c.Address
	}
	u, err := url.Parse(c.Address)
	if err != nil {
		return hidden
	}
	return u.Scheme + "://" + u.Host + "/" + hidden + c.Address[max(0, len(c.Address)-4):]
}

// secretPrefix is that of Standard Webhooks.
const secretPrefix = "whsec_"

// secretBytes are as many as Standard Webhooks recommends for a symmetric secret.
const secretBytes = 32

func newSecret() string {
	key := make([]byte, secretBytes)
	// rand.Read never fails: since Go 1.24 it ends the program instead.
	_, _ = rand.Read(key)
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}
