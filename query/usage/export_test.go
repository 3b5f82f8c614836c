package usage

// Readers from the bytes of the wire, for tests.
var (
	ReadRow           = readRow
	ReadEvent         = readEvent
	ReadListedSession = readListedSession
)

// SelectEventColumns are those that ReadEvent reads.
const SelectEventColumns = eventColumns

// SelectAgents lists agents, from the highest.
const SelectAgents = selectAgentsDown
