package usage

import (
	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/schema"
)

// Readers from the bytes of the wire, for tests.
var (
	ReadEvent         = readEvent
	ReadListedSession = readListedSession
)

// RowReader returns what reads the rows of one analysis.
func RowReader() func(pgx.CollectableRow) (Row, error) {
	var reader rowReader
	return func(row pgx.CollectableRow) (r Row, err error) {
		err = reader.read(row, &r)
		return r, err
	}
}

// SelectEventColumns are those that ReadEvent reads.
const SelectEventColumns = eventColumns

// Statement is the one that lists the sessions of an account, with its arguments.
func (q *SessionQuery) Statement(accountID schema.ID) (statement string, args []any, err error) {
	return q.statement(accountID)
}

// SelectAgents lists agents, from the highest.
const SelectAgents = selectAgentsDown
