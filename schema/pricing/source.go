package pricing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/price"
)

const (
	// maxCatalogueBytes bounds a catalogue; the built-in one has about 100 KB.
	maxCatalogueBytes = 16 << 20
	// fetchTimeout bounds one try to fetch it.
	fetchTimeout = 10 * time.Second
	// shownChanges is how many changes the log shows of a catalogue that waits.
	shownChanges = 5
)

// source is where published prices are read from.
type source struct {
	file, address string
	interval      time.Duration
	approved      []string // SHA-256 in lower-case hexadecimal
	client        *http.Client
	metrics       *metrics
	log           *slog.Logger

	// taken is the sum of the catalogue in force, logged the one that was logged to wait.
	taken, logged string
}

// newSource returns nil when there is none.
func newSource(cfg Config, m *metrics, log *slog.Logger) *source {
	if cfg.File == "" && cfg.URL == "" {
		return nil
	}
	s := &source{
		file: cfg.File, address: cfg.URL, interval: cfg.Interval,
		client: &http.Client{Timeout: fetchTimeout}, metrics: m, log: log,
	}
	for _, sum := range cfg.Approve {
		s.approved = append(s.approved, strings.ToLower(strings.TrimSpace(sum)))
	}
	return s
}

// read returns the catalogue to put in force instead of the one that is, or nil.
func (s *source) read(ctx context.Context, inForce *price.Book, now time.Time) *price.Book {
	text, err := s.text(ctx)
	if err != nil {
		s.failed(ctx, err)
		return nil
	}
	digest := sha256.Sum256(text)
	sum := hex.EncodeToString(digest[:])
	if sum == s.taken {
		s.metrics.refreshed("unchanged")
		return nil
	}
	book, err := price.Parse(text)
	if err != nil {
		s.failed(ctx, err)
		return nil
	}
	suspicious := suspicious(inForce, book, now)
	if len(suspicious) > 0 && !slices.Contains(s.approved, sum) {
		s.waits(ctx, sum, suspicious)
		return nil
	}
	s.taken = sum
	s.metrics.refreshed("applied")
	s.log.InfoContext(ctx, "prices applied", "sha256", sum)
	return book
}

// suspicious lists the changes that may be mistakes, for all events that may still come.
func suspicious(inForce, book *price.Book, now time.Time) []price.Change {
	return slices.DeleteFunc(inForce.Compare(book, now.Add(-schema.MaxEventAge)), func(c price.Change) bool { return !c.Suspicious() })
}

func (s *source) failed(ctx context.Context, err error) {
	s.metrics.refreshed("failed")
	s.log.WarnContext(ctx, "prices not read anew, the last good ones hold", "error", err)
}

func (s *source) waits(ctx context.Context, sum string, changes []price.Change) {
	s.metrics.refreshed("waiting")
	if s.logged == sum {
		return
	}
	s.logged = sum
	var examples []string
	for _, c := range changes[:min(len(changes), shownChanges)] {
		after := c.After.String()
		if c.After < 0 {
			after = "none"
		}
		examples = append(examples, fmt.Sprintf("%s/%s %s from %s to %s USD per million", c.Provider, c.Model, c.Kind, c.Before, after))
	}
	s.log.ErrorContext(ctx, "prices wait for approval: set --prices-approve to apply them, the former ones hold",
		"sha256", sum, "changes", len(changes), "examples", examples)
}

func (s *source) text(ctx context.Context) ([]byte, error) {
	if s.file != "" {
		f, err := os.Open(s.file)
		if err != nil {
			return nil, fmt.Errorf("read prices: %w", err)
		}
		defer func() { _ = f.Close() }()
		return readAll(f)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch prices: %w", err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		// The address may hold a secret; what went wrong does not.
		if failed := new(url.Error); errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, fmt.Errorf("fetch prices: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch prices: status %d", resp.StatusCode)
	}
	return readAll(resp.Body)
}

func readAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxCatalogueBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", err)
	}
	if len(text) > maxCatalogueBytes {
		return nil, errors.New("read prices: more than 16 MiB")
	}
	return text, nil
}
