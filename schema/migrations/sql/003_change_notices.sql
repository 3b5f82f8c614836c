-- Ingest answers from a copy of accounts and keys in memory; these notices make every replica read them again within a second
-- of a change. A key's last_used_at moves all the time and changes no answer, so it is left out.

create function notify_change() returns trigger
    language plpgsql as $$
begin
    perform pg_notify('outlay_changes', tg_table_name);
    return null;
end
$$;

create trigger accounts_changed
    after insert or delete or truncate or update on accounts
    for each statement execute function notify_change();

create trigger api_keys_changed
    after insert or delete or truncate or update of id, account_id, name, secret_sha256, expires_at, revoked_at on api_keys
    for each statement execute function notify_change();

comment on function notify_change() is 'Tells listeners of channel outlay_changes which table changed; the payload is its name.';
