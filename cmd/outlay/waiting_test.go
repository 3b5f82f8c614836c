package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outlayhq/outlay/schema/migrations"
	"github.com/outlayhq/outlay/schema/schematest"
)

// nowhere is an address on which nobody listens.
const nowhere = "127.0.0.1:1"

// missingTopic is one that nobody makes.
const missingTopic = "outlay-test-missing"

// launchTiers starts the tiers of the names.
func launchTiers(t *testing.T, databaseURL, broker string, names ...string) []*running {
	t.Helper()
	key := t.TempDir() + "/jwt.pem"
	if err := ensureKeyFile(key); err != nil {
		t.Fatal(err)
	}
	flags := map[string][]string{
		"ingest":    {"--kafka-brokers", broker, "--kafka-topic", missingTopic, "--listen", freeAddress(t)},
		"processor": {"--kafka-brokers", broker, "--kafka-topic", missingTopic},
		"query":     {"--jwt-key-file", key, "--listen", freeAddress(t)},
	}
	var tiers []*running
	for _, name := range names {
		tiers = append(tiers, launch(t, name, append([]string{name, "--database-url", databaseURL, "--ops-listen", freeAddress(t)}, flags[name]...)...))
	}
	return tiers
}

var loud = regexp.MustCompile(`(?m)^.*level=(WARN|ERROR).*$`)

// complaints are the warnings and errors in a log, without those about settings.
func complaints(log string) (lines []string) {
	for _, line := range loud.FindAllString(log, -1) {
		if !strings.Contains(line, "--secrets-key-file") && !strings.Contains(line, "--public-url") {
			lines = append(lines, line)
		}
	}
	return lines
}

// wantOneComplaint waits until the log of a tier states what it waits for, which has to be
// its only line above Info. /readyz gives the same reason.
func wantOneComplaint(t *testing.T, tier *running, reason string) {
	t.Helper()
	awaitFor(t, fmt.Sprintf("the log of %s to say %q", tier.name, reason), time.Minute, func() bool { return strings.Contains(tier.text(t), reason) })
	if lines := complaints(tier.text(t)); len(lines) != 1 || !strings.Contains(lines[0], `msg="not ready"`) {
		t.Errorf("%s complained %d times, want once:\n%s", tier.name, len(lines), strings.Join(lines[:min(len(lines), 10)], "\n"))
	}
	// The log quotes what it states.
	if _, text := readiness(t, tier.ops); !strings.Contains(strings.ReplaceAll(text, `"`, `\"`), reason) {
		t.Errorf("/readyz of %s is %q, want %q", tier.name, text, reason)
	}
}

// A tier that is started before its database reports it once, and its parts do not.
func TestTierWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	broker := schematest.Kafka(t)[0]
	for _, tier := range launchTiers(t, "postgres://outlay:secret@"+nowhere+"/outlay", broker, "ingest", "processor", "query") {
		wantOneComplaint(t, tier, "waiting for the database at "+nowhere+": start it, or correct --database-url (connection refused)")
	}
}

// A tier that is started before the tables are made states once how they are made, and
// begins its work when they are there.
func TestTierWaitsForMigrate(t *testing.T) {
	t.Parallel()
	broker, empty := schematest.Kafka(t)[0], schematest.Empty(t, migrations.Plain).URL
	tiers := launchTiers(t, empty, broker, "ingest", "processor", "query")
	for _, tier := range tiers {
		wantOneComplaint(t, tier, "lacks tables of this version: run outlay migrate")
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path, "migrate", "--database-url", empty).CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	tiers[2].awaitReady(t, tiers[2].ops)
	for _, tier := range tiers[:2] {
		awaitFor(t, tier.name+" to wait for its topic", time.Minute, func() bool {
			_, text := readiness(t, tier.ops)
			return strings.Contains(text, "the topic "+missingTopic+" does not exist: run outlay migrate")
		})
	}
}

// Tiers that work with Kafka say which they wait for, in the log and in readiness.
func TestTierWaitsForKafka(t *testing.T) {
	t.Parallel()
	database := schematest.DatabaseOf(t, migrations.Plain).URL
	for _, tier := range launchTiers(t, database, nowhere, "ingest", "processor") {
		wantOneComplaint(t, tier, "waiting for Kafka at "+nowhere+": start it, or correct --kafka-brokers (connection refused)")
	}
}

