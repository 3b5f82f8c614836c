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

const (
	// maxAlone is how often a single record is tried that the database cannot process,
	// with growing waits: about ten seconds.
	maxAlone = 8
	// maxProbe is how many records after it are tried for comparison.
	maxProbe = 10
	// shrinkWait is the wait before a part of a batch is tried that is half as large.
	shrinkWait = 100 * time.Millisecond
)

// unprocessable is returned for a batch that the database could not process.
type unprocessable struct{ cause error }

// Error returns the text of the database's error.
func (u *unprocessable) Error() string { return u.cause.Error() }
func (u *unprocessable) Unwrap() error { return u.cause }

// shrink stores a batch that the database could not process in parts, each half as
// large as the one before until one is stored and then twice as large again, down to
// the single record. A record that fails alone again and again is put aside if one
// after it could be stored. If none could, it is the database that does not work, and
// nothing is put aside. shrink returns errRewind if there is none to compare with, so
// that the record is read again with what came after it.
func (p *Processor) shrink(ctx context.Context, b batch) error {
	// alone counts the tries of the first record by itself.
	size, alone := max(1, len(b)/2), 0
	for len(b) > 0 {
		part := b[:min(size, len(b))]
		err := p.storeWhole(ctx, part)
		var failed *unprocessable
		switch {
		case err == nil:
			b, size, alone = b[len(part):], 2*size, 0
			continue
		case !errors.As(err, &failed):
			return err
		case len(part) > 1:
			size = len(part) / 2
			err = backoff.Sleep(ctx, shrinkWait)
		case alone < maxAlone || part[0].Dead != nil:
			alone++
			err = sleep(ctx, alone)
		default:
			alone = 0
			err = p.compare(ctx, b, failed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compare marks the first record of b to be put aside if the database stores one after
// it and, asked once more, not this one.
func (p *Processor) compare(ctx context.Context, b batch, cause *unprocessable) error {
	if len(b) == 1 {
		return errRewind
	}
	// The detail is for people and holds nothing of the record.
	dead := &timescale.DeadLetter{
		Reason:   timescale.ReasonRefused,
		Detail:   fmt.Sprintf("SQLSTATE %s, again and again, while other records were stored", pgdb.SQLState(cause)),
		SQLState: pgdb.SQLState(cause),
	}
	// A copy, because the probes mark records as dead that are only compared with.
	others := append(batch(nil), b[:min(len(b), 1+maxProbe)]...)
	for i := 1; i < len(others); i++ {
		others[i-1].Dead = dead
		if stored, err := p.probe(ctx, others[:i+1]); err != nil || stored == 0 {
			continue
		}
		if _, err := p.probe(ctx, b[:1]); timescale.Classify(err) == timescale.Unprocessable {
			b[0].Dead = dead
		}
		return nil
	}
	p.log.ErrorContext(ctx, "a record is not stored, nor those after it", "partition", b[0].Partition, "offset", b[0].Offset, "error", cause)
	return nil
}

// probe tries whether the database stores a batch now, of which it keeps nothing, and
// returns how many events it would have stored.
func (p *Processor) probe(ctx context.Context, b batch) (stored int, err error) {
	spans, dense := b.spans()
	if !dense {
		return 0, errRewind
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	result, err := p.sink.Probe(ctx, spans, b.items())
	return result.Stored, err
}
