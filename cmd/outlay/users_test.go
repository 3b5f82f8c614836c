package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What an operator changes at the command line holds on running tiers: the plan of an account and the key in place of another one within a
// second, and a user who is disabled or has another password is signed out. Each is in the audit log.
func TestOperatorChangesHoldOnRunningTiers(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	in.startIngest(t)
	in.startIngest(t)
	in.startQuery(t)
	owner := signIn(t, in.credentials)
	run := func(args ...string) string {
		t.Helper()
		return in.outlay(t, append(args, "--database-url", in.databaseURL)...)
	}
	ofAccount := func(args ...string) string {
		t.Helper()
		return run(append(args, "--account", in.account)...)
	}

	key := in.newKey(t)
	if status, limit := in.track(t, key.secret); status != http.StatusOK || limit != "60000000" {
		t.Fatalf("status %d, limit %s before anything is changed", status, limit)
	}
	run("account", "plan", in.account, "--plan", "pro")
	in.within(t, "the plan", func() bool { _, limit := in.track(t, key.secret); return limit == "6000" })

	rotated := field(t, ofAccount("key", "rotate", key.id), "api key")
	in.within(t, "the new key", func() bool { status, _ := in.track(t, rotated); return status == http.StatusOK })
	in.within(t, "the end of the old key", func() bool { status, _ := in.track(t, key.secret); return status == http.StatusUnauthorized })

	ofAccount("user", "create", "--email", "viewer@example.com")
	changed := field(t, ofAccount("user", "password", "viewer@example.com"), "password")
	viewer := credentials{BaseURL: in.base, Email: "viewer@example.com", Password: changed}
	signedIn := signIn(t, viewer)
	var answer map[string]any
	ofAccount("user", "disable", "VIEWER@example.com")
	in.within(t, "the end of a signed-in user", func() bool {
		return signedIn.call(t, http.MethodGet, "/v1/account", "", &answer) == http.StatusUnauthorized
	})
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, viewer.Email, viewer.Password)
	if status := (client{base: in.base}).call(t, http.MethodPost, "/v1/auth/login", body, &answer); status != http.StatusUnauthorized {
		t.Errorf("a disabled user's sign-in is answered %d, want 401", status)
	}

	made := field(t, ofAccount("key", "create", "--name", "short"), "id")
	ofAccount("key", "revoke", made)

	var log struct {
		Data []struct{ Action string }
	}
	if status := owner.call(t, http.MethodGet, "/v1/audit", "", &log); status != http.StatusOK {
		t.Fatalf("audit: status %d", status)
	}
	var actions []string
	for _, act := range log.Data {
		actions = append(actions, act.Action)
	}
	for _, want := range []string{
		"account.create", "account.set_plan", "api_key.create", "api_key.rotate", "api_key.revoke", "user.create", "user.change",
	} {
		if !strings.Contains(strings.Join(actions, " "), want) {
			t.Errorf("the audit log lacks %s: %v", want, actions)
		}
	}
}

// track sends an event with a key and returns the status and the rate limit of the response.
func (in *installation) track(t *testing.T, key string) (status int, limit string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, in.base+"/v1/track", bytes.NewReader([]byte(`{"agent":"a"}`)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, response.Header.Get("X-RateLimit-Limit")
}

// within waits until something holds, for ten times as long as is promised: the tests share their processors.
func (in *installation) within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	began := time.Now()
	for deadline := began.Add(10 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not hold after 10 s", what)
		}
	}
	t.Logf("%s holds after %v", what, time.Since(began).Round(time.Millisecond))
}
