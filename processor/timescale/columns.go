package timescale

import (
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// elementType is the type of the elements of an array, as SQL and as the protocol name it.
type elementType struct {
	sql string
	oid uint32
	// split is set when each element is a list, its members joined by separator: PostgreSQL has no arrays of arrays of any length.
	split bool
}

var (
	typeUUID        = elementType{sql: "uuid", oid: pgtype.UUIDOID}
	typeText        = elementType{sql: "text", oid: pgtype.TextOID}
	typeTexts       = elementType{sql: "text", oid: pgtype.TextOID, split: true}
	typeBool        = elementType{sql: "bool", oid: pgtype.BoolOID}
	typeInt4        = elementType{sql: "int4", oid: pgtype.Int4OID}
	typeInt8        = elementType{sql: "int8", oid: pgtype.Int8OID}
	typeNumeric     = elementType{sql: "numeric", oid: pgtype.NumericOID}
	typeTimestamptz = elementType{sql: "timestamptz", oid: pgtype.TimestamptzOID}
	typeJSON        = elementType{sql: "json", oid: pgtype.JSONOID}
)

// column is one column of a group: what the statement calls it, the type of its elements and how a row's element is encoded. A new
// column of a table is one line in its group, and its name where the statement does more with it than insert it.
type column[R any] struct {
	// name is that of the table's column, quoted where SQL needs it.
	name string
	of   elementType
	// encode appends exactly one element.
	encode func(*array, *R)
}

// group is a set of columns that are filled row by row, each row with one element for each column. The statement names its
// parameters by the group and the column, see expand.
type group[R any] struct {
	name    string
	columns []column[R]
	arrays  []array
}

// newGroup returns a group without rows.
func newGroup[R any](name string, columns []column[R]) *group[R] {
	return &group[R]{name, columns, make([]array, len(columns))}
}

// add appends a row.
func (g *group[R]) add(row *R) {
	for i := range g.columns {
		g.columns[i].encode(&g.arrays[i], row)
	}
}

// parameters is what the statement needs of a group, whatever its rows are.
type parameters interface {
	label() string
	// names returns the names and element types of the columns, in order.
	names() ([]string, []elementType)
	// reset removes all rows and keeps the memory.
	reset()
	// appendTo appends the value of each column, which is valid until the next reset.
	appendTo(values [][]byte) [][]byte
}

func (g *group[R]) label() string { return g.name }

func (g *group[R]) names() (names []string, types []elementType) {
	for _, c := range g.columns {
		names, types = append(names, c.name), append(types, c.of)
	}
	return names, types
}

func (g *group[R]) reset() {
	for i := range g.arrays {
		g.arrays[i].reset(g.columns[i].of.oid)
	}
}

func (g *group[R]) appendTo(values [][]byte) [][]byte {
	for i := range g.arrays {
		values = append(values, g.arrays[i].bytes())
	}
	return values
}

// tally adds rows of a batch up by a key.
type tally[K comparable, V any] map[K]*V

// at returns the sum of a key, a new one at first.
func (t tally[K, V]) at(k K) *V {
	v := t[k]
	if v == nil {
		v = new(V)
		t[k] = v
	}
	return v
}

// entry is a row of a tally.
type entry[K comparable, V any] struct {
	key K
	sum *V
}

// encode adds all sums to a group in the order of their keys: every batch writes the rows that it shares with others in the same
// order, so that no two batches wait for each other in a circle.
func (t tally[K, V]) encode(g *group[entry[K, V]], order func(a, b K) int) {
	keys := make([]K, 0, len(t))
	for k := range t {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, order)
	for _, k := range keys {
		g.add(&entry[K, V]{k, t[k]})
	}
}
