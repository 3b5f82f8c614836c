// Package erasure is what the tiers agree on about the erasure of content: what was said in a session, or by a user, goes for good,
// and what it cost stays. The query tier asks for it as a job, and the processor does it.
package erasure

import (
	"strings"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
)

// Args is what a job is given: a session or a user. When it is done that is replaced by a note, because it is content too.
type Args struct {
	SessionID string  `json:"session_id,omitempty"`
	UserID    string  `json:"user_id,omitempty"`
	Done      *Result `json:"done,omitempty"`
}

// Kind is the name of the job.
func (Args) Kind() string { return "erasure" }

// Result is what was erased.
type Result struct {
	Events   int64 `json:"events"`
	Sessions int64 `json:"sessions"`
	// SessionID is what a session that was to be erased is called now; empty for a user.
	SessionID string `json:"session_id,omitempty"`
}

const aliasMark = "ses_erased_"

// Alias returns what a session is called once its content is erased: a name of ours says nothing and stays, one of the client's
// gives way to one that is made of id.
func Alias(sessionID string, id schema.ID) string {
	if _, err := schema.ParseID(schema.SessionPrefix, sessionID); err == nil {
		return sessionID
	}
	return aliasMark + strings.TrimPrefix(id.Text(job.Prefix), string(job.Prefix)+"_")
}
