package query

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// Why a sign-in failed, in the audit log.
const (
	reasonWrong     = "wrong_password"
	reasonDisabled  = "user_disabled"
	reasonThrottled = "too_many_failures"
)

// failedSignIn is a sign-in that failed.
type failedSignIn struct {
	auth.Attempt
	reason    string
	requestID string
	// at is when the attempt failed; it is written later.
	at time.Time
}

// failures are sign-ins that failed, on their way to the audit log. They are written
// after the answer: only an e-mail address that somebody has is written at all, and the
// time of an answer must not show which ones these are. How many there can be is
// bounded by package auth, which slows them.
type failures struct {
	// queue holds what is not written yet, maxFailures at most.
	queue    chan failedSignIn
	usage    *usage.Store
	accounts *account.Store
	now      func() time.Time
	log      *slog.Logger
	metrics  *metrics
}

// maxFailures is how many may wait to be written; more are only counted.
const maxFailures = 1000

// note queues a failure. It does not wait.
func (f *failures) note(c *rest.Request, a auth.Attempt, reason string) {
	// The password is not kept in memory any longer than the check takes.
	a.Password = ""
	select {
	case f.queue <- failedSignIn{Attempt: a, reason: reason, requestID: rest.RequestID(c.Context), at: f.now().UTC().Truncate(time.Microsecond)}:
	default:
		f.metrics.auditDropped.Inc()
	}
}

// flushFailures bounds the writing of what is left when the server stops.
const flushFailures = 5 * time.Second

// run writes failures until ctx ends, and then what is left.
func (f *failures) run(ctx context.Context) {
	for {
		select {
		case failed := <-f.queue:
			f.write(context.WithoutCancel(ctx), failed)
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushFailures)
			defer cancel()
			// Requests have ended by now: the queue only gets shorter.
			for ctx.Err() == nil {
				select {
				case failed := <-f.queue:
					f.write(ctx, failed)
				default:
					return
				}
			}
			return
		}
	}
}

// write notes a failure in the audit log of each account that it is about.
func (f *failures) write(ctx context.Context, failed failedSignIn) {
	users, err := f.accounts.UsersByEmail(ctx, failed.Email)
	if err == nil {
		err = f.writeAll(ctx, failed, users)
	}
	if err != nil {
		f.metrics.auditDropped.Inc()
		f.log.ErrorContext(ctx, "failed sign-in not written to the audit log", "error", err)
	}
}

// writeAll writes one line for each account that has the e-mail address, or for the one that was named.
func (f *failures) writeAll(ctx context.Context, failed failedSignIn, users []account.User) error {
	for i := range users {
		user := &users[i]
		if !failed.AccountID.IsZero() && failed.AccountID != user.AccountID {
			continue
		}
		// The line is of the account's own log, with the user as its target and nobody as the one who acted.
		act, err := failed.act(user)
		if err != nil {
			return err
		}
		if failed.AccountID.IsZero() && len(users) > 1 {
			// Which account is meant is not known, and where somebody is belongs to no other one.
			act.Address = ""
		}
		err = f.usage.Write(ctx, user.AccountID, func(ctx context.Context, tx pgx.Tx) error {
			return act.Note(ctx, tx, user.AccountID)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// act is the line of the audit log. A disabled user is told "wrong password" like everybody; the log has the reason.
func (f *failedSignIn) act(user *account.User) (*usage.Act, error) {
	reason := f.reason
	if user.DisabledAt != nil {
		reason = reasonDisabled
	}
	detail, err := json.Marshal(map[string]string{"reason": reason})
	if err != nil {
		return nil, err
	}
	return &usage.Act{
		AuditID: schema.NewID(f.at), At: usage.Time{Time: f.at}, Action: "sign_in.fail", Target: user.ID.Text(schema.UserPrefix),
		Detail: detail, Address: f.Address, RequestID: f.requestID,
	}, nil
}
