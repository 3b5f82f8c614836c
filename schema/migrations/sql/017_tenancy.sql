-- Every statement of the query tier names its account; this stands behind it for the day one does not. The query tier works as
-- role outlay_query, which sees the rows of the account named by the setting outlay.account_id and nothing else. TimescaleDB has
-- no row-level security for hypertables with a columnstore nor for continuous aggregates, so those are behind views of schema
-- tenant, which has them under their own names and comes first in the role's search path.

create function current_account() returns uuid
    language sql stable parallel safe
    return nullif(current_setting('outlay.account_id', true), '')::uuid;

comment on function current_account() is 'The account that the transaction works for; null when none was named.';

create schema tenant;
comment on schema tenant is 'Relations that row-level security cannot cover, cut down to the account of the transaction.';
{{ range list "events" "usage_15m" "usage_hourly" "usage_daily" "usage_daily_agents" }}
create view tenant.{{ . }} as select * from public.{{ . }} where account_id = current_account();
{{ end }}
{{ range list "users" "api_keys" "event_keys" "refresh_tokens" "session_shares" "audit_log" "spend" "budgets" "budget_resets" "budget_leases" "refused_events" }}
alter table {{ . }} enable row level security;
create policy tenant on {{ . }} using (account_id = current_account() or current_user <> 'outlay_query');
{{ end }}
alter table accounts enable row level security;
create policy tenant on accounts using (id = current_account() or current_user <> 'outlay_query');
