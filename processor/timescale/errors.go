package timescale

import (
	"errors"

	"github.com/outlayhq/outlay/schema/pgdb"
)

// ErrFenced means that a partition does not stand where the batch starts:
// another processor has stored these records, or an earlier try of ours did, or
// the database was restored to an earlier moment. Nothing of the batch was stored.
var ErrFenced = errors.New("fenced: another processor has moved on")

// SQLSTATEs of our own, raised by the functions of saveBatch.
const (
	// stateFenced is raised by move_positions, stateKeyRace by require_count and require_leases: what was looked up before has changed.
	stateFenced  = "OL001"
	stateKeyRace = "OL002"
	// OL003 stays unnamed: whoever sees it is to look, and it is tried again meanwhile.
)

// SQLSTATEs of the server besides classes.
const (
	stateOutOfMemory        = "53200"
	stateConfigurationLimit = "53400" // such as temp_file_limit
)

// Class is what the caller has to do about an error of Save. It is a metric's label.
type Class string

// The classes of errors.
const (
	// Fenced asks to look at Positions and go on from there.
	Fenced Class = "fenced"
	// Data asks to find the guilty record: the database refuses what it holds,
	// and would refuse it again.
	Data Class = "data"
	// Unprocessable asks to try with fewer records: the database has not enough memory
	// for the batch, or an internal error that may lie in it.
	Unprocessable Class = "unprocessable"
	// Transient asks to wait, look at Positions and try again.
	Transient Class = "transient"
)

// Classify returns the class of an error of Save. Only errors that are known to
// lie in the data are Data: anything unknown is tried again for ever, as putting
// good events aside would be worse than waiting.
func Classify(err error) Class {
	if errors.Is(err, ErrFenced) {
		return Fenced
	}
	switch state := pgdb.SQLState(err); {
	case len(state) != 5:
		return Transient
	case state[:2] == "22", state[:2] == "23", state[:2] == "54":
		return Data
	case state == stateOutOfMemory, state == stateConfigurationLimit, state[:2] == "XX":
		return Unprocessable
	}
	return Transient
}
