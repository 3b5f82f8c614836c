package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// healthCommand is the health check of a container image without a shell or curl.
type healthCommand struct {
	OpsListen string `name:"ops-listen" default:"127.0.0.1:9090" help:"Operations address of the process to ask."`
}

// defaultOps is where the operations listener is unless set otherwise.
const defaultOps = "127.0.0.1:9090"

// Run returns nil and prints nothing when the process is ready, and an error that names what is not ready otherwise.
func (c *healthCommand) Run(ctx context.Context) error { return askReady(ctx, c.OpsListen) }

// askReady returns nil when the process with this operations address is ready.
func askReady(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*readyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listenAddress(address)+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("%s is not an address: %w", address, err)
	}
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	defer resp.Body.Close()
	// The body has a line for each part that is not ready.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", strings.TrimSpace(string(text)))
	}
	return nil
}
