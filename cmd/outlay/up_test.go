package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlayhq/outlay/cmd/outlay/load"
	"github.com/outlayhq/outlay/deploy/postgres"
	"github.com/outlayhq/outlay/schema/schematest/need"
)

// upServer is `outlay up` in a directory and at addresses of its own.
type upServer struct {
	dir, listen, ops string
	flags            []string
	process          *running
}

func startUp(t *testing.T) *upServer {
	t.Helper()
	return startUpIn(t, t.TempDir())
}

// startUpIn starts the program in a directory, with more flags.
func startUpIn(t *testing.T, dir string, flags ...string) *upServer {
	t.Helper()
	u := &upServer{dir: dir, listen: freeAddress(t), ops: freeAddress(t), flags: flags}
	// A killed program's database is still writing its last: the directory can be removed only once that has ended.
	t.Cleanup(func() {
		if err := postgres.Remove(context.WithoutCancel(t.Context()), filepath.Join(u.dir, "postgres")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	u.restart(t)
	return u
}

// restart starts the program again in the same place.
func (u *upServer) restart(t *testing.T) {
	t.Helper()
	u.process = launch(t, "up", append([]string{"up", "--data-dir", u.dir, "--listen", u.listen, "--ops-listen", u.ops}, u.flags...)...)
	u.process.awaitReady(t, u.ops)
}

func (u *upServer) credentials(t *testing.T) credentials {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(u.dir, credentialsFile))
	if err != nil {
		t.Fatal(err)
	}
	var c credentials
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// loadConfig is a load on a server with c's credentials.
func loadConfig(t *testing.T, c credentials) load.Config {
	t.Helper()
	return load.Config{
		BaseURL: c.BaseURL, APIKey: c.APIKey, Email: c.Email, Password: c.Password,
		Events: scale(t), Concurrency: 32, Agents: 40, Batch: 1, Keys: true,
		GiveUp: 5 * time.Minute, Wait: 3 * time.Minute, Progress: io.Discard,
	}
}

// runLoad runs a load and prints its report; any difference fails the test.
func runLoad(ctx context.Context, t *testing.T, cfg load.Config) {
	t.Helper()
	report, err := load.Run(ctx, cfg)
	if report != nil {
		t.Logf("acknowledged %d events and %s USD at %.0f a second, %d sent again, %d unknown, stored %d and %s USD, difference %d and %s USD",
			report.Acknowledged, report.Cost, float64(report.Acknowledged)/report.Elapsed.Seconds(), report.Retries,
			report.Unknown, report.Stored, report.StoredCost, report.Difference(), report.CostDifference())
	}
	if err != nil {
		t.Error(err)
	}
}

// client calls a server with a bearer credential.
type client struct{ base, bearer string }

// call sends a request and reads a JSON answer; it returns the status.
func (c client) call(t *testing.T, method, path, body string, answer any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	d := json.NewDecoder(resp.Body)
	d.UseNumber()
	if err := d.Decode(answer); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// signIn returns a client that may read.
func signIn(t *testing.T, c credentials) client {
	t.Helper()
	var answer struct {
		Token string `json:"token"`
	}
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, c.Email, c.Password)
	if status := (client{base: c.BaseURL}).call(t, http.MethodPost, "/v1/auth/login", body, &answer); status != http.StatusOK {
		t.Fatalf("sign in: status %d", status)
	}
	return client{c.BaseURL, answer.Token}
}

// published are events with what they cost by the providers' published prices,
// worked out by hand, in US dollars per million tokens.
var published = []struct{ name, event, cost string }{
	{"gpt-4o: 2.50 in, 10.00 out", `"model":"gpt-4o","input_tokens":1234,"output_tokens":567`, "0.008755"},
	{"gpt-4o-mini: 0.15 in, 0.60 out", `"model":"gpt-4o-mini","input_tokens":1234,"output_tokens":567`, "0.0005253"},
	{"o3 now: 2.00 in, 8.00 out", `"model":"o3","input_tokens":1234,"output_tokens":567`, "0.007004"},
	{"claude-3-5-sonnet: 3.00 in, 15.00 out", `"model":"claude-3-5-sonnet-20241022","input_tokens":1234,"output_tokens":567`, "0.012207"},
	{"claude-3-haiku: 0.25 in, 1.25 out", `"model":"claude-3-haiku-20240307","input_tokens":1234,"output_tokens":567`, "0.00101725"},
	{"gemini-1.5-pro to 128k: 1.25 in, 5.00 out", `"model":"gemini-1.5-pro","input_tokens":128000,"output_tokens":100`, "0.1605"},
	{"gemini-1.5-pro above: 2.50 in, 10.00 out", `"model":"gemini-1.5-pro","input_tokens":128001,"output_tokens":100`, "0.3210025"},
	{"command-r-plus: 2.50 in, 10.00 out", `"model":"command-r-plus","input_tokens":1234,"output_tokens":567`, "0.008755"},
}

// One command on an empty directory, and an event is shown, priced to the
// nano-dollar, within two seconds; a second start keeps everything.
func TestUpShowsWhatWasTracked(t *testing.T) {
	t.Parallel()
	u := startUp(t)
	c := u.credentials(t)
	if info, err := os.Stat(filepath.Join(u.dir, credentialsFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("credentials.json: %v, %v, want mode 0600", info.Mode(), err)
	}
	reader := signIn(t, c)
	for i, p := range published {
		agent := fmt.Sprintf("agent %d/ü", i)
		var result struct {
			EventID string      `json:"event_id"`
			CostUSD json.Number `json:"cost_usd"`
		}
		status := client{c.BaseURL, c.APIKey}.call(t, http.MethodPost, "/v1/track", fmt.Sprintf(`{"agent":%q,%s}`, agent, p.event), &result)
		if status != http.StatusOK || result.CostUSD.String() != p.cost {
			t.Errorf("%s: status %d, cost %s, want %s", p.name, status, result.CostUSD, p.cost)
		}
		u.awaitShown(t, reader, result.EventID, p.cost)
	}
	u.process.stop(t)
	u.restart(t)
	var events struct {
		Data []struct{} `json:"data"`
	}
	signIn(t, c).call(t, http.MethodGet, "/v1/events?limit=100", "", &events)
	if len(events.Data) != len(published) {
		t.Errorf("%d events after a restart, want %d", len(events.Data), len(published))
	}
}

// awaitShown fails the test unless the event is in GET /v1/events in time.
func (u *upServer) awaitShown(t *testing.T, reader client, id, cost string) {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(20 * time.Millisecond) {
		var events struct {
			Data []struct {
				EventID string      `json:"event_id"`
				CostUSD json.Number `json:"cost_usd"`
			} `json:"data"`
		}
		reader.call(t, http.MethodGet, "/v1/events", "", &events)
		for _, e := range events.Data {
			if e.EventID == id {
				if e.CostUSD.String() != cost {
					t.Errorf("event %s is shown with %s, want %s", id, e.CostUSD, cost)
				}
				t.Logf("shown after %v", time.Since(start).Round(time.Millisecond))
				return
			}
		}
	}
	t.Errorf("event %s is not shown", id)
}

// A revoked key stops working within a second.
func TestRevokedKeyIsRefused(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	in.startIngest(t)
	key := in.newKey(t)
	tracker := client{in.base, key.secret}
	if status := tracker.call(t, http.MethodPost, "/v1/track", `{"agent":"a"}`, &struct{}{}); status != http.StatusOK {
		t.Fatalf("new key: status %d", status)
	}
	in.outlay(t, "key", "revoke", "--database-url", in.databaseURL, "--account", in.account, key.id)
	start := time.Now()
	for tracker.call(t, http.MethodPost, "/v1/track", `{"agent":"a"}`, &struct{}{}) != http.StatusUnauthorized {
		if time.Since(start) > time.Minute {
			t.Fatal("the revoked key still works")
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("refused %v after it was revoked", time.Since(start).Round(time.Millisecond))
}

// What was acknowledged is stored once, across kills of the whole program.
func TestUpLosesNothingWhenKilled(t *testing.T) {
	t.Parallel()
	u := startUp(t)
	cfg := loadConfig(t, u.credentials(t))
	cfg.Rate = float64(cfg.Events) / 15
	done := make(chan struct{})
	go func() {
		defer close(done)
		runLoad(t.Context(), t, cfg)
	}()
	for range 3 {
		time.Sleep(3 * time.Second)
		u.process.kill()
		u.restart(t)
	}
	<-done
}

// send sends one event and reads the answer; it returns the status, 0 for none.
func send(ctx context.Context, base, key, body string, answer any) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/track", strings.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if json.NewDecoder(resp.Body).Decode(answer) != nil {
		return 0
	}
	return resp.StatusCode
}

// The metrics of every tier are well formed, as Prometheus' own tool checks.
func TestMetricsAreWellFormed(t *testing.T) {
	t.Parallel()
	promtool := need.Program(t, "promtool")
	u := startUp(t)
	resp, err := http.Get("http://" + u.ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = resp.Body
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// An address of every interface is no address for a client: what the first start prints
// and keeps is one that works on this machine.
func TestUpOnEveryAddress(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	u := startUpIn(t, t.TempDir(), "--listen", ":"+port)
	if want, got := "http://localhost:"+port, u.credentials(t).BaseURL; got != want {
		t.Errorf("base_url is %q, want %q", got, want)
	}
	awaitFor(t, "the address to be printed", time.Minute, func() bool { return strings.Contains(u.process.text(t), "curl http://localhost:"+port+"/v1/track ") })
	signIn(t, u.credentials(t))
}
