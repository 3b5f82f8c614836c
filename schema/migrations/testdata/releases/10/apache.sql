-- The schema remembers what kind of database it was made for and which horizons its jobs keep, because every later
-- migration and every job must decide as the first one did.

create table schema_settings (
    only_row           boolean primary key default true check (only_row),
    edition            text not null check (edition in ('community', 'apache', 'plain')),
    late_window        interval not null default '0' check (late_window >= '0'),
    refresh_window     interval not null default '0' check (refresh_window >= '0'),
    raw_retention      interval check (raw_retention > '0'),
    raw_dropped_before timestamptz not null default '-infinity',
    updated_at         timestamptz not null default now()
);

insert into schema_settings (edition) values ('apache');

comment on table schema_settings is 'One row: what the schema was made for, and the horizons in force. Written by outlay migrate only.';
comment on column schema_settings.edition is 'community: TimescaleDB with continuous aggregates; apache: hypertables only; plain: no TimescaleDB.';
comment on column schema_settings.late_window is 'The oldest an accepted event may be. Always shorter than refresh_window.';
comment on column schema_settings.refresh_window is 'How far back aggregates are computed again from raw events. Always shorter than raw_retention.';
comment on column schema_settings.raw_retention is 'How long raw events are kept; null keeps them for ever.';
comment on column schema_settings.raw_dropped_before is 'Raw events before this time may be gone under an earlier retention: no refresh may start before it.';;

-- Who may send and who may read: accounts, their users and their API keys. Secrets are kept as hashes only.

create table accounts (
    id         uuid primary key,
    name       text not null check (name <> ''),
    plan       text not null default 'enterprise' check (plan in ('free', 'pro', 'enterprise')),
    created_at timestamptz not null default now()
);

create table users (
    id            uuid primary key,
    account_id    uuid not null references accounts (id),
    email         text not null check (email <> ''),
    password_hash text not null,
    role          text not null check (role in ('viewer', 'admin', 'owner')),
    created_at    timestamptz not null default now(),
    disabled_at   timestamptz
);

create unique index users_email_idx on users (lower(email));
create index users_account_idx on users (account_id);

create table api_keys (
    id            uuid primary key,
    account_id    uuid not null references accounts (id),
    name          text not null,
    secret_sha256 bytea not null unique check (octet_length(secret_sha256) = 32),
    hint          text not null check (char_length(hint) <= 4),
    created_at    timestamptz not null default now(),
    expires_at    timestamptz,
    revoked_at    timestamptz,
    last_used_at  timestamptz
);

create index api_keys_account_idx on api_keys (account_id);

comment on table accounts is 'A tenant. Every other row that belongs to a tenant names it by account_id.';
comment on column accounts.plan is 'Decides the rate limit of the tracking endpoints.';
comment on table users is 'Who may sign in, and what they may do in their account.';
comment on column users.email is 'Unique without regard to case, over all accounts.';
comment on column users.password_hash is 'Argon2id in its usual encoded form; parameters and salt are in it.';
comment on column users.disabled_at is 'Null while the user may sign in.';
comment on table api_keys is 'Keys of the tracking endpoints.';
comment on column api_keys.secret_sha256 is 'SHA-256 of the whole key as the client sends it. The key itself is shown once and not kept.';
comment on column api_keys.hint is 'The last four characters of the key, so that people can tell keys apart.';
comment on column api_keys.expires_at is 'Null: never.';
comment on column api_keys.revoked_at is 'Null while the key works.';
comment on column api_keys.last_used_at is 'Kept to the minute or coarser; a change of it alone notifies nobody.';;

-- Ingest answers from a copy of accounts and keys in memory; these notices make every replica read them again within a second
-- of a change. A key's last_used_at moves all the time and changes no answer, so it is left out.

create function notify_change() returns trigger
    language plpgsql as $$
begin
    perform pg_notify('outlay_changes', tg_table_name);
    return null;
end
$$;

create trigger accounts_changed
    after insert or delete or truncate or update on accounts
    for each statement execute function notify_change();

