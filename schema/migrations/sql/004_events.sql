-- The ledger: one row for each model call, written once by the processor and never changed by it. Nothing is unique here:
-- exactly once is kept by kafka_offsets and event_keys, since a unique index halves the speed of storing.

create table events (
    ts                    timestamptz not null,
    account_id            uuid not null,
    event_id              uuid not null,
    received_at           timestamptz not null,
    agent                 text not null,
    provider              text not null,
    model                 text not null,
    session_id            text not null,
    session_implicit      boolean not null,
    status                text not null,
    error_type            text,
    step                  text,
    user_id               text,
    parent_event_id       uuid,
    input_tokens          bigint not null,
    output_tokens         bigint not null,
    cache_read_tokens     bigint not null,
    cache_write_tokens    bigint not null,
    cache_write_1h_tokens bigint not null,
    reasoning_tokens      bigint not null,
    latency_ms            bigint,
    cost_nano_usd         bigint not null,
    cost_source           text not null,
    price_id              text,
    cost_breakdown        json,
    tags                  text[],
    metadata              json,
    idempotency_key       text,
    kafka_partition       integer not null,
    kafka_offset          bigint not null,
    constraint events_agent_check check (agent <> ''),
    constraint events_status_check check (status in ('ok', 'error')),
    constraint events_cost_source_check check (cost_source in ('calculated', 'client', 'no_usage', 'unpriced')),
    constraint events_numbers_check check (
        least(input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens,
              reasoning_tokens, latency_ms, cost_nano_usd) >= 0)
);
{{ if ne .Edition "plain" }}
select create_hypertable('events', by_range('ts', interval '1 day'), create_default_indexes => false);
{{ end }}
create index events_account_ts_idx on events (account_id, ts desc, event_id desc);
create index events_account_session_idx on events (account_id, session_id, ts);
{{ if eq .Edition "community" }}
alter table events set (
    timescaledb.enable_columnstore = true,
    timescaledb.segmentby = 'account_id, agent',
    timescaledb.orderby = 'ts desc');
{{ end }}
comment on table events is 'One row for each model call. Where there is TimescaleDB it is a hypertable on ts.';
comment on column events.ts is 'When the call happened, by the client''s word or else the time of arrival.';
comment on column events.received_at is 'When ingest accepted it.';
comment on column events.provider is 'Empty: not known.';
comment on column events.model is 'Empty: none given.';
comment on column events.session_id is 'In its canonical form, starting with ses_.';
comment on column events.session_implicit is 'True when the client named no session and one was made for this event.';
comment on column events.input_tokens is 'All input tokens, the cached ones included.';
comment on column events.output_tokens is 'All output tokens, the reasoning ones included.';
comment on column events.cache_read_tokens is 'Part of input_tokens.';
comment on column events.cache_write_tokens is 'Part of input_tokens; writes of the usual lifetime.';
comment on column events.cache_write_1h_tokens is 'Part of input_tokens; writes kept for an hour, counted apart from cache_write_tokens.';
comment on column events.reasoning_tokens is 'Part of output_tokens.';
comment on column events.latency_ms is 'Milliseconds; null: not given.';
comment on column events.cost_nano_usd is 'Cost in 10^-9 US dollars, computed once by ingest.';
comment on column events.cost_source is 'calculated, client (the client gave the cost), no_usage (nothing to price) or unpriced (no price known).';
comment on column events.cost_breakdown is 'What the cost is made of: kind, tokens, rate, cost, tier, rule.';
comment on column events.kafka_partition is 'With kafka_offset: the record the row came from, and the order of a session''s steps at equal ts.';
