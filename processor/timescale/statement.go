package timescale

// saveBatch does all that a batch does to the database, in one statement: the
// server starts only once it has all of it, so a processor that is stopped
// anywhere holds no lock while it is stopped. advance_offsets raises unless every
// partition stands where the batch starts, and require_count unless every key is
// new; either undoes everything.
const saveBatch = `
WITH moved AS (
  SELECT advance_offsets($1::text, $2::int4[], $3::int8[], $4::int8[]) AS partitions
), keyed AS (
  INSERT INTO event_keys (account_id, event_id, first_seen)
  SELECT account_id, event_id, now() FROM unnest($5::uuid[], $6::uuid[]) AS k(account_id, event_id)
  ON CONFLICT DO NOTHING RETURNING 1
), spent AS (
  INSERT INTO spend AS s (account_id, agent, bucket, cost_nano_usd, events)
  SELECT * FROM unnest($7::uuid[], $8::text[], $9::timestamptz[], $10::numeric[], $11::int8[])
  ON CONFLICT (account_id, agent, bucket) DO UPDATE
  SET cost_nano_usd = s.cost_nano_usd + excluded.cost_nano_usd, events = s.events + excluded.events
), late AS (
  INSERT INTO late_buckets (bucket, noted_at)
  SELECT bucket, now() FROM unnest($12::timestamptz[]) AS b(bucket) WHERE bucket < now() - interval '1 hour'
  ON CONFLICT (bucket) DO UPDATE SET noted_at = excluded.noted_at
), dead AS (
  INSERT INTO dead_letters (topic, partition, "offset", reason, sqlstate, account_id, received_at, created_at)
  SELECT $1, partition, "offset", reason, sqlstate, account_id, received_at, now()
  FROM unnest($13::int4[], $14::int8[], $15::text[], $16::text[], $17::uuid[], $18::timestamptz[])
    AS d(partition, "offset", reason, sqlstate, account_id, received_at)
  ON CONFLICT DO NOTHING
), settled AS (
  UPDATE budget_leases l SET used_nano_usd = l.used_nano_usd + u.used, stored_nano_usd = l.stored_nano_usd + u.stored
  FROM unnest($19::uuid[], $20::numeric[], $21::numeric[]) AS u(lease_id, used, stored) WHERE l.lease_id = u.lease_id
), stored AS (
  INSERT INTO events (
    ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit,
    status, error_type, step, user_id, parent_event_id,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
    latency_ms, cost_nano_usd, cost_source, price_id, cost_breakdown, tags, metadata, idempotency_key,
    kafka_partition, kafka_offset)
  SELECT
    ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit,
    status, error_type, step, user_id, parent_event_id,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
    latency_ms, cost_nano_usd, cost_source, price_id, cost_breakdown, string_to_array(tags, E'\x1f'), metadata, idempotency_key,
    kafka_partition, kafka_offset
  FROM unnest(
    $22::timestamptz[], $23::uuid[], $24::uuid[], $25::timestamptz[], $26::text[], $27::text[], $28::text[], $29::text[], $30::bool[],
    $31::text[], $32::text[], $33::text[], $34::text[], $35::uuid[],
    $36::int8[], $37::int8[], $38::int8[], $39::int8[], $40::int8[], $41::int8[],
    $42::int8[], $43::int8[], $44::text[], $45::text[], $46::json[], $47::text[], $48::json[], $49::text[],
    $50::int4[], $51::int8[]) AS e(
    ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit,
    status, error_type, step, user_id, parent_event_id,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
    latency_ms, cost_nano_usd, cost_source, price_id, cost_breakdown, tags, metadata, idempotency_key,
    kafka_partition, kafka_offset)
)
SELECT (SELECT partitions FROM moved), require_count((SELECT count(*) FROM keyed), cardinality($5))`
