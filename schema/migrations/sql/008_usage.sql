-- The sums that every list, chart and report is made of. A batch adds its own to usage_15m in the statement that stores its events,
-- late ones and corrections too, so that usage_15m is exact in any snapshot. Hours and days are made of it: continuous aggregates
-- where there is TimescaleDB Community, views elsewhere, under the same names and columns. Buckets are in UTC; other time zones are
-- summed from the quarter hours. Events are never aggregated again, so dropping them touches no sum.

-- A busy quarter's rows are changed by every batch: with room on its page for a second version, a row keeps its index entries.
create table usage_15m (
    bucket             timestamptz not null check (date_bin('15 minutes', bucket, timestamptz '2000-01-01 00:00:00+00') = bucket),
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
) with (fillfactor = 50);
{{ if ne .Edition "plain" }}
select create_hypertable('usage_15m', by_range('bucket', interval '7 days'), create_default_indexes => false);
{{ end }}
-- A refresh reads a range of time of all accounts.
create index usage_15m_bucket_idx on usage_15m (bucket);

{{ range list "usage_hourly" "usage_daily" "usage_daily_agents" }}
{{- $width := "1 day" }}{{ $finer := "usage_hourly" }}{{ $agents := eq . "usage_daily_agents" }}
{{- if eq . "usage_hourly" }}{{ $width = "1 hour" }}{{ $finer = "usage_15m" }}{{ end }}{{ if $agents }}{{ $finer = "usage_daily" }}{{ end }}
{{- if eq $.Edition "community" }}
create materialized view {{ . }}
    with (timescaledb.continuous, timescaledb.materialized_only = false, timescaledb.create_group_indexes = false) as
{{- else }}
create view {{ . }} as
{{- end }}
select
{{- if eq $.Edition "community" }}
    time_bucket(interval '{{ $width }}', bucket) as bucket,
{{- else }}
    date_bin(interval '{{ $width }}', bucket, timestamptz '2000-01-01 00:00:00+00') as bucket,
{{- end }}
    account_id, agent, {{ if not $agents }}model, provider,{{ end }}
    sum(events)::bigint          as events,
    sum(errors)::bigint          as errors,
    sum(unpriced_events)::bigint as unpriced_events,
    sum(input_tokens)            as input_tokens,
    sum(output_tokens)           as output_tokens,
    sum(cache_read_tokens)       as cache_read_tokens,
    sum(cache_write_tokens)      as cache_write_tokens,
    sum(reasoning_tokens)        as reasoning_tokens,
    sum(cost_nano_usd)           as cost_nano_usd,
    sum(latency_count)::bigint   as latency_count,
    sum(latency_sum_ms)          as latency_sum_ms,
    max(latency_max_ms)          as latency_max_ms,
    sum(latency_histogram)       as latency_histogram,
    min(first_ts)                as first_ts,
    max(last_ts)                 as last_ts{{ if $agents }},
    array_agg(distinct model)    as models{{ end }}
from {{ $finer }}
group by 1, 2, 3{{ if not $agents }}, 4, 5{{ end }}
{{- if eq $.Edition "community" }}
with no data;

create index on {{ . }} (account_id, bucket);
{{- else }};
{{- end }}
{{ end }}
comment on table usage_15m is 'Sums of the events by quarter hour of ts (its start, UTC), account, agent, model and provider. Exact in every snapshot.';
comment on view usage_hourly is 'usage_15m summed by hour. What is late shows after the next refresh, see rollup_progress.';
comment on view usage_daily is 'usage_hourly summed by day (UTC).';
comment on view usage_daily_agents is 'usage_daily summed over model and provider: a row for each agent a day, with the models it called.';
comment on column usage_daily_agents.models is 'Each once, in no order; an empty one for events that named none.';
{{ range list "usage_15m" "usage_hourly" "usage_daily" }}
comment on column {{ . }}.errors is 'Events with status error; they are in events too.';
comment on column {{ . }}.unpriced_events is 'Events no price was known for; their cost counts as 0 here until they are repriced.';
comment on column {{ . }}.cache_write_tokens is 'Writes of both lifetimes.';
comment on column {{ . }}.cost_nano_usd is '10^-9 US dollars, exact.';
comment on column {{ . }}.latency_count is 'Events with a latency; latency_sum_ms divided by it is their average.';
comment on column {{ . }}.latency_max_ms is 'Null without latencies.';
comment on column {{ . }}.latency_histogram is 'Add with sum(), read with latency_percentiles(). 0 without latencies.';
{{ end }}
-- A processor refreshes the continuous aggregates every few seconds. What is stored before a refresh begins is in all of them after it.
create table rollups (
    view_name          text primary key,
    materialized_until timestamptz not null default '-infinity'
);

create table rollup_progress (
    only_row       boolean primary key default true check (only_row),
    refreshed_at   timestamptz not null default '-infinity',
    complete_until timestamptz not null default '-infinity'
);

comment on table rollups is 'How far each continuous aggregate is materialised for certain. Empty where hours and days are views.';
comment on column rollups.materialized_until is 'Buckets before this time are refreshed only where TimescaleDB has noted a change.';
comment on table rollup_progress is 'One row: how far the last refresh of all continuous aggregates reached. Read it through usage_progress.';
comment on column rollup_progress.refreshed_at is 'When the refresh began: what was committed before is in it.';
comment on column rollup_progress.complete_until is 'Every record received before this time is in it.';
{{ if eq .Edition "community" }}
insert into rollups (view_name) values ('usage_hourly'), ('usage_daily'), ('usage_daily_agents');
insert into rollup_progress default values;
{{ end }}
create view usage_progress as
select
{{- if eq .Edition "community" }}
    case when stored.complete_until < r.complete_until then stored.complete_until
         when stored.complete_until is not null then r.complete_until end as complete_until,
    r.refreshed_at
from (select min(complete_until) as complete_until from kafka_offsets) as stored cross join rollup_progress r;
{{- else }}
    min(complete_until) as complete_until, timestamptz 'infinity' as refreshed_at
from kafka_offsets;
{{- end }}

comment on view usage_progress is 'One row: every record received before complete_until, and every change committed before refreshed_at, is in all usage relations.';
comment on column usage_progress.complete_until is 'Null before the first partition is known; -infinity while one of them is not.';
