package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// outlay check states whether anybody checks the alert rules and sends messages, and ends with an error when nobody does.
func TestCheckSaysWhetherAlertsAreLookedAfter(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	check := func() (lines string, ok bool) {
		out, err := exec.CommandContext(t.Context(), path, append([]string{"check", "--database-url", in.databaseURL}, in.kafka...)...).CombinedOutput()
		return string(out), err == nil
	}
	want := func(what string, ok bool, parts ...string) {
		t.Helper()
		lines, is := check()
		for _, part := range parts {
			if !strings.Contains(lines, part) || is != ok {
				t.Errorf("%s: ended well %v, want %v, and %q in\n%s", what, is, ok, part, lines)
			}
		}
	}
	want("nobody runs", false, "NOT OK  alert rules", "no processor checks the alert rules", "ok      messages")
	in.startQuery(t, "--smtp-host=mail.example.com") // A processor without one gives the message up at once.
	in.startIngest(t)
	conn, err := pgx.Connect(t.Context(), in.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	api := signIn(t, in.credentials)
	if status := api.call(t, "POST", "/v1/alerts", `{"name":"n","metric":"events","window":"5m","condition":{"type":"above","value":1},"channels":[{"type":"email","to":"a@example.com"}]}`, &struct{}{}); status != 201 {
		t.Fatalf("make a rule: status %d", status)
	}
	var rule struct{ Data []struct{ ID string } }
	api.call(t, "GET", "/v1/alerts", "", &rule)
	if status := api.call(t, "POST", "/v1/alerts/"+rule.Data[0].ID+"/test", "", &struct{}{}); status != 202 {
		t.Fatalf("test the rule: status %d", status)
	}
	if _, err := conn.Exec(t.Context(), `UPDATE deliveries SET next_try_at = now() - interval '2 minutes'`); err != nil {
		t.Fatal(err)
	}
	want("a message that nobody sends", false, "NOT OK  messages", "1 are due for more than a minute")
	in.startProcessor(t)
	awaitFor(t, "a processor to check the rule", time.Minute, func() bool { _, ok := check(); return ok })
	want("all is well", true, "ok      alert rules        1 enabled", "ok      messages")
	if _, err := conn.Exec(t.Context(), `UPDATE alert_rules SET updated_at = now() - interval '1 hour'; UPDATE alert_status SET checked_at = now() - interval '1 hour';
		CREATE FUNCTION stand() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER stand BEFORE INSERT OR UPDATE ON alert_status FOR EACH ROW EXECUTE FUNCTION stand()`); err != nil {
		t.Fatal(err)
	}
	awaitFor(t, "the check to see a rule that is passed over", time.Minute, func() bool {
		if _, err := conn.Exec(t.Context(), `ALTER TABLE alert_status DISABLE TRIGGER stand; UPDATE alert_status SET checked_at = now() - interval '1 hour'; ALTER TABLE alert_status ENABLE TRIGGER stand`); err != nil {
			t.Fatal(err)
		}
		lines, ok := check()
		return !ok && strings.Contains(lines, "has not been checked for more than 7 minutes")
	})
}