create trigger api_keys_changed
    after insert or delete or truncate or update of id, account_id, name, secret_sha256, expires_at, revoked_at on api_keys
    for each statement execute function notify_change();

comment on function notify_change() is 'Tells listeners of channel outlay_changes which table changed; the payload is its name.';;

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

select create_hypertable('events', by_range('ts', interval '1 day'), create_default_indexes => false);

create index events_account_ts_idx on events (account_id, ts desc, event_id desc);
create index events_account_session_idx on events (account_id, session_id, ts);

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
comment on column events.kafka_partition is 'With kafka_offset: the record the row came from, and the order of a session''s steps at equal ts.';;

-- What the processor moves in the same transaction as its events, so that a crash, a retry or a second processor can neither
-- lose one nor store one twice.

create table kafka_offsets (
    topic          text not null,
    partition      integer not null check (partition >= 0),
    next_offset    bigint not null check (next_offset >= 0),
    complete_until timestamptz not null default '-infinity',
    updated_at     timestamptz not null default now(),
    primary key (topic, partition)
);

create table event_keys (
    account_id uuid not null,
    event_id   uuid not null,
    first_seen timestamptz not null default now(),
    primary key (account_id, event_id)
);

create index event_keys_first_seen_idx on event_keys (first_seen);

create table dead_letters (
    topic       text not null,
    partition   integer not null,
    "offset"    bigint not null,
    reason      text not null,
    sqlstate    text,
    account_id  uuid,
    received_at timestamptz,
    created_at  timestamptz not null default now(),
    primary key (topic, partition, "offset")
);

create table late_buckets (
    bucket   timestamptz primary key check (date_bin('15 minutes', bucket, timestamptz '2000-01-01 00:00:00+00') = bucket),
    noted_at timestamptz not null default now()
);

comment on table kafka_offsets is 'Where each partition stands. Moved by compare-and-set in the transaction that stores the events.';
comment on column kafka_offsets.next_offset is 'Offset of the first record that is not stored yet.';
comment on column kafka_offsets.complete_until is 'Every record received before this time is stored.';
comment on table event_keys is 'Events with an idempotency key seen lately; event_id is derived from account and key, so a client''s retry meets its first.';
comment on table dead_letters is 'Records that could not be stored, and why; the records themselves are in the dead-letter topic.';
comment on column dead_letters.sqlstate is 'Null when the record was refused before the database saw it.';
comment on column dead_letters.account_id is 'Null when the record could not be read.';
comment on table late_buckets is 'Quarter hours that got events after they may have been materialised. A note is upserted with the events, and deleted once the aggregates hold them.';
comment on column late_buckets.bucket is 'Start of the quarter hour of the events'' ts.';;

-- Budgets must know what was spent to the event, which no aggregate that is refreshed later can tell: this table moves in
-- the same transaction as its events.

create table spend (
    account_id    uuid not null,
    agent         text not null,
    bucket        timestamptz not null,
    cost_nano_usd bigint not null,
    events        bigint not null check (events >= 0),
    primary key (account_id, agent, bucket)
);

comment on table spend is 'Cost of the stored events by quarter hour of arrival, for each agent and, under the empty name, for the whole account. An event counts in the period in which it arrived.';
comment on column spend.bucket is 'Start of the quarter hour of received_at.';
comment on column spend.cost_nano_usd is 'Sum in 10^-9 US dollars.';;

-- Percentiles have to be summed over any group and any range of time, without an extension that may not be there. So a
-- histogram is one numeric: each of its 93 slots is twelve decimal digits, four slots to each doubling of the latency, and
-- sum() adds histograms exactly. Measured over 2 million events it costs 0.13 us an event beside the other sums, where 64
-- counting columns cost 1.2 us and an aggregate over arrays 1.6 us; summed again it costs a sixth of the columns.

-- Not strict, or it would not be inlined. Null falls through every branch to null.
create function latency_histogram(latency_ms bigint) returns numeric
    language sql immutable parallel safe
    return
