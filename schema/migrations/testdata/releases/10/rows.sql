-- What a database of this release held: something in every table, in every state that its columns know.

insert into accounts (id, name, plan, created_at) values
    ('0193a000-0000-7000-8000-000000000001', 'Acme', 'enterprise', '2026-11-01 08:00:00+00'),
    ('0193a000-0000-7000-8000-000000000002', 'Ümlaut & Söhne', 'free', '2026-11-02 08:00:00+00');

insert into users (id, account_id, email, password_hash, role, created_at, disabled_at) values
    ('0193a000-0000-7000-8000-000000000011', '0193a000-0000-7000-8000-000000000001', 'Owner@acme.example', '$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA', 'owner', '2026-11-01 08:00:00+00', null),
    ('0193a000-0000-7000-8000-000000000012', '0193a000-0000-7000-8000-000000000001', 'gone@acme.example', '$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA', 'viewer', '2026-11-01 08:00:00+00', '2026-11-03 08:00:00+00');

insert into api_keys (id, account_id, name, secret_sha256, hint, created_at, expires_at, revoked_at, last_used_at) values
    ('0193a000-0000-7000-8000-000000000021', '0193a000-0000-7000-8000-000000000001', 'fleet', sha256('one'), 'x1Yz', '2026-11-01 08:00:00+00', null, null, '2026-11-05 08:00:00+00'),
    ('0193a000-0000-7000-8000-000000000022', '0193a000-0000-7000-8000-000000000002', '', sha256('two'), 'ab12', '2026-11-01 08:00:00+00', '2027-11-01 08:00:00+00', '2026-11-02 08:00:00+00', null);

insert into events (
    ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit,
    status, error_type, step, user_id, parent_event_id,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
    latency_ms, cost_nano_usd, cost_source, price_id, cost_breakdown, tags, metadata, idempotency_key, kafka_partition, kafka_offset)
select
    timestamptz '2026-11-05 00:00:00+00' + i * interval '7 minutes',
    case when i % 5 = 0 then '0193a000-0000-7000-8000-000000000002' else '0193a000-0000-7000-8000-000000000001' end::uuid,
    format('0193a001-0000-7000-8000-%s', lpad(i::text, 12, '0'))::uuid,
    timestamptz '2026-11-05 00:00:01+00' + i * interval '7 minutes',
    'agent-' || i % 3, (array['openai', 'anthropic', ''])[1 + i % 3], (array['gpt-4o', 'claude-3-5-sonnet-20241022', ''])[1 + i % 3],
    'ses_' || i / 10, i % 7 = 0,
    case when i % 13 = 0 then 'error' else 'ok' end, case when i % 13 = 0 then 'timeout' end, case when i % 2 = 0 then 'plan' end,
    case when i % 4 = 0 then 'user-1' end, case when i % 10 > 0 then format('0193a001-0000-7000-8000-%s', lpad((i - 1)::text, 12, '0'))::uuid end,
    1000 + i, 100 + i, i % 10, i % 20, i % 30, i % 40,
    case when i % 6 > 0 then i * i end, i * 1000003, (array['calculated', 'client', 'no_usage', 'unpriced'])[1 + i % 4],
    case when i % 4 = 0 then 'openai/gpt-4o@2024-10-02' end, case when i % 4 = 0 then '[{"kind":"input","tokens":1000}]'::json end,
    case when i % 3 = 0 then array['a', 'b'] end, case when i % 3 = 1 then '{"k": [1, 2, {"x": null}]}'::json end,
    case when i % 9 = 0 then 'key-' || i end, i % 8, i
from generate_series(1, 600) as i;

insert into kafka_offsets (topic, partition, next_offset, complete_until, updated_at) values
    ('outlay.events.v1', 0, 601, '2026-11-07 22:00:00+00', '2026-11-07 22:00:01+00'),
    ('outlay.events.v1', 1, 0, '-infinity', '2026-11-01 08:00:00+00');

insert into event_keys (account_id, event_id, first_seen) values
    ('0193a000-0000-7000-8000-000000000001', '0193a001-0000-7000-8000-000000000009', '2026-11-05 01:03:00+00');

insert into spend (account_id, agent, bucket, cost_nano_usd, events) values
    ('0193a000-0000-7000-8000-000000000001', 'agent-1', '2026-11-05 01:00:00+00', 9000027, 3);

insert into dead_letters (topic, partition, "offset", reason, sqlstate, account_id, received_at, created_at) values
    ('outlay.events.v1', 0, 17, 'not an event', null, null, null, '2026-11-05 02:00:00+00'),
    ('outlay.events.v1', 0, 18, 'refused by the database', '22P05', '0193a000-0000-7000-8000-000000000001', '2026-11-05 02:00:00+00', '2026-11-05 02:00:00+00');

insert into late_buckets (bucket, noted_at) values
    ('2026-11-05 03:15:00+00', '2026-11-05 08:00:00+00');
