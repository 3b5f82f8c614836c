package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/backoff"
)

// reader asks the service what is stored.
type reader struct {
	cfg    Config
	client *http.Client
	// token is not renewed: when it expires during a long wait, the run ends with an error.
	token string
}

// newReader signs in.
func newReader(ctx context.Context, cfg Config, client *http.Client) (*reader, error) {
	r := &reader{cfg: cfg, client: client}
	body, err := json.Marshal(map[string]string{"email": cfg.Email, "password": cfg.Password})
	if err != nil {
		return nil, err
	}
	var response struct {
		Token string `json:"token"`
	}
	if err := r.call(ctx, http.MethodPost, "/v1/auth/login", body, &response); err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	r.token = response.Token
	return r, nil
}

// pollInterval is how often the service is asked.
const pollInterval = 200 * time.Millisecond

// waitStored fills in what the service shows of the run, once it shows all that
// was acknowledged and reports that nothing is on its way any more, or when it makes
// no progress for cfg.Wait.
func (r *reader) waitStored(ctx context.Context, run string, report *Report) error {
	// Events that were acknowledged before this moment have to be in what is complete after it.
	acknowledged := time.Now()
	progress := acknowledged
	for {
		stored, cost, err := r.stored(ctx, run)
		switch {
		case err != nil && time.Since(progress) > r.cfg.Wait:
			return err
		case err == nil:
			if stored != report.Stored {
				progress = time.Now()
			}
			report.Stored, report.StoredCost = stored, cost
			if stored < report.Acknowledged {
				break
			}
			if report.StoredAfter == 0 {
				report.StoredAfter = time.Since(acknowledged)
			}
			if complete, err := r.completeUntil(ctx); err == nil && complete.After(acknowledged) {
				report.Stored, report.StoredCost, err = r.stored(ctx, run)
				return err
			}
		}
		if time.Since(progress) > r.cfg.Wait {
			return nil
		}
		if err := backoff.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// stored sums events and money over the run's agents.
func (r *reader) stored(ctx context.Context, run string) (events int, cost schema.NanoUSD, err error) {
	// Agents of other runs do not match, so a run can be checked on an account that has others.
	query := url.Values{"q": {"load-" + run + "-"}, "limit": {"500"}}
	for {
		var page struct {
			Data []struct {
				Events  int         `json:"events"`
				CostUSD json.Number `json:"cost_usd"`
			} `json:"data"`
			NextCursor *string `json:"next_cursor"`
		}
		if err := r.call(ctx, http.MethodGet, "/v1/agents?"+query.Encode(), nil, &page); err != nil {
			return 0, 0, fmt.Errorf("read agents: %w", err)
		}
		for _, a := range page.Data {
			events += a.Events
			c, err := schema.ParseUSD(a.CostUSD.String())
			if err != nil {
				return 0, 0, fmt.Errorf("read cost: %w", err)
			}
			cost += c
		}
		if page.NextCursor == nil {
			return events, cost, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// completeUntil is the time up to which everything accepted is stored.
func (r *reader) completeUntil(ctx context.Context) (time.Time, error) {
	var response struct {
		CompleteUntil *time.Time `json:"complete_until"`
	}
	if err := r.call(ctx, http.MethodGet, "/v1/analytics/hourly", nil, &response); err != nil {
		return time.Time{}, err
	}
	if response.CompleteUntil == nil {
		return time.Time{}, errors.New("not known")
	}
	return *response.CompleteUntil, nil
}

// call sends a request and decodes its JSON response. Any status but 200 is an error that quotes the body.
func (r *reader) call(ctx context.Context, method, path string, body []byte, response any) error {
	req, err := http.NewRequestWithContext(ctx, method, r.cfg.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	return json.Unmarshal(text, response)
}
