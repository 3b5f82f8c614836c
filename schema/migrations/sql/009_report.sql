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
{{ range list "usage_15m" "usage_hourly" "usage_daily" }}
create view report.{{ . }} as
select
    bucket, account_id, agent, model, provider, events, errors, unpriced_events,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens,
    cost_nano_usd * 0.000000001 as cost_usd,
    latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts
from {{ . }};
comment on view report.{{ . }} is '{{ . }} with its cost in US dollars.';
{{ end }}
comment on schema report is 'Views for Grafana: the role outlay_grafana reads these and nothing else.';
comment on view report.accounts is 'Names of accounts.';
comment on view report.events is 'Events with their cost in US dollars, without what clients sent as metadata.';
