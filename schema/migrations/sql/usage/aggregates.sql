create materialized view usage_15m
    with (timescaledb.continuous, timescaledb.materialized_only = false, timescaledb.create_group_indexes = false) as
select
    time_bucket(interval '15 minutes', ts) as bucket,
    account_id, agent, model, provider,
{{ template "usage/sums_of_events.sql" . }}
from events
group by 1, 2, 3, 4, 5
with no data;

create materialized view usage_hourly
    with (timescaledb.continuous, timescaledb.materialized_only = false, timescaledb.create_group_indexes = false) as
select
    time_bucket(interval '1 hour', bucket) as bucket,
    account_id, agent, model, provider,
{{ template "usage/sums_of_usage.sql" . }}
from usage_15m
group by 1, 2, 3, 4, 5
with no data;

create materialized view usage_daily
    with (timescaledb.continuous, timescaledb.materialized_only = false, timescaledb.create_group_indexes = false) as
select
    time_bucket(interval '1 day', bucket) as bucket,
    account_id, agent, model, provider,
{{ template "usage/sums_of_usage.sql" . }}
from usage_hourly
group by 1, 2, 3, 4, 5
with no data;

create index on usage_15m (account_id, bucket);
create index on usage_hourly (account_id, bucket);
create index on usage_daily (account_id, bucket);