// When the database stops, each tier reports it once while its parts go on trying, and that
// it is ready again when the database is back.
func TestTierLosesItsDatabase(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	tiers := []*running{in.startIngest(t), in.startQuery(t), in.startProcessor(t)}
	tiers[2].awaitReady(t, tiers[2].ops)
	before := make([]int, len(tiers))
	for i, tier := range tiers {
		before[i] = len(tier.text(t))
	}
	in.stopDatabase(t)
	u, err := url.Parse(in.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	reason := "waiting for the database at " + u.Host
	for i, tier := range tiers {
		awaitFor(t, "the log of "+tier.name+" to name the database", time.Minute, func() bool { return strings.Contains(tier.text(t)[before[i]:], reason) })
		if lines := complaints(tier.text(t)[before[i]:]); len(lines) != 1 {
			t.Errorf("%s complained %d times, want once:\n%s", tier.name, len(lines), strings.Join(lines[:min(len(lines), 10)], "\n"))
		}
	}
	in.startDatabase(t)
	for i, tier := range tiers {
		tier.awaitReady(t, tier.ops)
		awaitFor(t, "the log of "+tier.name+" to say that it is ready", time.Minute, func() bool { return strings.Contains(tier.text(t)[before[i]:], `msg="ready again"`) })
	}
}

// The commands say in one line what to do about a Kafka that does not answer.
func TestCommandsWithoutKafka(t *testing.T) {
	t.Parallel()
	in := schematest.DatabaseOf(t, migrations.Plain).URL
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	const want = "no connection to Kafka at " + nowhere + ": start it, or correct --kafka-brokers (connection refused)"
	for _, args := range [][]string{{"migrate", "--database-url", in, "--kafka-brokers", nowhere}, {"check", "--kafka-brokers", nowhere}} {
		out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
		if text := string(out); err == nil || strings.Count(text, "Kafka") != 1 || !strings.Contains(text, want+"\n") || strings.Contains(text, "dial") {
			t.Errorf("%s: %v, want one line with %q:\n%s", args[0], err, want, text)
		}
	}
	broker := schematest.Kafka(t)[0]
	for flags, want := range map[string]string{
		"--kafka-tls": "it may want --kafka-tls or --kafka-sasl",
		"--kafka-sasl=plain --kafka-sasl-user=u --kafka-sasl-password=p": "correct --kafka-sasl, --kafka-sasl-user and --kafka-sasl-password",
	} {
		out, err := exec.CommandContext(t.Context(), path, append([]string{"check", "--kafka-brokers", broker}, strings.Fields(flags)...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "no connection to Kafka at "+broker+": "+want) {
			t.Errorf("check %s: %v, want %q:\n%s", flags, err, want, out)
		}
	}
}

// Only a database that is lost makes a warning quiet, whatever the logger has besides.
func TestLogIsQuietAboutALostDatabaseOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no connection":   {fmt.Errorf("claim: %w", &pgconn.ConnectError{}), false},
		"shut down":       {&pgconn.PgError{Code: "57P01"}, false},
		"connection lost": {fmt.Errorf("claim: %w", &pgconn.PgError{Code: "08006"}), false},
		"short file":      {fmt.Errorf("read the prices: %w", io.ErrUnexpectedEOF), true},
		"wrong password":  {fmt.Errorf("connect: %w", &pgconn.PgError{Code: "28P01"}), true},
		"missing table":   {&pgconn.PgError{Code: "42P01"}, true},
		"another error":   {errors.New("smtp: no such host"), true},
	} {
		for _, format := range []string{"text", "json"} {
			var log strings.Builder
			newLogger(&log, "info", format).With("tier", "x").WithGroup("g").Log(t.Context(), slog.LevelWarn, "it failed", "error", c.err)
			if got := log.Len() > 0; got != c.want {
				t.Errorf("%s, %s: logged %v, want %v", name, format, got, c.want)
			}
		}
	}
}

// A request that failed for want of the database is logged: its client has nothing but the id.
func TestLogIsLoudAboutRequests(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	newLogger(&log, "info", "text").ErrorContext(t.Context(), "request failed", "request_id", "r1", "error", &pgconn.ConnectError{Config: new(pgconn.Config)})
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "r1") {
		t.Errorf("logged %q, want an error with the request's id", log.String())
	}
}