case
    when latency_ms < 8 then
        case when latency_ms < 1 then 1e0 when latency_ms < 2 then 1e12 when latency_ms < 3 then 1e24
             when latency_ms < 4 then 1e36 when latency_ms < 5 then 1e48 when latency_ms < 6 then 1e60
             when latency_ms < 7 then 1e72 else 1e84 end
    when latency_ms < 32 then
        case when latency_ms < 10 then 1e96 when latency_ms < 12 then 1e108 when latency_ms < 14 then 1e120
             when latency_ms < 16 then 1e132 when latency_ms < 20 then 1e144 when latency_ms < 23 then 1e156
             when latency_ms < 27 then 1e168 else 1e180 end
    when latency_ms < 128 then
        case when latency_ms < 39 then 1e192 when latency_ms < 46 then 1e204 when latency_ms < 54 then 1e216
             when latency_ms < 64 then 1e228 when latency_ms < 77 then 1e240 when latency_ms < 91 then 1e252
             when latency_ms < 108 then 1e264 else 1e276 end
    when latency_ms < 512 then
        case when latency_ms < 153 then 1e288 when latency_ms < 182 then 1e300 when latency_ms < 216 then 1e312
             when latency_ms < 256 then 1e324 when latency_ms < 305 then 1e336 when latency_ms < 363 then 1e348
             when latency_ms < 431 then 1e360 else 1e372 end
    when latency_ms < 2048 then
        case when latency_ms < 609 then 1e384 when latency_ms < 725 then 1e396 when latency_ms < 862 then 1e408
             when latency_ms < 1024 then 1e420 when latency_ms < 1218 then 1e432 when latency_ms < 1449 then 1e444
             when latency_ms < 1723 then 1e456 else 1e468 end
    when latency_ms < 8192 then
        case when latency_ms < 2436 then 1e480 when latency_ms < 2897 then 1e492 when latency_ms < 3445 then 1e504
             when latency_ms < 4096 then 1e516 when latency_ms < 4871 then 1e528 when latency_ms < 5793 then 1e540
             when latency_ms < 6889 then 1e552 else 1e564 end
    when latency_ms < 32768 then
        case when latency_ms < 9742 then 1e576 when latency_ms < 11586 then 1e588 when latency_ms < 13778 then 1e600
             when latency_ms < 16384 then 1e612 when latency_ms < 19484 then 1e624 when latency_ms < 23171 then 1e636
             when latency_ms < 27555 then 1e648 else 1e660 end
    when latency_ms < 131072 then
        case when latency_ms < 38968 then 1e672 when latency_ms < 46341 then 1e684 when latency_ms < 55109 then 1e696
             when latency_ms < 65536 then 1e708 when latency_ms < 77936 then 1e720 when latency_ms < 92682 then 1e732
             when latency_ms < 110218 then 1e744 else 1e756 end
    when latency_ms < 524288 then
        case when latency_ms < 155872 then 1e768 when latency_ms < 185364 then 1e780
             when latency_ms < 220436 then 1e792 when latency_ms < 262144 then 1e804
             when latency_ms < 311744 then 1e816 when latency_ms < 370728 then 1e828
             when latency_ms < 440872 then 1e840 else 1e852 end
    when latency_ms < 2097152 then
        case when latency_ms < 623488 then 1e864 when latency_ms < 741456 then 1e876
             when latency_ms < 881744 then 1e888 when latency_ms < 1048576 then 1e900
             when latency_ms < 1246975 then 1e912 when latency_ms < 1482911 then 1e924
             when latency_ms < 1763488 then 1e936 else 1e948 end
    when latency_ms < 8388608 then
        case when latency_ms < 2493949 then 1e960 when latency_ms < 2965821 then 1e972
             when latency_ms < 3526976 then 1e984 when latency_ms < 4194304 then 1e996
             when latency_ms < 4987897 then 1e1008 when latency_ms < 5931642 then 1e1020
             when latency_ms < 7053951 then 1e1032 else 1e1044 end
    when latency_ms >= 8388608 then
        case when latency_ms < 9975793 then 1e1056 when latency_ms < 11863284 then 1e1068
             when latency_ms < 14107901 then 1e1080 when latency_ms < 16777216 then 1e1092 else 1e1104 end
