{{- $columns := "bucket, account_id, agent, model, provider, events, errors, unpriced_events, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_nano_usd, latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts" -}}
-- The aggregates themselves go on to answer in real time, so that a coarser one is made of all there is even while the finer one is
-- behind. The views read the tables in which they keep what is materialised, which only the catalog has the names of.
do $do$
declare
    quarters text := (select format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name)
        from timescaledb_information.continuous_aggregates where view_schema = 'aggregates' and view_name = 'usage_15m');
    hours text := (select format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name)
        from timescaledb_information.continuous_aggregates where view_schema = 'aggregates' and view_name = 'usage_hourly');
    days text := (select format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name)
        from timescaledb_information.continuous_aggregates where view_schema = 'aggregates' and view_name = 'usage_daily');
begin
    execute format($view$
create view usage_15m as
select {{ $columns }}
from %1$s where bucket < (select w.quarters from usage_watermarks w)
union all
select bucket, account_id, agent, model, provider,
{{ template "usage/sums_of_usage.sql" $ }}
from (
    select {{ $columns }}
    from usage_live where bucket >= (select w.quarters from usage_watermarks w)
    union all
    select {{ $columns }}
    from usage_live_parts where bucket >= (select w.quarters from usage_watermarks w)
) as live
group by 1, 2, 3, 4, 5
    $view$, quarters);

    execute format($view$
create view usage_hourly as
select {{ $columns }}
from %2$s where bucket < (select w.hours from usage_watermarks w)
union all
select time_bucket(interval '1 hour', bucket) as bucket, account_id, agent, model, provider,
{{ template "usage/sums_of_usage.sql" $ }}
from (
    select {{ $columns }}
    from %1$s where bucket >= (select w.hours from usage_watermarks w) and bucket < (select w.quarters from usage_watermarks w)
    union all
    select {{ $columns }}
    from usage_live where bucket >= (select greatest(w.quarters, w.hours) from usage_watermarks w)
    union all
    select {{ $columns }}
    from usage_live_parts where bucket >= (select greatest(w.quarters, w.hours) from usage_watermarks w)
) as finer
group by 1, 2, 3, 4, 5
    $view$, quarters, hours);

    execute format($view$
create view usage_daily as
select {{ $columns }}
from %3$s where bucket < (select w.days from usage_watermarks w)
union all
select time_bucket(interval '1 day', bucket) as bucket, account_id, agent, model, provider,
{{ template "usage/sums_of_usage.sql" $ }}
from (
    select {{ $columns }}
    from %2$s where bucket >= (select w.days from usage_watermarks w) and bucket < (select w.hours from usage_watermarks w)
    union all
    select {{ $columns }}
    from %1$s where bucket >= (select greatest(w.hours, w.days) from usage_watermarks w) and bucket < (select w.quarters from usage_watermarks w)
    union all
    select {{ $columns }}
    from usage_live where bucket >= (select greatest(w.quarters, w.hours, w.days) from usage_watermarks w)
    union all
    select {{ $columns }}
    from usage_live_parts where bucket >= (select greatest(w.quarters, w.hours, w.days) from usage_watermarks w)
) as finer
group by 1, 2, 3, 4, 5
    $view$, quarters, hours, days);
end
$do$;
