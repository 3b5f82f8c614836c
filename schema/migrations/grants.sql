-- What each role may do. The owner, whom only `outlay migrate` and the commands of administration need, may do everything.
-- Each migrate gives all of them again, so that a role that was made later has them too.
-- Every tier reads the version of the schema: it begins its work when that is up to date.
do $$
begin
    if exists (select from pg_roles where rolname = 'outlay_ingest') then
        -- Keys, plans, prices and caps are read; what is written is leases, rates, refused events and which replicas live.
        grant usage on schema public to outlay_ingest;
        grant select on accounts, api_keys, price_books, price_overrides, budgets, budget_resets, spend, event_keys, kafka_offsets,
            schema_settings, schema_version to outlay_ingest;
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
        grant usage on schema public to outlay_processor;
        grant select, insert, update, delete on all tables in schema public to outlay_processor;
        grant usage, select on all sequences in schema public to outlay_processor;
        revoke all on users, api_keys, refresh_tokens, session_shares, audit_log, accounts, price_overrides, schema_settings, schema_version
            from outlay_processor;
        grant select on accounts, price_overrides, schema_settings, schema_version to outlay_processor;
        -- Erasing a session ends its link and renames what the audit log has of it; old rows are deleted.
        grant select, update, delete on session_shares, audit_log to outlay_processor;
        grant select, delete, update (network) on refresh_tokens to outlay_processor; -- Deleting locks rows, which needs the right to update one column.
    end if;

    if exists (select from pg_roles where rolname = 'outlay_query') then
        -- Row-level security keeps outlay_query to one account, and only what has it, or a view that stands for it, may be granted here.
        grant usage on schema tenant, public to outlay_query;
        grant select on all tables in schema tenant to outlay_query;
        grant select on accounts, event_keys, kafka_offsets, usage_progress, spend, refused_events, budget_leases, schema_settings, schema_version, intake,
            sessions, session_parts, jobs, alert_status, incidents, delivery_tries, reports, report_files, report_deliveries,
            account_retention, reprices, reprice_differences, event_revisions to outlay_query;
        grant select, insert on budget_resets, audit_log, price_books, reprice_overrides to outlay_query;
        grant select, insert, delete on price_overrides, report_schedules, budget_forgiven to outlay_query;
        grant select, insert, update on users, api_keys, session_shares, deliveries to outlay_query;
        grant select, insert, update, delete on refresh_tokens, budgets, alert_rules, alert_channels to outlay_query;
        grant insert on alert_secrets to outlay_query; -- Only the processor reads them.
        grant update (name, sharing) on accounts to outlay_query;
        -- How far a job is and what came of it, the processor alone writes.
        grant insert (job_id, account_id, kind, args, created_by, created_at) on jobs to outlay_query;
        grant insert (report_id, account_id, job_id, title, from_time, to_time, timezone, agents, group_by, created_by, created_at)
            on reports to outlay_query;
        grant insert (job_id, account_id, from_time, to_time, model, dry_run, received_before, price_book, created_at, next_time)
            on reprices to outlay_query;
        grant insert (account_id, retention_days, updated_at, updated_by), update (retention_days, updated_at, updated_by)
            on account_retention to outlay_query;
        -- Before it is known which account a request is for, these find it with the owner's rights.
        grant execute on function key_that_reads(bytea), users_signing_in(text), signed_in_from(text, text), account_of_refresh_token(bytea),
            account_of_share(bytea) to outlay_query;
    end if;

    if exists (select from pg_roles where rolname = 'outlay_grafana') then
        grant usage on schema report to outlay_grafana;
        grant select on all tables in schema report to outlay_grafana;
    end if;
end
$$;
