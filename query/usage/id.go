package usage

import (
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/job"
)

// EventID is the id of an event; its text form starts with "evt_".
type EventID schema.ID

// MarshalText returns the text form.
func (id EventID) MarshalText() ([]byte, error) {
	return schema.ID(id).AppendText(nil, schema.EventPrefix), nil
}

// String returns the text form.
func (id EventID) String() string { return schema.ID(id).Text(schema.EventPrefix) }

// JobID is the id of a job; its text form starts with "job_".
type JobID schema.ID

// MarshalText returns the text form.
func (id JobID) MarshalText() ([]byte, error) {
	return schema.ID(id).AppendText(nil, job.Prefix), nil
}
