package timescale

import (
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// separator joins tags and names on their way to the database. Control characters
// are refused in both, so it never stands in one.
const separator = "\x1f"

// eventColumns are the array parameters of the events of a batch, one array for
// each column of the table, in the order of saveBatch.
type eventColumns [30]column

// The element types of eventColumns.
var eventColumnTypes = [30]uint32{
	pgtype.TimestamptzOID, pgtype.UUIDOID, pgtype.UUIDOID, pgtype.TimestamptzOID,
	pgtype.TextOID, pgtype.TextOID, pgtype.TextOID,
	pgtype.TextOID, pgtype.BoolOID,
	pgtype.TextOID, pgtype.TextOID, pgtype.TextOID, pgtype.TextOID, pgtype.UUIDOID,
	pgtype.Int8OID, pgtype.Int8OID,
	pgtype.Int8OID, pgtype.Int8OID, pgtype.Int8OID, pgtype.Int8OID,
	pgtype.Int8OID,
	pgtype.Int8OID, pgtype.TextOID, pgtype.TextOID, pgtype.JSONOID,
	pgtype.TextOID, pgtype.JSONOID, pgtype.TextOID,
	pgtype.Int4OID, pgtype.Int8OID,
}

func (c *eventColumns) reset() {
	for i := range c {
		c[i].reset(eventColumnTypes[i])
	}
}

func (c *eventColumns) add(item *Item) {
	e := &item.Event
	c[0].time(e.Time)
	c[1].id(e.AccountID)
	c[2].id(e.ID)
	c[3].time(e.ReceivedAt)
	c[4].text(e.Agent)
	c[5].text(e.Provider)
	c[6].text(e.Model)
	c[7].text(e.SessionID)
	c[8].bool(e.SessionImplicit)
	c[9].text(string(e.Status))
	c[10].optionalText(e.ErrorType)
	c[11].optionalText(e.Step)
	c[12].optionalText(e.UserID)
	c[13].optionalID(e.Parent)
	c[14].int8(e.InputTokens)
	c[15].int8(e.OutputTokens)
	c[16].int8(e.CacheReadTokens)
	c[17].int8(e.CacheWriteTokens)
	c[18].int8(e.CacheWrite1hTokens)
	c[19].int8(e.ReasoningTokens)
	if e.LatencyMS < 0 {
		c[20].null()
	} else {
		c[20].int8(e.LatencyMS)
	}
	c[21].int8(int64(e.Cost))
	c[22].text(string(e.Source))
	c[23].optionalText(e.PriceID)
	c[24].breakdown(e.Breakdown)
	c[25].optionalText(strings.Join(e.Tags, separator))
	c[26].optionalBytes(e.Metadata)
	c[27].optionalText(e.IdempotencyKey)
	c[28].int4(item.Partition)
	c[29].int8(item.Offset)
}