end;

-- What a slot stands for: the geometric mean of its ends, at most 11 percent from any latency in it.
create function latency_of_slot(slot integer) returns bigint
    language sql immutable strict parallel safe
    return (array[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 21, 24, 29, 35, 42, 49, 58, 70, 83, 99, 117, 139, 166, 198, 235,
        279, 332, 395, 469, 558, 664, 790, 939, 1116, 1328, 1580, 1878, 2233, 2656, 3159, 3756, 4466, 5312, 6317,
        7512, 8933, 10624, 12634, 15024, 17866, 21247, 25268, 30048, 35733, 42494, 50535, 60096, 71467, 84989,
        101070, 120193, 142935, 169979, 202140, 240387, 285870, 339959, 404281, 480774, 571740, 679918, 808563,
        961548, 1143480, 1359835, 1617125, 1923097, 2286960, 2719670, 3234251, 3846194, 4573921, 5439340, 6468501,
        7692387, 9147842, 10878679, 12937002, 15384775
    ]::bigint[])[slot + 1];

create function latency_percentiles(histogram numeric, max_ms bigint, variadic percents integer[]) returns bigint[]
    language plpgsql immutable strict parallel safe as $$
declare
    digits  text   := histogram::text;
    total   bigint := histogram % 999999999999;
    slot    integer := (octet_length(digits) - octet_length(rtrim(digits, '0'))) / 12;
    padded  bytea  := (repeat('0', 12) || digits)::bytea;
    lowest  integer := octet_length(padded) - 11;
    seen    bigint;
    percent integer;
    result  bigint[];
begin
    if total = 0 then
        return null;
    end if;
    seen := encode(substr(padded, lowest - 12 * slot, 12), 'escape')::bigint;
    foreach percent in array percents loop
        while seen * 100 < total * percent loop
            slot := slot + 1;
            seen := seen + encode(substr(padded, lowest - 12 * slot, 12), 'escape')::bigint;
        end loop;
        result := result || least(coalesce(latency_of_slot(slot), max_ms), max_ms);
    end loop;
    return result;
end
$$;

create function latency_percentile(histogram numeric, max_ms bigint, percent integer) returns bigint
    language sql immutable strict parallel safe
    return (latency_percentiles(histogram, max_ms, variadic array[percent]))[1];

comment on function latency_histogram(bigint) is 'The histogram of one event, in milliseconds. sum() of these, or of sums of these, is the histogram of all.';
comment on function latency_of_slot(integer) is 'Milliseconds that stand for a slot of a histogram; null for the open slot at its end.';
comment on function latency_percentiles(numeric, bigint, integer[]) is 'Latencies in milliseconds, by nearest rank and within 11 percent, at whole percents in rising order; never above max_ms. Null without latencies.';
comment on function latency_percentile(numeric, bigint, integer) is 'One of latency_percentiles.';;

-- What every list, chart and report is summed from, under one set of names and columns whatever the database can do:
-- aggregates kept up by TimescaleDB Community, each on the finer one; plain views of the events elsewhere. Buckets are in
-- UTC; other time zones are summed from the quarter hours.


create view usage_15m as
select
    time_bucket(interval '15 minutes', ts) as bucket,
    account_id, agent, model, provider,
    count(*)                                        as events,
    count(*) filter (where status = 'error')        as errors,
    count(*) filter (where cost_source = 'unpriced') as unpriced_events,
    sum(input_tokens)                               as input_tokens,
    sum(output_tokens)                              as output_tokens,
    sum(cache_read_tokens)                          as cache_read_tokens,
    sum(cache_write_tokens + cache_write_1h_tokens) as cache_write_tokens,
    sum(reasoning_tokens)                           as reasoning_tokens,
    sum(cost_nano_usd)                              as cost_nano_usd,
    count(latency_ms)                               as latency_count,
    coalesce(sum(latency_ms), 0)                    as latency_sum_ms,
    max(latency_ms)                                 as latency_max_ms,
    coalesce(sum(latency_histogram(latency_ms)), 0) as latency_histogram,
    min(ts)                                         as first_ts,
    max(ts)                                         as last_ts

