-- What each role may do. The owner, whom only `outlay migrate` and the commands of administration need, may do everything.
-- outlay_query has its grants from the migrations, one table at a time, because row-level security goes with them.
do $$
declare
    one text;
begin
    if exists (select from pg_roles where rolname = 'outlay_ingest') then
        -- Keys, plans, prices and caps are read; what is written is leases, rates, refused events and which replicas live.
        grant usage on schema public to outlay_ingest;
        grant select on accounts, api_keys, price_books, price_overrides, budgets, budget_resets, spend, event_keys, kafka_offsets,
            schema_settings to outlay_ingest;
        grant select, insert on released_leases to outlay_ingest;
        grant select, insert, update, delete on budget_leases, budget_forgiven, rate_windows, ingest_replicas, refused_events to outlay_ingest;
        -- A lease locks its cap while it is granted; that a key was used is noted.
        grant update (overdrawn_at) on budgets to outlay_ingest;
        -- The prices that were last fetched are kept for the next start.
        grant insert, update on price_books to outlay_ingest;
        grant update (last_used_at) on api_keys to outlay_ingest;
    end if;

    if exists (select from pg_roles where rolname = 'outlay_processor') then
        -- Whatever is made of events is the processor's; who may sign in, and with what, is not.
        for one in select nspname from pg_namespace where nspname in ('public', 'aggregates', 'river') loop
            execute format('grant usage on schema %I to outlay_processor', one);
            execute format('grant select, insert, update, delete on all tables in schema %I to outlay_processor', one);
            execute format('grant usage, select on all sequences in schema %I to outlay_processor', one);
        end loop;
        revoke all on users, api_keys, refresh_tokens, session_shares, audit_log, accounts, price_overrides, schema_settings, schema_version
            from outlay_processor;
        grant select on accounts, price_overrides, schema_settings to outlay_processor;
        -- Erasing a session ends its link and renames what the audit log has of it; old rows are deleted.
        grant select, update, delete on session_shares, audit_log to outlay_processor;
        grant select, delete, update (network) on refresh_tokens to outlay_processor; -- Deleting locks rows, which needs the right to update one column.
    end if;

    if exists (select from pg_roles where rolname = 'outlay_grafana') then
        grant usage on schema report to outlay_grafana;
        grant select on all tables in schema report to outlay_grafana;
    end if;
end
$$;
