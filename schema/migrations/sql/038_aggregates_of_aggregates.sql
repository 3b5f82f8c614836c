-- An aggregate was made of the finer one in real time, so that it was whole even while the finer one was behind. But TimescaleDB
-- looks the watermark up anew for every row, and a condition on days says nothing to it about the chunks of the events behind the
-- quarter hours: a refresh of one day looked at every event of the last 75 minutes, at 15 microseconds each, for days and for days of agents.
-- Now an aggregate is made of what is materialised, and it is the processors that see to hours and days, when their quarter hours
-- are. The public views are exact all the while, as before: above its watermark each reads the finer ones and the live sums.
{{ if eq .Edition "community" }}
{{ range list "usage_hourly" "usage_daily" "usage_daily_agents" }}
select remove_continuous_aggregate_policy('aggregates.{{ . }}', if_exists => true);
{{ end }}
{{ range list "usage_15m" "usage_hourly" "usage_daily" "usage_daily_agents" }}
alter materialized view aggregates.{{ . }} set (timescaledb.materialized_only = true);
{{ end }}
{{- else }}
select 1;
{{ end }}
