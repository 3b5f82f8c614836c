-- A chart by agent and the list of agents were summed from a row for each model of an agent a day: with twenty models, most of
-- the work went into adding up what nobody asked to see apart. One more level holds a row for each agent a day.
{{ if eq .Edition "community" }}
create materialized view aggregates.usage_daily_agents
    with (timescaledb.continuous, timescaledb.materialized_only = false, timescaledb.create_group_indexes = false) as
select
    time_bucket(interval '1 day', bucket) as bucket,
    account_id, agent,
{{ template "usage/sums_of_usage.sql" . }},
    array_agg(distinct model) as models
from aggregates.usage_daily
group by 1, 2, 3
with no data;

create index on aggregates.usage_daily_agents (account_id, bucket);
comment on view aggregates.usage_daily_agents is 'What TimescaleDB keeps of usage_daily by refreshing it. public.usage_daily_agents is what to read.';

create or replace view usage_watermarks as
select usage_watermark('usage_15m') as quarters, usage_watermark('usage_hourly') as hours, usage_watermark('usage_daily') as days,
    usage_watermark('usage_daily_agents') as days_of_agents;

do $do$
declare
    materialized text := (select format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name)
        from timescaledb_information.continuous_aggregates where view_schema = 'aggregates' and view_name = 'usage_daily_agents');
begin
    execute format($view$
create view usage_daily_agents as
select bucket, account_id, agent, events, errors, unpriced_events, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, reasoning_tokens, cost_nano_usd, latency_count, latency_sum_ms, latency_max_ms, latency_histogram,
    first_ts, last_ts, models
from %s where bucket < (select w.days_of_agents from usage_watermarks w)
union all
select bucket, account_id, agent,
{{ template "usage/sums_of_usage.sql" . }},
    array_agg(distinct model) as models
from usage_daily where bucket >= (select w.days_of_agents from usage_watermarks w)
group by 1, 2, 3
    $view$, materialized);
end
$do$;
{{ else }}
create view usage_daily_agents as
select
{{- if eq .Edition "apache" }}
    time_bucket(interval '1 day', ts) as bucket,
{{- else }}
    date_bin(interval '1 day', ts, timestamptz '2000-01-01 00:00:00+00') as bucket,
{{- end }}
    account_id, agent,
{{ template "usage/sums_of_events.sql" . }},
    array_agg(distinct model) as models
from events
group by 1, 2, 3;

create or replace view usage_watermarks as
select timestamptz 'infinity' as quarters, timestamptz 'infinity' as hours, timestamptz 'infinity' as days, timestamptz 'infinity' as days_of_agents;
{{ end }}
comment on view usage_daily_agents is 'usage_daily summed over model and provider: a row for each agent a day, with the models it called.';
comment on column usage_daily_agents.models is 'Each once, in no order; an empty one for events that named none.';

create view tenant.usage_daily_agents as select * from public.usage_daily_agents where account_id = current_account();
