package main

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Processors that join and leave a real group every few seconds, half of them
// without a word, store everything once.
func TestProcessorsComeAndGo(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	in.startIngest(t)
	in.startQuery(t)
	cfg := loadConfig(t, in.credentials)
	cfg.Rate = float64(cfg.Events) / 15
	done := make(chan struct{})
	go func() {
		defer close(done)
		runLoad(t.Context(), t, cfg)
	}()
	processors := []*running{in.startProcessor(t)}
	for round := 0; ; round++ {
		select {
		case <-done:
			return
		case <-time.After(2 * time.Second):
		}
		processors = append(processors, in.startProcessor(t))
		if len(processors) < 3 {
			continue
		}
		if round%2 == 0 {
			processors[0].stop(t)
		} else {
			processors[0].kill()
		}
		processors = processors[1:]
	}
}

// outage is how long the database is away.
func outage() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("OUTLAY_E2E_OUTAGE")); err == nil {
		return d
	}
	return 8 * time.Second
}

// While the database is away tracking goes on; what was acknowledged is stored
// once it is back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	in.startIngest(t)
	in.startQuery(t)
	in.startProcessor(t)
	cfg := loadConfig(t, in.credentials)
	cfg.Rate = float64(cfg.Events) / (10 + outage().Seconds())
	cfg.Wait = 3 * time.Minute
	done := make(chan struct{})
	go func() {
		defer close(done)
		runLoad(t.Context(), t, cfg)
	}()
	time.Sleep(4 * time.Second)
	in.stopDatabase(t)
	if status := (client{in.base, in.credentials.APIKey}).call(t, "POST", "/v1/track", `{"agent":"meanwhile"}`, &struct{}{}); status != 200 {
		t.Errorf("tracking without a database: status %d, want 200", status)
	}
	time.Sleep(outage())
	in.startDatabase(t)
	<-done
}

// zombieRounds is how often a processor is paused past its session, and whether the
// machine is ours, so that what its successor takes can be evaluated.
func zombieRounds() (n int, measured bool) {
	if n, err := strconv.Atoi(os.Getenv("OUTLAY_E2E_ZOMBIES")); err == nil {
		return n, true
	}
	return 2, false
}

// A processor that is paused past its session at a random moment and wakes up
// later stores nothing twice, and does not hold its successor up for more than
// five seconds after the group let go of it.
func TestZombieProcessor(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	in.startIngest(t)
	in.startQuery(t)
	const perRound = 14 * time.Second
	rounds, measured := zombieRounds()
	cfg := loadConfig(t, in.credentials)
	cfg.Events = 1500 * rounds * int(perRound.Seconds())
	cfg.Rate, cfg.Batch, cfg.Concurrency = 1500, 20, 4
	done := make(chan struct{})
	go func() {
		defer close(done)
		runLoad(t.Context(), t, cfg)
	}()
	conn, err := pgx.Connect(t.Context(), in.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	zombie, successor := in.startProcessor(t), in.startProcessor(t)
	stop := in.trickle(t)
	awaitProgress(t, conn)
	var longest time.Duration
	for range rounds {
		time.Sleep(time.Second + rand.N(time.Second))
		if err := zombie.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		paused := time.Now()
		// Every partition must move again: the successor has them all.
		awaitProgress(t, conn)
		longest = max(longest, time.Since(paused)-processorSession)
		time.Sleep(rand.N(time.Second))
		if err := zombie.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		zombie, successor = successor, zombie
	}
	t.Logf("the successor had stored from every partition at the latest %v after the session of the paused processor ended", longest.Round(time.Millisecond))
	if measured && longest > 5*time.Second {
		t.Errorf("the successor was held up for %v", longest)
	}
	stop()
	<-done
	var stored, distinct int64
	err = conn.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT (kafka_partition, kafka_offset)) FROM events`).Scan(&stored, &distinct)
	if err != nil || stored != distinct {
		t.Errorf("%d rows of %d records, %v", stored, distinct, err)
	}
}

// trickle sends events to all partitions until it is stopped, for those who wait for
// progress after the load has ended.
func (in *installation) trickle(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	sending.Go(func() {
		for ctx.Err() == nil {
			send(ctx, in.base, in.credentials.APIKey, `{"agent":"trickle"}`, &struct{}{})
			time.Sleep(20 * time.Millisecond)
		}
	})
	stop = func() { cancel(); sending.Wait() }
	t.Cleanup(stop)
	return stop
}

const selectPositions = `SELECT partition, next_offset FROM kafka_offsets`

// awaitProgress waits until every partition stands further than now.
func awaitProgress(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	before := positions(t, conn)
	want, err := strconv.Atoi(testPartitions)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		moved := 0
		for partition, offset := range positions(t, conn) {
			if offset > before[partition] {
				moved++
			}
		}
		if moved == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d partitions moved", moved, want)
		}
	}
}

func positions(t *testing.T, conn *pgx.Conn) map[int32]int64 {
	t.Helper()
	rows, _ := conn.Query(t.Context(), selectPositions)
	all := map[int32]int64{}
	var (
		partition int32
		offset    int64
	)
	_, err := pgx.ForEachRow(rows, []any{&partition, &offset}, func() error {
		all[partition] = offset
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
