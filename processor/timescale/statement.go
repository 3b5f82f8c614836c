package timescale

import (
	"fmt"
	"regexp"
	"strings"
)

// saveBatch does all that a batch does to the database, in one statement: the server starts only once it has all of it, so a
// processor that is stopped anywhere holds no lock while it is stopped.
//
// Three functions raise, which undoes everything: move_positions unless every partition stands where the batch starts, the records
// of the batch are as many as the offsets it passes and its sums are of as many events as it stores; require_count unless every key
// is new; require_leases unless the leases are there that were when it was decided what is refused. What is counted as stored are
// the rows that the database inserted.
//
// Events are unnested in a select list, not in FROM: that streams them, while FROM writes every column aside first, which costs a
// quarter of the whole. Rows that another processor may be writing too are taken in the order of their key, so that no two batches
// wait for each other.
//
// Placeholders are described at expand.
const saveBatch = `
WITH moved AS (
  SELECT move_positions({topic}, {spans.partition}, {spans.first}, {spans.next}, (SELECT sum(n) FROM unnest({intake.accepted}) AS n),
    cardinality({events.event_id}), (SELECT coalesce(sum(n), 0) FROM unnest({usage.events}) AS n)) AS partitions
), keyed AS (
  INSERT INTO event_keys (account_id, event_id, first_seen)
  SELECT account_id, event_id, now() FROM unnest({keys}) AS k({keys:names})
  ORDER BY 1, 2
  ON CONFLICT DO NOTHING RETURNING 1
), spent AS (
  INSERT INTO spend AS s ({spend:names})
  SELECT * FROM unnest({spend})
  ON CONFLICT (account_id, agent, bucket) DO UPDATE
  SET cost_nano_usd = s.cost_nano_usd + excluded.cost_nano_usd, events = s.events + excluded.events
), summed AS (
  INSERT INTO usage_15m AS u ({usage:names})
  SELECT * FROM unnest({usage})
  ON CONFLICT (account_id, bucket, agent, model, provider) DO UPDATE SET
    events = u.events + excluded.events, errors = u.errors + excluded.errors,
    unpriced_events = u.unpriced_events + excluded.unpriced_events,
    input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
    cache_read_tokens = u.cache_read_tokens + excluded.cache_read_tokens,
    cache_write_tokens = u.cache_write_tokens + excluded.cache_write_tokens,
    reasoning_tokens = u.reasoning_tokens + excluded.reasoning_tokens, cost_nano_usd = u.cost_nano_usd + excluded.cost_nano_usd,
    latency_count = u.latency_count + excluded.latency_count, latency_sum_ms = u.latency_sum_ms + excluded.latency_sum_ms,
    latency_max_ms = greatest(u.latency_max_ms, excluded.latency_max_ms),
    latency_histogram = u.latency_histogram + excluded.latency_histogram,
    first_ts = least(u.first_ts, excluded.first_ts), last_ts = greatest(u.last_ts, excluded.last_ts)
), dead AS (
  INSERT INTO dead_letters (topic, {dead:names}, created_at)
  SELECT {topic}, d.*, now() FROM unnest({dead}) AS d
  ON CONFLICT DO NOTHING
), charged AS (
  UPDATE budget_leases l SET used_nano_usd = l.used_nano_usd + u.used, stored_nano_usd = l.stored_nano_usd + u.stored
  FROM unnest({leases}) AS u({leases:names}) WHERE l.lease_id = u.lease_id
  RETURNING l.lease_id
), refused AS (
  INSERT INTO refused_events AS r ({refused:names})
  SELECT * FROM unnest({refused})
  ON CONFLICT (account_id, agent, bucket, model, provider) DO UPDATE SET
    events = r.events + excluded.events, input_tokens = r.input_tokens + excluded.input_tokens,
    output_tokens = r.output_tokens + excluded.output_tokens, cost_nano_usd = r.cost_nano_usd + excluded.cost_nano_usd
), sessions AS (
  INSERT INTO session_parts ({sessions:names})
  SELECT * FROM (SELECT {sessions:unnest}) AS s
), stored AS (
  INSERT INTO events ({events:names})
  SELECT * FROM (SELECT {events:unnest}) AS e
  RETURNING account_id, received_at
), counted AS (
  SELECT account_id, date_bin('1 hour', received_at, timestamptz '2000-01-01 00:00:00+00') AS hour, count(*) AS stored
  FROM stored GROUP BY 1, 2
), taken AS (
  INSERT INTO intake AS i (account_id, hour, accepted, stored, duplicates, dead_letters, refused_late, first_ts, last_ts)
  SELECT account_id, hour, coalesce(accepted, 0), coalesce(stored, 0), coalesce(duplicates, 0), coalesce(dead_letters, 0),
    coalesce(refused_late, 0), first_ts, last_ts
  FROM unnest({intake}) AS n({intake:names}) FULL JOIN counted USING (account_id, hour)
  ORDER BY 1, 2
  ON CONFLICT (account_id, hour) DO UPDATE SET
    accepted = i.accepted + excluded.accepted, stored = i.stored + excluded.stored,
    duplicates = i.duplicates + excluded.duplicates, dead_letters = i.dead_letters + excluded.dead_letters,
    refused_late = i.refused_late + excluded.refused_late,
    first_ts = least(i.first_ts, excluded.first_ts), last_ts = greatest(i.last_ts, excluded.last_ts)
), arrived AS (
  INSERT INTO arrivals AS a ({arrivals:names}, minutes)
  SELECT n.*, 1 FROM unnest({arrivals}) AS n
  ON CONFLICT (account_id, bucket, minutes, agent, provider, model) DO UPDATE SET
    events = a.events + excluded.events, errors = a.errors + excluded.errors,
    unpriced_events = a.unpriced_events + excluded.unpriced_events,
    input_tokens = a.input_tokens + excluded.input_tokens, output_tokens = a.output_tokens + excluded.output_tokens,
    cost_nano_usd = a.cost_nano_usd + excluded.cost_nano_usd,
    latency_histogram = a.latency_histogram + excluded.latency_histogram
)
SELECT (SELECT partitions FROM moved), require_count((SELECT count(*) FROM keyed), cardinality({keys.event_id})),
  require_leases((SELECT count(*) FROM charged WHERE lease_id = ANY({present.lease_id})), cardinality({present.lease_id}))`

