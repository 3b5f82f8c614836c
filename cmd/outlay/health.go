package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

type healthCommand struct {
	OpsListen string `name:"ops-listen" default:"127.0.0.1:9090" help:"Operations address of the process to ask."`
}

// Run is silent when the process is ready, and an error that says what is not.
func (c *healthCommand) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*readyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.OpsListen+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("--ops-listen: %w", err)
	}
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", text)
	}
	return nil
}
