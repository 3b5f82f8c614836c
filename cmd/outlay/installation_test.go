package main

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outlayhq/outlay/deploy/postgres"
	"github.com/outlayhq/outlay/schema/schematest"
)

// installation is Outlay as separate tiers on a real Kafka and a database server
// of its own, behind one address.
type installation struct {
	databaseURL string
	database    *postgres.Server
	databaseDir string
	kafka       []string // flags
	// brokers are those that tests share, unless the test has its own, and replication is 1 by default.
	brokers     []string
	replication string
	group       string
	account     string
	credentials credentials
	// base is the address of the gateway.
	base string

	ingests atomic.Pointer[[]*url.URL]
	query   *url.URL
	turn    atomic.Uint64
	mu      sync.Mutex
}

// partitions is how many the events topic has.
const testPartitions = "6"

func newInstallation(t testing.TB) *installation {
	t.Helper()
	in := &installation{databaseDir: t.TempDir()}
	in.database = schematest.StartPostgres(t, postgres.Config{DataDir: in.databaseDir, Port: freePort(t).Port()})
	in.databaseURL = in.database.URL()
	in.setUp(t)
	return in
}

// newInstallationOn is newInstallation on a database of the test's own that is there already.
func newInstallationOn(t testing.TB, databaseURL string) *installation {
	t.Helper()
	in := &installation{databaseURL: databaseURL}
	in.setUp(t)
	return in
}

// databaseAs is the address of the database for the login of a tier.
func (in *installation) databaseAs(t testing.TB, role string) string {
	t.Helper()
	as, err := databaseFlags{DatabaseURL: in.databaseURL}.as(role, schematest.TierPassword)
	if err != nil {
		t.Fatal(err)
	}
	return as.DatabaseURL
}

// setUp migrates the database, makes topics, an account and the gateway.
func (in *installation) setUp(t testing.TB) {
	t.Helper()
	// The names are this test's own; migrate makes the topics.
	topic := "e2e-" + regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name(), "-") + "-" + time.Now().Format("150405.000000")
	in.group = topic
	if in.brokers == nil {
		in.brokers = schematest.Kafka(t)
	}
	for _, broker := range in.brokers {
		in.kafka = append(in.kafka, "--kafka-brokers", broker)
	}
	in.kafka = append(in.kafka, "--kafka-topic", topic, "--kafka-dead-letter-topic", topic+"-dead")
	in.outlay(t, append([]string{
		"migrate", "--database-url", in.databaseURL,
		"--ingest-password", schematest.TierPassword, "--processor-password", schematest.TierPassword, "--query-password", schematest.TierPassword,
		"--kafka-partitions", testPartitions, "--kafka-replication", cmp.Or(in.replication, "1"),
	}, in.kafka...)...)
	made := in.outlay(t, "account", "create", "--database-url", in.databaseURL, "--name", "test", "--email", "owner@example.com")
	in.account = field(t, made, "account")
	in.base = in.gateway(t)
	in.credentials = credentials{
		BaseURL: in.base, APIKey: field(t, made, "api key"),
		Email: "owner@example.com", Password: field(t, made, "password"),
	}
}

// field reads a line such as "password  abc" of a command's output.
func field(t testing.TB, output, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `\s+(\S+)$`).FindStringSubmatch(output)
	if found == nil {
		t.Fatalf("no %q in %q", name, output)
	}
	return found[1]
}

// outlay runs a command to its end and returns what it printed.
func (in *installation) outlay(t testing.TB, args ...string) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("outlay %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// gateway is the one address in front of all tiers.
func (in *installation) gateway(t testing.TB) string {
	t.Helper()
	toIngest := &httputil.ReverseProxy{
		ErrorHandler: badGateway,
		Rewrite: func(r *httputil.ProxyRequest) {
			urls := *in.ingests.Load()
			r.SetURL(urls[in.turn.Add(1)%uint64(len(urls))])
		},
	}
	toQuery := &httputil.ReverseProxy{ErrorHandler: badGateway, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(in.query) }}
	server := httptest.NewServer(oneAddress(toIngest, toQuery))
	t.Cleanup(server.Close)
	return server.URL
}

func badGateway(w http.ResponseWriter, _ *http.Request, _ error) {
	w.WriteHeader(http.StatusBadGateway)
}

// startIngest starts one more ingest replica.
func (in *installation) startIngest(t testing.TB) *running {
	t.Helper()
	listen, ops := freeAddress(t), freeAddress(t)
	r := launch(t, "ingest", append([]string{"ingest", "--database-url", in.databaseAs(t, "outlay_ingest"), "--listen", listen, "--ops-listen", ops}, in.kafka...)...)
	r.awaitReady(t, ops)
	in.mu.Lock()
	defer in.mu.Unlock()
	urls := []*url.URL{{Scheme: "http", Host: listen}}
	if old := in.ingests.Load(); old != nil {
		urls = append(urls, *old...)
	}
	in.ingests.Store(&urls)
	return r
}

func (in *installation) startQuery(t *testing.T, flags ...string) *running {
	t.Helper()
	listen, ops := freeAddress(t), freeAddress(t)
	key := t.TempDir() + "/jwt.pem"
	if err := ensureKeyFile(key); err != nil {
		t.Fatal(err)
	}
	r := launch(t, "query", append([]string{"query", "--database-url", in.databaseAs(t, "outlay_query"), "--jwt-key-file", key, "--listen", listen, "--ops-listen", ops}, flags...)...)
	r.awaitReady(t, ops)
	in.query = &url.URL{Scheme: "http", Host: listen}
	return r
}

// processorSession is the shortest that Kafka allows.
const processorSession = 6 * time.Second

// startProcessor starts one more processor, with more flags, and does not wait for it.
func (in *installation) startProcessor(t *testing.T, flags ...string) *running {
	t.Helper()
	return launch(t, "processor", slices.Concat([]string{
		"processor", "--database-url", in.databaseAs(t, "outlay_processor"), "--upkeep-database-url", in.databaseURL, "--ops-listen", freeAddress(t),
		"--group", in.group, "--session-timeout", processorSession.String(),
	}, in.kafka, flags)...)
}

type apiKey struct{ id, secret string }

func (in *installation) newKey(t *testing.T) apiKey {
	t.Helper()
	out := in.outlay(t, "key", "create", "--database-url", in.databaseURL, "--account", in.account)
	return apiKey{field(t, out, "id"), field(t, out, "api key")}
}

// stopDatabase stops the server; startDatabase starts it again where it was.
func (in *installation) stopDatabase(t *testing.T) {
	t.Helper()
	if err := in.database.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (in *installation) startDatabase(t *testing.T) {
	t.Helper()
	in.database = schematest.StartPostgres(t, postgres.Config{DataDir: in.databaseDir, Port: in.database.Port()})
}
