package usage

import "github.com/jackc/pgx/v5"

// Readers from the bytes of the wire, for tests.
var (
	ReadEvent         = readEvent
	ReadListedSession = readListedSession
)

// ReadRow reads a row as an analysis does.
func ReadRow(row pgx.CollectableRow) (r Row, err error) {
	err = new(rowReader).read(row, &r)
	return r, err
}

// SelectEventColumns are those that ReadEvent reads.
const SelectEventColumns = eventColumns

// SelectAgents lists agents, from the highest.
const SelectAgents = selectAgentsDown
