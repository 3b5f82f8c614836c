{{ range $view, $width := dict "usage_15m" "15 minutes" "usage_hourly" "1 hour" "usage_daily" "1 day" }}
create view {{ $view }} as
select
{{- if eq $.Edition "apache" }}
    time_bucket(interval '{{ $width }}', ts) as bucket,
{{- else }}
    date_bin(interval '{{ $width }}', ts, timestamptz '2000-01-01 00:00:00+00') as bucket,
{{- end }}
    account_id, agent, model, provider,
{{ template "usage/sums_of_events.sql" $ }}
from events
group by 1, 2, 3, 4, 5;
{{ end }}
