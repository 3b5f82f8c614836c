// Package wire is an event as Kafka carries it: topic names, record key, schema
// version and the protobuf message of event.proto. Ingest encodes, the processor
// decodes. The message is written and read by hand, which spares a second copy
// of every field; a test holds both directions to event.proto.
package wire

import (
	"bytes"

	"github.com/outlayhq/outlay/schema"
)

// The topics. The version in the name changes only with a change that an older
// processor could not read at all.
const (
	EventsTopic      = "outlay.events.v1"
	DeadLettersTopic = "outlay.dead-letters.v1"
)

// VersionHeader names the record header that holds the schema version. A
// processor sends a record of another version to the dead letters, from where it
// can be replayed after an upgrade.
const VersionHeader = "v"

// Version is the schema version that Append writes.
const Version = "1"

// Headers of a dead letter.
const (
	TopicHeader     = "outlay-topic"
	PartitionHeader = "outlay-partition"
	OffsetHeader    = "outlay-offset"
	ReasonHeader    = "outlay-reason"
	SQLStateHeader  = "outlay-sqlstate"
)

// AppendKey appends the record key of e to dst: account and session, so that the
// steps of a session keep their order and a busy agent does not make a hot
// partition. An event with an implicit session is alone in it and spreads by its
// own id.
func AppendKey(dst []byte, e *schema.Event) []byte {
	dst = append(dst, e.AccountID[:]...)
	return append(dst, e.SessionID...)
}

// KeyAccount returns the account that a record key names, or the zero ID for what is
// no key of AppendKey: of a record that cannot be read it is all that is known.
func KeyAccount(key []byte) (account schema.ID) {
	if !bytes.HasPrefix(key[min(len(account), len(key)):], []byte("ses_")) {
		return schema.ID{}
	}
	copy(account[:], key)
	return account
}
