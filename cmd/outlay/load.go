package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/outlayhq/outlay/cmd/outlay/load"
)

// loadCommand is a load generator and an end-to-end test: its exit code states whether the books agree.
type loadCommand struct {
	Credentials string        `default:"./data/credentials.json" type:"path" placeholder:"FILE" help:"File with base_url, api_key, email and password, as outlay up writes it."`
	BaseURL     string        `name:"base-url" placeholder:"URL" help:"Send to this address instead of the one in the file."`
	Events      int           `default:"10000" help:"How many events to send in all."`
	Concurrency int           `default:"64" help:"How many requests are under way at once."`
	Rate        float64       `default:"0" help:"Events a second, evenly spaced; 0 is as fast as it goes."`
	Agents      int           `default:"50" help:"How many agents the events are spread over."`
	Batch       int           `default:"1" help:"Events in one request, 1 to 1000."`
	Keys        bool          `default:"true" negatable:"" help:"Send an idempotency key with every event and try again until there is a clear answer."`
	GiveUp      time.Duration `name:"give-up" default:"2m" help:"How long one request is tried."`
	Wait        time.Duration `default:"60s" help:"How long to wait without progress until everything is stored."`
}

// Run sends, prints what came of it, and returns an error on any difference.
func (c *loadCommand) Run(ctx context.Context) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	report, err := load.Run(ctx, cfg)
	if report != nil {
		printReport(report)
	}
	return err
}

// config checks the flags and reads the credentials file.
func (c *loadCommand) config() (load.Config, error) {
	if c.Events < 1 || c.Concurrency < 1 || c.Agents < 1 || c.Batch < 1 || c.Batch > 1000 {
		return load.Config{}, errors.New("--events, --concurrency and --agents must be at least 1, --batch between 1 and 1000")
	}
	// Whatever of the file a flag overrides, the key and the password only come from the file: arguments show in lists of processes.
	text, err := os.ReadFile(c.Credentials)
	if err != nil {
		return load.Config{}, fmt.Errorf("--credentials: %w", err)
	}
	var saved credentials
	if err := json.Unmarshal(text, &saved); err != nil {
		return load.Config{}, fmt.Errorf("--credentials: %w", err)
	}
	if c.BaseURL != "" {
		saved.BaseURL = c.BaseURL
	}
	return load.Config{
		BaseURL: saved.BaseURL, APIKey: saved.APIKey, Email: saved.Email, Password: saved.Password,
		Events: c.Events, Concurrency: c.Concurrency, Rate: c.Rate, Agents: c.Agents, Batch: c.Batch,
		Keys: c.Keys, GiveUp: c.GiveUp, Wait: c.Wait, Progress: os.Stderr,
	}, nil
}

// printReport prints a line for each kind of figure. Latencies count from when a request was due.
func printReport(r *load.Report) {
	// Tenths of a millisecond are more than such a measurement is worth.
	ms := func(q float64) float64 { return float64(r.Latencies.Quantile(q).Microseconds()) / 1000 }
	fmt.Printf("acknowledged   %d events, %s USD, in %.1f s: %.0f events a second\n",
		r.Acknowledged, r.Cost, r.Elapsed.Seconds(), float64(r.Acknowledged)/r.Elapsed.Seconds())
	fmt.Printf("no clear yes   %d refused, %d unknown, %d requests sent again\n", r.Refused, r.Unknown, r.Retries)
	fmt.Printf("latency        p50 %.1f ms, p95 %.1f ms, p99 %.1f ms, longest %.1f ms\n", ms(0.5), ms(0.95), ms(0.99), ms(1))
	fmt.Printf("stored         %d events, %s USD, %.1f s after the last acknowledgement\n", r.Stored, r.StoredCost, r.StoredAfter.Seconds())
	fmt.Printf("difference     %d events, %s USD\n", r.Difference(), r.CostDifference())
}
