-- What no aggregate holds yet was summed from its events at every read: at twenty thousand a second, up to ninety million of them.
-- Now it is kept up as events arrive: a batch adds its sums for each quarter of an hour to usage_live_parts, in the statement that
-- stores it, and they are folded into usage_live a moment later, off the way of the events. Readers take what is materialised below the
-- watermark of the quarter hours and both of these above, all of the same snapshot, so what they see is exact at any time. Where the
-- usage relations are plain views of the events nothing is kept.

-- A batch stored by a processor of before would be missing here. Those at work are waited for; what they store later misses
-- move_positions, and is tried again until they are replaced.
lock table events in share row exclusive mode;
drop function move_positions(text, integer[], bigint[], bigint[], numeric);

create function move_positions(
    of_topic text, partitions integer[], expected bigint[], next bigint[], records numeric, events integer, summed numeric
) returns integer
    language plpgsql as $$
declare
    moved integer;
    passed bigint;
begin
    update kafka_offsets o set next_offset = s.next, updated_at = now()
    from unnest(partitions, expected, next) as s (partition, expected, next)
    where o.topic = of_topic and o.partition = s.partition and o.next_offset = s.expected;
    get diagnostics moved = row_count;
    if moved <> cardinality(partitions) then
        raise exception 'fenced: % of % partitions stand where the batch starts', moved, cardinality(partitions)
            using errcode = 'OL001';
    end if;
    select sum(s.next - s.expected) into passed from unnest(expected, next) as s (expected, next);
    if passed is distinct from records then
        raise exception 'the batch passes % offsets and accounts for % records', passed, records using errcode = 'OL003';
    end if;
    if summed is distinct from events then
        raise exception 'the batch has % events and sums of %', events, summed using errcode = 'OL003';
    end if;
    return moved;
end
$$;

comment on function move_positions(text, integer[], bigint[], bigint[], numeric, integer, numeric) is 'Moves partitions from expected to next, or raises OL001 and moves none. OL003: the records accounted for are not as many as the offsets, or the events that are summed not as many as those to be stored.';

-- A busy quarter's rows are all changed by every fold, and their histograms grow meanwhile: with room for a second version of each
-- that is longer, a page is never left.
create table usage_live (
    bucket             timestamptz not null,
    account_id         uuid not null,
    agent              text not null,
    model              text not null,
    provider           text not null,
    events             bigint not null,
    errors             bigint not null,
    unpriced_events    bigint not null,
    input_tokens       numeric not null,
    output_tokens      numeric not null,
    cache_read_tokens  numeric not null,
    cache_write_tokens numeric not null,
    reasoning_tokens   numeric not null,
    cost_nano_usd      numeric not null,
    latency_count      bigint not null,
    latency_sum_ms     numeric not null,
    latency_max_ms     bigint,
    latency_histogram  numeric not null,
    first_ts           timestamptz not null,
    last_ts            timestamptz not null,
    primary key (account_id, bucket, agent, model, provider)
) with (fillfactor = 30);

create index usage_live_bucket_idx on usage_live (bucket);

create table usage_live_parts (like usage_live)
    with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

comment on table usage_live is 'Sums of the stored events that no aggregate holds yet, but for what still lies in usage_live_parts: complete from usage_watermarks.quarters on, and never read below. Empty where the usage relations are plain views of the events.';
comment on table usage_live_parts is 'What batches, and later corrections, added to usage_live and is not folded into it yet. Readers add it to them.';
comment on column usage_live.bucket is 'Start, in UTC, of the quarter hour of ts.';
comment on column usage_live.latency_histogram is 'Add with sum(), read with latency_percentile(). 0 without latencies.';

{{ range list "usage_live" "usage_live_parts" }}
alter table {{ . }} enable row level security;
create policy tenant on {{ . }} using (account_id = (select current_account()) or (select current_user <> 'outlay_query'));
{{ end }}
{{ if eq .Edition "community" }}
create schema aggregates;
comment on schema aggregates is 'The continuous aggregates that the usage relations of schema public are read from.';
{{ range list "usage_15m" "usage_hourly" "usage_daily" }}
alter materialized view public.{{ . }} set schema aggregates;
comment on view aggregates.{{ . }} is 'What TimescaleDB keeps of the events by refreshing it. public.{{ . }} is what to read.';
{{ end }}

-- A view that named tables of the extension would keep it from being updated: updates drop these and make them anew. A function
-- with a body of text depends on nothing. Being stable it reads in the snapshot of the statement that calls it.
create function usage_watermark(of_aggregate text) returns timestamptz
    language plpgsql stable parallel safe as $$
begin
    return coalesce((
        select _timescaledb_functions.to_timestamp(w.watermark)
        from _timescaledb_catalog.continuous_agg a join _timescaledb_catalog.continuous_aggs_watermark w using (mat_hypertable_id)
        where a.user_view_schema = 'aggregates' and a.user_view_name = of_aggregate), '-infinity');
end
$$;

