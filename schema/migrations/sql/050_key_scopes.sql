-- A key may be for tracking, for reading, or for both, and may be bound to agents.

alter table api_keys
    add column scopes text[] not null default '{track}' check (scopes <@ '{track,read}' and cardinality(scopes) between 1 and 2),
    add column agents text[] check (cardinality(agents) between 1 and 50);

comment on table api_keys is 'Keys of programs that track, read, or both.';
comment on column api_keys.scopes is 'What the key is for: track, read.';
comment on column api_keys.agents is 'Patterns of the agents that the key may track, * for any text in them. Null: all.';

-- Every replica of ingest obeys a change of these within a second, as of the others.
drop trigger api_keys_changed on api_keys;
create trigger api_keys_changed
    after insert or delete or truncate or update of id, account_id, name, secret_sha256, expires_at, revoked_at, scopes, agents on api_keys
    for each statement execute function notify_change();