from events
group by 1, 2, 3, 4, 5;

create view usage_daily as
select
    time_bucket(interval '1 day', ts) as bucket,
    account_id, agent, model, provider,
    count(*)                                        as events,
    count(*) filter (where status = 'error')        as errors,
    count(*) filter (where cost_source = 'unpriced') as unpriced_events,
    sum(input_tokens)                               as input_tokens,
    sum(output_tokens)                              as output_tokens,
    sum(cache_read_tokens)                          as cache_read_tokens,
    sum(cache_write_tokens + cache_write_1h_tokens) as cache_write_tokens,
    sum(reasoning_tokens)                           as reasoning_tokens,
    sum(cost_nano_usd)                              as cost_nano_usd,
    count(latency_ms)                               as latency_count,
    coalesce(sum(latency_ms), 0)                    as latency_sum_ms,
    max(latency_ms)                                 as latency_max_ms,
    coalesce(sum(latency_histogram(latency_ms)), 0) as latency_histogram,
    min(ts)                                         as first_ts,
    max(ts)                                         as last_ts

from events
group by 1, 2, 3, 4, 5;

create view usage_hourly as
select
    time_bucket(interval '1 hour', ts) as bucket,
    account_id, agent, model, provider,
    count(*)                                        as events,
    count(*) filter (where status = 'error')        as errors,
    count(*) filter (where cost_source = 'unpriced') as unpriced_events,
    sum(input_tokens)                               as input_tokens,
    sum(output_tokens)                              as output_tokens,
    sum(cache_read_tokens)                          as cache_read_tokens,
    sum(cache_write_tokens + cache_write_1h_tokens) as cache_write_tokens,
    sum(reasoning_tokens)                           as reasoning_tokens,
    sum(cost_nano_usd)                              as cost_nano_usd,
    count(latency_ms)                               as latency_count,
    coalesce(sum(latency_ms), 0)                    as latency_sum_ms,
    max(latency_ms)                                 as latency_max_ms,
    coalesce(sum(latency_histogram(latency_ms)), 0) as latency_histogram,
    min(ts)                                         as first_ts,
    max(ts)                                         as last_ts

from events
group by 1, 2, 3, 4, 5;




comment on view usage_15m is 'Sums of the events by bucket of ts (its start, UTC), account, agent, model and provider. Rows of the last moments are included.';
comment on column usage_15m.errors is 'Events with status error; they are in events too.';
comment on column usage_15m.unpriced_events is 'Events no price was known for; their cost counts as 0 here until they are repriced.';
comment on column usage_15m.cache_write_tokens is 'Writes of both lifetimes.';
comment on column usage_15m.cost_nano_usd is '10^-9 US dollars, exact.';
comment on column usage_15m.latency_count is 'Events with a latency; latency_sum_ms divided by it is their average.';
comment on column usage_15m.latency_max_ms is 'Null without latencies.';
comment on column usage_15m.latency_histogram is 'Add with sum(), read with latency_percentiles(). 0 without latencies.';

comment on view usage_hourly is 'Sums of the events by bucket of ts (its start, UTC), account, agent, model and provider. Rows of the last moments are included.';
comment on column usage_hourly.errors is 'Events with status error; they are in events too.';
comment on column usage_hourly.unpriced_events is 'Events no price was known for; their cost counts as 0 here until they are repriced.';
comment on column usage_hourly.cache_write_tokens is 'Writes of both lifetimes.';
comment on column usage_hourly.cost_nano_usd is '10^-9 US dollars, exact.';
comment on column usage_hourly.latency_count is 'Events with a latency; latency_sum_ms divided by it is their average.';
comment on column usage_hourly.latency_max_ms is 'Null without latencies.';
comment on column usage_hourly.latency_histogram is 'Add with sum(), read with latency_percentiles(). 0 without latencies.';

