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
{{ range list "events" "usage_15m" "usage_hourly" "usage_daily" }}
create view tenant.{{ . }} as select * from public.{{ . }} where account_id = current_account();
{{ end }}
{{ range list "users" "api_keys" "event_keys" "refresh_tokens" "session_shares" "audit_log" "spend" "budgets" "budget_resets" "budget_leases" "refused_events" }}
alter table {{ . }} enable row level security;
create policy tenant on {{ . }} using (account_id = current_account() or current_user <> 'outlay_query');
{{ end }}
alter table accounts enable row level security;
create policy tenant on accounts using (id = current_account() or current_user <> 'outlay_query');

-- A user who may not create roles is told; the query tier then works without the role.
do $$
begin
    begin
        create role outlay_query nologin;
    exception when duplicate_object or unique_violation then null;
    end;
    if not pg_has_role(current_user, 'outlay_query', 'member') then
        grant outlay_query to current_user;
    end if;
    grant usage on schema tenant, public to outlay_query;
    grant select on all tables in schema tenant to outlay_query;
    grant select on accounts, event_keys, kafka_offsets, late_buckets, spend, refused_events, budget_leases, schema_settings to outlay_query;
    grant select, insert, update on users, api_keys, session_shares, refresh_tokens to outlay_query;
    grant select, insert, update, delete on budgets to outlay_query;
    grant select, insert on budget_resets, audit_log to outlay_query;
exception when insufficient_privilege then
    raise notice 'role outlay_query was not made: row-level security does not stand behind the query tier. Create it as a superuser and grant it to this user';
end
$$;
