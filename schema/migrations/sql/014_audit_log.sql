-- Who did what to an account, written in the transaction that does it and never changed.

create table audit_log (
    audit_id   uuid primary key,
    account_id uuid not null references accounts (id),
    at         timestamptz not null,
    user_id    uuid,
    action     text not null check (action <> ''),
    target     text not null,
    detail     jsonb not null default '{}',
    address    text,
    request_id text
);

create index audit_log_account_idx on audit_log (account_id, at desc, audit_id desc);

comment on table audit_log is 'Administrative acts, newest last. Rows are only added.';
comment on column audit_log.user_id is 'Who did it; null for the command line.';
comment on column audit_log.action is 'A resource and a verb, such as api_key.create.';
comment on column audit_log.target is 'The id or name of what it was done to.';
comment on column audit_log.detail is 'What was asked for, without any secret.';