// topicParameter is the one parameter that is no array: the topic of the batch.
const topicParameter = "$1::text"

// placeholder matches what expand replaces.
var placeholder = regexp.MustCompile(`\{[a-z_0-9.:]+\}`)

// expand replaces the placeholders of a statement by the parameters of the groups, numbered from 2 on in the order of the groups
// and of their columns:
//
//	{topic}          the topic
//	{group.column}   the array of a column
//	{group}          the arrays of all columns
//	{group:names}    the names of all columns
//	{group:unnest}   the elements of all columns, for a select list
//
// expand panics on a placeholder that names nothing: it is an error in the program, and no batch could be stored.
func expand(statement string, groups []parameters) string {
	values := map[string]string{"{topic}": topicParameter}
	// Parameter 1 is the topic.
	number := 2
	for _, g := range groups {
		names, types := g.names()
		arrays, unnested := make([]string, len(names)), make([]string, len(names))
		for i, name := range names {
			arrays[i] = fmt.Sprintf("$%d::%s[]", number, types[i].sql)
			element := "unnest(" + arrays[i] + ")"
			if types[i].split {
				element = "string_to_array(" + element + `, E'\x1f')`
			}
			unnested[i] = element + " AS " + name
			values["{"+g.label()+"."+name+"}"] = arrays[i]
			number++
		}
		values["{"+g.label()+"}"] = strings.Join(arrays, ", ")
		values["{"+g.label()+":names}"] = strings.Join(names, ", ")
		values["{"+g.label()+":unnest}"] = strings.Join(unnested, ", ")
	}
	return placeholder.ReplaceAllStringFunc(statement, func(name string) string {
		value, known := values[name]
		if !known {
			panic("BUG: the statement names the unknown parameter " + name)
		}
		return value
	})
}
