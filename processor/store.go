package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outlayhq/outlay/processor/timescale"
	"github.com/outlayhq/outlay/schema/backoff"
	"github.com/outlayhq/outlay/schema/pgdb"
)

// saveTimeout bounds one try to save a batch. The server's own statement_timeout
// is shorter, so that a connection is not closed for a slow statement.
const saveTimeout = time.Minute

// store saves a batch, whatever it takes: it waits for a database that is away,
// goes on from the stored position when another processor was faster, and puts
// aside the records that the database refuses. It returns errRewind when records
// before the batch are missing, or the error of ctx.
func (p *Processor) store(ctx context.Context, b batch) error {
	err := p.storeWhole(ctx, b)
	if errors.As(err, new(*unprocessable)) {
		return p.shrink(ctx, b)
	}
	return err
}

// storeWhole is store, but for a batch that the database cannot process it returns an
// *unprocessable.
func (p *Processor) storeWhole(ctx context.Context, b batch) error {
	for attempt := 0; len(b) > 0; attempt++ {
		spans, dense := b.spans()
		if !dense {
			return errRewind
		}
		err := p.save(ctx, spans, b)
		if err == nil {
			return nil
		}
		class := timescale.Classify(err)
		p.metrics.saveErrors.WithLabelValues(string(class)).Inc()
		switch class {
		case timescale.Data:
			// Only part of the batch is refused, and the rest is not to wait for a person.
			return p.bisect(ctx, b, err)
		case timescale.Unprocessable:
			p.log.WarnContext(ctx, "batch not processed by the database", "records", len(b), "error", err)
			return &unprocessable{err}
		case timescale.Transient:
			p.log.WarnContext(ctx, "batch not saved, trying again", "records", len(b), "attempt", attempt+1, "error", err)
			if err := sleep(ctx, attempt+1); err != nil {
				return err
			}
		case timescale.Fenced:
			p.metrics.fenced.Inc()
			p.log.InfoContext(ctx, "batch fenced", "records", len(b))
		}
		if b, err = p.remaining(ctx, spans, b); err != nil {
			return err
		}
	}
	return nil
}

// save tries once. It goes on after ctx has ended, so that the batch in hand is
// stored when the processor is asked to stop.
func (p *Processor) save(ctx context.Context, spans []timescale.Span, b batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := p.sendDeadLetters(ctx, b); err != nil {
		p.fail(err)
		return err
	}
	// Dead letters are in Kafka now; only the database is left.
	start := p.now()
	result, err := p.sink.Save(ctx, spans, b.items())
	took := p.now().Sub(start)
	p.metrics.saveDuration.Observe(took.Seconds())
	if err != nil {
		if !errors.Is(err, timescale.ErrFenced) {
			p.fail(err)
		}
		return err
	}
	// From here on the batch is committed: what follows is for people.
	p.failing.Store(nil)
	p.metrics.stored.Add(float64(result.Stored))
	p.metrics.duplicates.Add(float64(result.Duplicates))
	if result.RefusedLate > 0 {
		p.metrics.refusedLate.Add(float64(result.RefusedLate))
		p.log.WarnContext(ctx, "events refused that were written after their lease of a cap was given to others", "events", result.RefusedLate)
	}
	for _, it := range b {
		if it.Dead != nil {
			p.metrics.deadLetters.WithLabelValues(string(it.Dead.Reason)).Inc()
			p.log.WarnContext(ctx, "record put aside", "partition", it.Partition, "offset", it.Offset,
				"reason", it.Dead.Reason, "detail", it.Dead.Detail)
		}
	}
	p.owned.move(spans)
	p.log.DebugContext(ctx, "batch saved", "records", len(b), "took", took)
	return nil
}

// fail keeps why a save did not succeed, for readiness. It holds nothing of the record or of the connection's address.
func (p *Processor) fail(err error) {
	reason := string(timescale.Classify(err))
	if state := pgdb.SQLState(err); state != "" {
		reason += " (SQLSTATE " + state + ")"
	}
	p.failing.Store(&reason)
}

// bisect finds the records that the database refuses: each half is a batch of
// its own, down to the single record, which is put aside.
func (p *Processor) bisect(ctx context.Context, b batch, cause error) error {
	if len(b) == 1 {
		b[0].Dead = &timescale.DeadLetter{
			Reason:   timescale.ReasonRefused,
			Detail:   fmt.Sprintf("SQLSTATE %s", pgdb.SQLState(cause)),
			SQLState: pgdb.SQLState(cause),
		}
		return p.store(ctx, b)
	}
	// The halves are stored in order, because the position of a partition moves in order.
	middle := len(b) / 2
	if err := p.store(ctx, b[:middle]); err != nil {
		return err
	}
	return p.store(ctx, b[middle:])
}

// remaining asks the database where the partitions stand and drops what is
// stored already.
func (p *Processor) remaining(ctx context.Context, spans []timescale.Span, b batch) (batch, error) {
	partitions := make([]int32, len(spans))
	for i, s := range spans {
		partitions[i] = s.Partition
	}
	next, err := p.next(ctx, partitions)
	if err != nil {
		return nil, err
	}
	rest, ok := b.after(next)
	if !ok {
		return nil, errRewind
	}
	return rest, nil
}

// next reads positions and waits for the database until ctx ends.
func (p *Processor) next(ctx context.Context, partitions []int32) (map[int32]int64, error) {
	for attempt := 0; ; attempt++ {
		next, err := p.positions.Next(ctx, partitions)
		if err == nil {
			return next, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p.log.WarnContext(ctx, "positions not read, trying again", "attempt", attempt+1, "error", err)
		if err := sleep(ctx, attempt+1); err != nil {
			return nil, err
		}
	}
}

// sleep waits before the next try, 0.1 s after the first that failed, doubling to 5 s. It returns the error of ctx.
func sleep(ctx context.Context, failed int) error {
	return backoff.Sleep(ctx, backoff.Wait(failed, 100*time.Millisecond, 5*time.Second))
}