comment on view usage_daily is 'Sums of the events by bucket of ts (its start, UTC), account, agent, model and provider. Rows of the last moments are included.';
comment on column usage_daily.errors is 'Events with status error; they are in events too.';
comment on column usage_daily.unpriced_events is 'Events no price was known for; their cost counts as 0 here until they are repriced.';
comment on column usage_daily.cache_write_tokens is 'Writes of both lifetimes.';
comment on column usage_daily.cost_nano_usd is '10^-9 US dollars, exact.';
comment on column usage_daily.latency_count is 'Events with a latency; latency_sum_ms divided by it is their average.';
comment on column usage_daily.latency_max_ms is 'Null without latencies.';
comment on column usage_daily.latency_histogram is 'Add with sum(), read with latency_percentiles(). 0 without latencies.';
;

-- Grafana and other readers of SQL get views of their own, with money in dollars and nothing else of the schema to see.

create schema report;

create view report.accounts as
select id, name
from accounts;

create view report.events as
select
    ts, account_id, event_id, received_at, agent, provider, model, session_id, session_implicit,
    status, error_type, step, user_id, parent_event_id,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
    latency_ms, cost_nano_usd * 0.000000001 as cost_usd, cost_source, price_id, tags
from events;

create view report.usage_15m as
select
    bucket, account_id, agent, model, provider, events, errors, unpriced_events,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens,
    cost_nano_usd * 0.000000001 as cost_usd,
    latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts
from usage_15m;
comment on view report.usage_15m is 'usage_15m with its cost in US dollars.';

create view report.usage_hourly as
select
    bucket, account_id, agent, model, provider, events, errors, unpriced_events,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens,
    cost_nano_usd * 0.000000001 as cost_usd,
    latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts
from usage_hourly;
comment on view report.usage_hourly is 'usage_hourly with its cost in US dollars.';

create view report.usage_daily as
select
    bucket, account_id, agent, model, provider, events, errors, unpriced_events,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens,
    cost_nano_usd * 0.000000001 as cost_usd,
    latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts
from usage_daily;
comment on view report.usage_daily is 'usage_daily with its cost in US dollars.';

comment on schema report is 'Views for Grafana: the role outlay_grafana reads these and nothing else.';
comment on view report.accounts is 'Names of accounts.';
comment on view report.events is 'Events with their cost in US dollars, without what clients sent as metadata.';;

-- A batch is stored by one statement, which has to undo all of itself when a partition does not stand where the batch starts,
-- or when another processor stored one of its keys a moment before. Raising is the only way to undo from inside a statement.

create function advance_offsets(of_topic text, partitions integer[], expected bigint[], next bigint[]) returns integer
    language plpgsql as $$
declare
    moved integer;
begin
    update kafka_offsets o set next_offset = s.next, updated_at = now()
    from unnest(partitions, expected, next) as s (partition, expected, next)
    where o.topic = of_topic and o.partition = s.partition and o.next_offset = s.expected;
    get diagnostics moved = row_count;
    if moved <> cardinality(partitions) then
        raise exception 'fenced: % of % partitions stand where the batch starts', moved, cardinality(partitions)
            using errcode = 'OL001';
    end if;
    return moved;
end
$$;

create function require_count(new_keys bigint, wanted integer) returns boolean
    language plpgsql as $$
begin
    if new_keys <> wanted then
        raise exception '% of % idempotency keys are new', new_keys, wanted using errcode = 'OL002';
    end if;
    return true;
end
$$;

comment on function advance_offsets(text, integer[], bigint[], bigint[]) is 'Moves partitions from expected to next, or raises OL001 and moves none.';
comment on function require_count(bigint, integer) is 'True, or raises OL002.';;

