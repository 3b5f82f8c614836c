-- What every list, chart and report is summed from, under one set of names and columns whatever the database can do:
-- aggregates kept up by TimescaleDB Community, each on the finer one; plain views of the events elsewhere. Buckets are in
-- UTC; other time zones are summed from the quarter hours.
{{ if eq .Edition "community" }}
{{ template "usage/aggregates.sql" . }}
{{ else }}
{{ template "usage/views.sql" . }}
{{ end }}
{{ range list "usage_15m" "usage_hourly" "usage_daily" }}
comment on view {{ . }} is 'Sums of the events by bucket of ts (its start, UTC), account, agent, model and provider. Rows of the last moments are included.';
comment on column {{ . }}.errors is 'Events with status error; they are in events too.';
comment on column {{ . }}.unpriced_events is 'Events no price was known for; their cost counts as 0 here until they are repriced.';
comment on column {{ . }}.cache_write_tokens is 'Writes of both lifetimes.';
comment on column {{ . }}.cost_nano_usd is '10^-9 US dollars, exact.';
comment on column {{ . }}.latency_count is 'Events with a latency; latency_sum_ms divided by it is their average.';
comment on column {{ . }}.latency_max_ms is 'Null without latencies.';
comment on column {{ . }}.latency_histogram is 'Add with sum(), read with latency_percentiles(). 0 without latencies.';
{{ end }}