comment on function usage_watermark(text) is 'The time below which a continuous aggregate holds all there is; above it finer sums do.';

create view usage_watermarks as
select usage_watermark('usage_15m') as quarters, usage_watermark('usage_hourly') as hours, usage_watermark('usage_daily') as days;
{{ template "usage/live_views.sql" . }}
{{ range list "usage_15m" "usage_hourly" "usage_daily" }}
comment on view {{ . }} is 'Sums of the events by bucket of ts (its start, UTC), account, agent, model and provider. Rows of the last moments are included.';
comment on column {{ . }}.errors is 'Events with status error; they are in events too.';
comment on column {{ . }}.unpriced_events is 'Events no price was known for; their cost counts as 0 here until they are repriced.';
comment on column {{ . }}.cache_write_tokens is 'Writes of both lifetimes.';
comment on column {{ . }}.cost_nano_usd is '10^-9 US dollars, exact.';
comment on column {{ . }}.latency_count is 'Events with a latency; latency_sum_ms divided by it is their average.';
comment on column {{ . }}.latency_max_ms is 'Null without latencies.';
comment on column {{ . }}.latency_histogram is 'Add with sum(), read with latency_percentiles(). 0 without latencies.';

create or replace view tenant.{{ . }} as select * from public.{{ . }} where account_id = current_account();
create or replace view report.{{ . }} as
select
    bucket, account_id, agent, model, provider, events, errors, unpriced_events,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens,
    cost_nano_usd * 0.000000001 as cost_usd,
    latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts
from public.{{ . }};
{{ end }}
{{- else }}
create view usage_watermarks as
select timestamptz 'infinity' as quarters, timestamptz 'infinity' as hours, timestamptz 'infinity' as days;
{{ end }}
comment on view usage_watermarks is 'The times below which the usage relations are read from what is materialised of them. From quarters on they are read from usage_live; infinity: there is nothing to be read from it.';

-- Moves up to most parts into usage_live and returns how many; 0 also while another call is at work. What is below the watermark by
-- now is read from the aggregates.
create function fold_usage_live(most integer) returns bigint
    language plpgsql as $$
declare
    taken bigint;
begin
    if not pg_try_advisory_xact_lock({{ .Locks.FoldUsage }}) then
        return 0;
    end if;
    with part as (
        delete from usage_live_parts where ctid = any (array(select ctid from usage_live_parts limit most)) returning *
    ), folded as (
        insert into usage_live as l (bucket, account_id, agent, model, provider, events, errors, unpriced_events,
            input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_nano_usd,
            latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts)
        select bucket, account_id, agent, model, provider,
{{ template "usage/sums_of_usage.sql" . }}
        from part where bucket >= (select quarters from usage_watermarks)
        group by 1, 2, 3, 4, 5
        on conflict (account_id, bucket, agent, model, provider) do update set
            events = l.events + excluded.events, errors = l.errors + excluded.errors,
            unpriced_events = l.unpriced_events + excluded.unpriced_events,
            input_tokens = l.input_tokens + excluded.input_tokens, output_tokens = l.output_tokens + excluded.output_tokens,
            cache_read_tokens = l.cache_read_tokens + excluded.cache_read_tokens,
            cache_write_tokens = l.cache_write_tokens + excluded.cache_write_tokens,
            reasoning_tokens = l.reasoning_tokens + excluded.reasoning_tokens, cost_nano_usd = l.cost_nano_usd + excluded.cost_nano_usd,
            latency_count = l.latency_count + excluded.latency_count, latency_sum_ms = l.latency_sum_ms + excluded.latency_sum_ms,
            latency_max_ms = greatest(l.latency_max_ms, excluded.latency_max_ms),
            latency_histogram = l.latency_histogram + excluded.latency_histogram,
            first_ts = least(l.first_ts, excluded.first_ts), last_ts = greatest(l.last_ts, excluded.last_ts)
    )
    select count(*) into taken from part;
    return taken;
end
$$;

comment on function fold_usage_live(integer) is 'Moves parts into usage_live; called every second or so by any number of processors.';

create function rebuild_usage_live() returns bigint
    language plpgsql as $$
declare
    since constant timestamptz := (select quarters from usage_watermarks);
    made bigint;
begin
    lock table events in share row exclusive mode;
    perform pg_advisory_xact_lock({{ .Locks.FoldUsage }});
    delete from usage_live_parts;
    delete from usage_live;
    if since = 'infinity' then
        return 0;
    end if;
    insert into usage_live
    select date_bin('15 minutes', ts, timestamptz '2000-01-01 00:00:00+00'), account_id, agent, model, provider,
{{ template "usage/sums_of_events.sql" . }}
    from events where ts >= since
    group by 1, 2, 3, 4, 5;
    get diagnostics made = row_count;
    return made;
end
$$;

comment on function rebuild_usage_live() is 'Makes usage_live anew from the events, for who has changed those by hand. No event is stored meanwhile.';

select rebuild_usage_live();

-- As it was, and with what is live.
{{ template "usage/correct_events.sql" . }}
