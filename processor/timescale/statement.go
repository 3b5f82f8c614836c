package timescale

// saveBatch does all that a batch does to the database, in one statement: the
// server starts only once it has all of it, so a processor that is stopped
// anywhere holds no lock while it is stopped. move_positions raises unless every
// partition stands where the batch starts, the records of the batch are as many
// as the offsets it passes and its sums are of as many events as it stores, require_count unless every key is new, and require_leases unless the leases are there that were when
// it was decided what is refused; each undoes everything. What is counted as stored are the rows that the database inserted. The events are unnested in a select list, not in
// FROM: that streams them, while FROM writes every column aside first, which costs
// a quarter of the whole. Rows that another processor may be writing too are taken in the order of their key, so that
// no two batches wait for each other.
const saveBatch = `
WITH moved AS (
  SELECT move_positions($1::text, $2::int4[], $3::int8[], $4::int8[], (SELECT sum(n) FROM unnest($77::int8[]) AS n),
    cardinality($24::uuid[]), (SELECT coalesce(sum(n), 0) FROM unnest($87::int8[]) AS n)) AS partitions
), live AS (
  INSERT INTO usage_live_parts (bucket, account_id, agent, model, provider, events, errors, unpriced_events,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_nano_usd,
    latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts)
  SELECT * FROM unnest(
    $82::timestamptz[], $83::uuid[], $84::text[], $85::text[], $86::text[], $87::int8[], $88::int8[], $89::int8[],
    $90::numeric[], $91::numeric[], $92::numeric[], $93::numeric[], $94::numeric[], $95::numeric[],
    $96::int8[], $97::numeric[], $98::int8[], $99::numeric[], $100::timestamptz[], $101::timestamptz[]) AS n(bucket)
  WHERE bucket >= (SELECT quarters FROM usage_watermarks)
), keyed AS (
  INSERT INTO event_keys (account_id, event_id, first_seen)
  SELECT account_id, event_id, now() FROM unnest($5::uuid[], $6::uuid[]) AS k(account_id, event_id)
  ORDER BY 1, 2
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
  RETURNING l.lease_id
), refused AS (
  INSERT INTO refused_events AS r (account_id, agent, model, provider, bucket, events, input_tokens, output_tokens, cost_nano_usd)
  SELECT * FROM unnest($104::uuid[], $105::text[], $106::text[], $107::text[], $108::timestamptz[], $109::int8[],
    $110::numeric[], $111::numeric[], $112::numeric[])
  ORDER BY 1, 2, 5, 3, 4
  ON CONFLICT (account_id, agent, bucket, model, provider) DO UPDATE SET
    events = r.events + excluded.events, input_tokens = r.input_tokens + excluded.input_tokens,
    output_tokens = r.output_tokens + excluded.output_tokens, cost_nano_usd = r.cost_nano_usd + excluded.cost_nano_usd
), noted AS (
  INSERT INTO session_parts (account_id, session_id, agents, users, events, errors,
    input_tokens, output_tokens, cost_nano_usd, started_at, ended_at)
  SELECT
    unnest($52::uuid[]), unnest($53::text[]), string_to_array(unnest($54::text[]), E'\x1f'), string_to_array(unnest($55::text[]), E'\x1f'),
    unnest($56::int8[]), unnest($57::int8[]),
    unnest($58::numeric[]), unnest($59::numeric[]), unnest($60::numeric[]), unnest($61::timestamptz[]), unnest($62::timestamptz[])
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
  FROM (
    SELECT
      unnest($22::timestamptz[]) AS ts, unnest($23::uuid[]) AS account_id, unnest($24::uuid[]) AS event_id,
      unnest($25::timestamptz[]) AS received_at, unnest($26::text[]) AS agent, unnest($27::text[]) AS provider,
      unnest($28::text[]) AS model, unnest($29::text[]) AS session_id, unnest($30::bool[]) AS session_implicit,
      unnest($31::text[]) AS status, unnest($32::text[]) AS error_type, unnest($33::text[]) AS step,
      unnest($34::text[]) AS user_id, unnest($35::uuid[]) AS parent_event_id, unnest($36::int8[]) AS input_tokens,
      unnest($37::int8[]) AS output_tokens, unnest($38::int8[]) AS cache_read_tokens, unnest($39::int8[]) AS cache_write_tokens,
      unnest($40::int8[]) AS cache_write_1h_tokens, unnest($41::int8[]) AS reasoning_tokens, unnest($42::int8[]) AS latency_ms,
      unnest($43::int8[]) AS cost_nano_usd, unnest($44::text[]) AS cost_source, unnest($45::text[]) AS price_id,
      unnest($46::json[]) AS cost_breakdown, unnest($47::text[]) AS tags, unnest($48::json[]) AS metadata,
      unnest($49::text[]) AS idempotency_key, unnest($50::int4[]) AS kafka_partition, unnest($51::int8[]) AS kafka_offset
  ) AS e
  RETURNING account_id, received_at
), counted AS (
  SELECT account_id, date_bin('1 hour', received_at, timestamptz '2000-01-01 00:00:00+00') AS hour, count(*) AS stored
  FROM stored GROUP BY 1, 2
), taken AS (
  INSERT INTO intake AS i (account_id, hour, accepted, stored, duplicates, dead_letters, refused_late, first_ts, last_ts)
  SELECT account_id, hour, coalesce(accepted, 0), coalesce(stored, 0), coalesce(duplicates, 0), coalesce(dead, 0), coalesce(refused, 0),
    first, last
  FROM unnest($75::uuid[], $76::timestamptz[], $77::int8[], $78::int8[], $79::int8[], $80::timestamptz[], $81::timestamptz[], $103::int8[])
    AS n(account_id, hour, accepted, duplicates, dead, first, last, refused) FULL JOIN counted USING (account_id, hour)
  ORDER BY 1, 2
  ON CONFLICT (account_id, hour) DO UPDATE SET
    accepted = i.accepted + excluded.accepted, stored = i.stored + excluded.stored,
    duplicates = i.duplicates + excluded.duplicates, dead_letters = i.dead_letters + excluded.dead_letters,
    refused_late = i.refused_late + excluded.refused_late,
    first_ts = least(i.first_ts, excluded.first_ts), last_ts = greatest(i.last_ts, excluded.last_ts)
), arrived AS (
  INSERT INTO arrivals AS a (account_id, bucket, minutes, agent, provider, model, events, errors, unpriced_events,
    input_tokens, output_tokens, cost_nano_usd, latency_histogram)
  SELECT account_id, bucket, 1, agent, provider, model, events, errors, unpriced, input, output, cost, latencies
  FROM unnest(
    $63::uuid[], $64::timestamptz[], $65::text[], $66::text[], $67::text[], $68::int8[], $69::int8[], $70::int8[],
    $71::numeric[], $72::numeric[], $73::numeric[], $74::numeric[]) AS n(
    account_id, bucket, agent, provider, model, events, errors, unpriced, input, output, cost, latencies)
  ON CONFLICT (account_id, bucket, minutes, agent, provider, model) DO UPDATE SET
    events = a.events + excluded.events, errors = a.errors + excluded.errors,
    unpriced_events = a.unpriced_events + excluded.unpriced_events,
    input_tokens = a.input_tokens + excluded.input_tokens, output_tokens = a.output_tokens + excluded.output_tokens,
    cost_nano_usd = a.cost_nano_usd + excluded.cost_nano_usd,
    latency_histogram = a.latency_histogram + excluded.latency_histogram
)
SELECT (SELECT partitions FROM moved), require_count((SELECT count(*) FROM keyed), cardinality($5)),
  require_leases((SELECT count(*) FROM settled WHERE lease_id = ANY($102::uuid[])), cardinality($102))`
