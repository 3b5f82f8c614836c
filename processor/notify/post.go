package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema/alert"
	"github.com/outlayhq/outlay/schema/webhook"
)

// tryTimeout bounds one try to send a message, all in all.
const tryTimeout = 15 * time.Second

// maxAnswerBytes is how much of an answer is read. Nothing of it is kept.
const maxAnswerBytes = 4 << 10

// newClient returns a client that connects to what the policy permits, follows no
// redirects, uses no proxy, and keeps no connection: the next message may go
// elsewhere. Names are looked up by the machine's resolver for nil.
func newClient(p *webhook.Policy, names *net.Resolver) *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: p.Control, Resolver: names}
	return &http.Client{
		Timeout:       tryTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: 5 * time.Second,
			MaxResponseHeaderBytes: 16 << 10, ForceAttemptHTTP2: true,
		},
	}
}

// poster sends messages over HTTP.
type poster struct {
	// policy refuses private addresses, so that an account cannot reach into the operator's network.
	policy *webhook.Policy
	client *http.Client
	now    func() time.Time
}

// webhook sends a message in the format of Standard Webhooks: its id and the time are signed
// with it, so that nobody can change, forge or replay it.
func (p *poster) webhook(ctx context.Context, d *delivery) result {
	// The time is that of this try, so that receivers can refuse old messages.
	header := http.Header{}
	id, at := d.ID.Text(alert.DeliveryPrefix), strconv.FormatInt(p.now().Unix(), 10)
	signature, err := sign(d.Secret, id, at, d.Payload)
	if err != nil {
		return result{outcome: outcomeSecret}
	}
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", at)
	header.Set("Webhook-Signature", signature)
	return p.post(ctx, d.Address, []byte(d.Payload), header)
}

// errSecret is the error of a webhook whose secret was made by other means than the API.
var errSecret = errors.New("the secret is not one of a webhook")

// sign returns the signature header of Standard Webhooks: HMAC-SHA256 over the id, the time and the payload.
func sign(secret, id, at, payload string) (string, error) {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) == 0 {
		return "", errSecret
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "." + payload))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// slack sends a message to a channel of Slack. The characters that it reads as markup
// are escaped: names of agents are anybody's.
func (p *poster) slack(ctx context.Context, d *delivery) result {
	if d.Secret == "" {
		return result{outcome: outcomeSecret}
	}
	// These three are all that Slack asks to be escaped.
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	text, err := json.Marshal(map[string]string{"text": escape.Replace(d.Title) + "\n" + escape.Replace(d.Summary)})
	if err != nil {
		return result{outcome: outcomeFailed}
	}
	// The whole address of Slack is its secret.
	return p.post(ctx, d.Secret, text, http.Header{})
}

// post sends a body. The policy is checked for the address as it is written here, and for the address that it resolves to when the
// connection is made.
func (p *poster) post(ctx context.Context, address string, body []byte, header http.Header) result {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return result{outcome: outcomeFailed}
	}
	if p.policy.CheckURL(request.URL) != "" {
		return result{outcome: outcomeAddress}
	}
	request.Header = header
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Outlay")
	response, err := p.client.Do(request)
	if err != nil {
		return result{outcome: reason(err)}
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswerBytes)
	r := result{outcome: outcomeDelivered, status: response.StatusCode}
	switch {
	case r.status == http.StatusGone:
		r.outcome = outcomeGone
	case r.status >= 300 && r.status < 400:
		r.outcome = outcomeRedirect
	case r.status < 200 || r.status >= 300:
		r.outcome = outcomeStatus
	}
	return r
}

// reason classifies a failed connection. It reveals nothing about the other end: the address may be inside the network.
func reason(err error) outcome {
	var timeout net.Error
	switch {
	case errors.Is(err, webhook.ErrAddress):
		return outcomeAddress
	case errors.As(err, &timeout) && timeout.Timeout():
		return outcomeTimeout
	}
	return outcomeFailed
}
