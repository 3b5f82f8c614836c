package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outlayhq/outlay/schema/migrations"
)

// checkCommand looks at an installation from outside: every part of it is optional, and what is not named is not looked at.
type checkCommand struct {
	DatabaseURL string   `name:"database-url" placeholder:"URL" help:"The database to look at: postgres://user:password@host:5432/outlay."`
	Brokers     []string `name:"kafka-brokers" placeholder:"HOST:PORT" help:"The Kafka to look at: bootstrap brokers, separated by commas."`
	Processes   []string `name:"process" placeholder:"ADDRESS" help:"Operations addresses of processes to ask whether they are ready. With neither database nor Kafka it is 127.0.0.1:9090, where outlay up answers."`
	topicNames
	kafkaAuthFlags
	retentionFlags
}

// errNotInOrder makes the command exit with 1; what is wrong was printed.
var errNotInOrder = errors.New("not everything is in order")

// Run prints one line for each thing looked at.
func (c *checkCommand) Run(ctx context.Context) error {
	// Whatever hangs, the command ends.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r := &checkReport{topics: c.topicNames, retention: c.Retention}
	if c.DatabaseURL == "" && len(c.Brokers) == 0 && len(c.Processes) == 0 {
		c.Processes = []string{defaultOps}
	}
	for _, address := range c.Processes {
		r.note("process", address+" is ready", askReady(ctx, address))
	}
	var conn *pgx.Conn
	if c.DatabaseURL != "" {
		var err error
		conn, err = databaseFlags{DatabaseURL: c.DatabaseURL}.connect(ctx)
		r.note("database", "answers", err)
		if err == nil {
			defer conn.Close(ctx)
			r.database(ctx, conn)
		}
	}
	if len(c.Brokers) > 0 {
		if err := c.lookAtKafka(ctx, r, conn); err != nil {
			return err
		}
	}
	if r.failed {
		return errNotInOrder
	}
	return nil
}

// lookAtKafka compares Kafka with the database, unless conn is nil.
func (c *checkCommand) lookAtKafka(ctx context.Context, r *checkReport, conn *pgx.Conn) error {
	opts, err := kafkaFlags{Brokers: c.Brokers, kafkaAuthFlags: c.kafkaAuthFlags}.options()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("make the kafka client: %w", err)
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		r.note("brokers", "", kafkaError(c.Brokers, err))
		return nil
	}
	r.note("brokers", "answer", nil)
	r.kafka(ctx, client, conn)
	return nil
}

// checkReport collects the findings of one run and prints them as they come.
type checkReport struct {
	// topics are those of the flags.
	topics topicNames
	// retention is how long the topics have to keep events.
	retention time.Duration
	// failed is set by the first finding that is not in order.
	failed bool
}

// note prints what was found, or what is wrong.
func (r *checkReport) note(what, found string, err error) {
	state := "ok"
	if err != nil {
		state, found, r.failed = "NOT OK", err.Error(), true
	}
	fmt.Fprintf(os.Stdout, "%-7s %-18s %s\n", state, what, found)
}

// database looks at the schema first: without it the other queries would fail one by one for the same reason.
func (r *checkReport) database(ctx context.Context, conn *pgx.Conn) {
	state, err := migrations.Status(ctx, conn)
	if err != nil {
		r.note("schema", "", err)
		return
	}
	if len(state.Pending) > 0 {
		err = errors.New("not up to date; run outlay migrate")
	}
	r.note("schema", fmt.Sprintf("version %d", state.Current), err)
	r.note("edition", editionMeaning(state.Server), nil)
	r.rollups(ctx, conn)
	different, err := scalar(ctx, conn, `SELECT coalesce(sum(abs(difference)), 0)::bigint FROM intake WHERE difference <> 0`)
	if err == nil && different != 0 {
		err = fmt.Errorf("%d records taken from Kafka are not accounted for: GET /v1/integrity lists their hours", different)
	}
	r.note("intake", "everything taken from Kafka is stored, a duplicate or put aside", err)
	dead, err := scalar(ctx, conn, `SELECT count(*) FROM dead_letters`)
	r.note("dead letters", fmt.Sprintf("%d records were put aside, see the topic %s", dead, r.topics.DeadLetters), err)
	r.alerting(ctx, conn)
}

// rollupsLate is the age from which the last refresh of the rollups is an error: it runs every few seconds, and may take minutes
// after millions of late events.
const rollupsLate = 10 * time.Minute

// A database without rollups, or one that has never refreshed them, has the age 0.
const selectRollupsAge = `
SELECT coalesce(extract(epoch FROM now() - r.refreshed_at), 0)::bigint
FROM rollup_progress r WHERE r.refreshed_at > '-infinity' UNION ALL SELECT 0 LIMIT 1`

// rollups reports since when late events are not in the sums of hours and days.
func (r *checkReport) rollups(ctx context.Context, conn *pgx.Conn) {
	seconds, err := scalar(ctx, conn, selectRollupsAge)
	if age := time.Duration(seconds) * time.Second; err == nil && age > rollupsLate {
		err = fmt.Errorf("late events of the last %v are not in the sums of hours and days: look for refresh_rollups in the processor's log", age)
	}
	r.note("rollups", "hours and days are up to date", err)
}

// editionMeaning names the edition of a database with what it lacks.
func editionMeaning(s migrations.Server) string {
	text := fmt.Sprintf("%s, PostgreSQL %s", s.Edition, s.PostgresVersion)
	switch s.Edition {
	case migrations.Community:
		return text + ", TimescaleDB " + s.TimescaleVersion
	case migrations.Apache:
		return text + ", TimescaleDB " + s.TimescaleVersion + ": no continuous aggregates, hours and days are summed from quarter hours for every answer"
	}
	return text + ": no hypertables and no continuous aggregates, for trying out only"
}

// scalar returns the one number that a query finds.
func scalar(ctx context.Context, conn *pgx.Conn, query string, args ...any) (n int64, err error) {
	err = conn.QueryRow(ctx, query, args...).Scan(&n)
	return n, err
}

// Offsets count from 0, so the sum of the next ones is the number of records that are stored.
const sumStoredOffsets = `SELECT coalesce(sum(next_offset), 0)::bigint FROM kafka_offsets WHERE topic = $1`

// kafka compares where the topic ends with what is stored. conn may be nil.
func (r *checkReport) kafka(ctx context.Context, client *kgo.Client, conn *pgx.Conn) {
	admin := kadm.NewClient(client)
	details, err := admin.ListTopics(ctx, r.topics.Topic, r.topics.DeadLetters)
	if err == nil {
		err = details.Error()
	}
	r.note("topics", "exist", err)
	if err != nil {
		return
	}
	risks, err := topicRisks(ctx, admin, r.retention, r.topics.Topic, r.topics.DeadLetters)
	if err != nil || len(risks) == 0 {
		r.note("durability", "the topics keep what they acknowledge", err)
	}
	for _, risk := range risks {
		r.note("durability", "", errors.New(risk))
	}
	r.writes(ctx, admin)
	if conn == nil {
		return
	}
	lag, err := r.storedLag(ctx, conn, admin)
	r.note("lag", fmt.Sprintf("%d events are in Kafka and not stored yet", lag), err)
}

// storedLag fails while the end of a partition is not known, as for one that takes no writes.
func (r *checkReport) storedLag(ctx context.Context, conn *pgx.Conn, admin *kadm.Client) (lag int64, err error) {
	ends, err := admin.ListEndOffsets(ctx, r.topics.Topic)
	if err = errors.Join(err, ends.Error()); err != nil {
		return 0, err
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Topic == r.topics.Topic {
			lag += o.Offset
		}
	})
	stored, err := scalar(ctx, conn, sumStoredOffsets, r.topics.Topic)
	return lag - stored, err
}
