-- A session is shown to people without an account by a link. At most one is in force at a time.

create table session_shares (
    share_id         uuid primary key,
    account_id       uuid not null references accounts (id),
    session_id       text not null,
    token_sha256     bytea not null unique check (octet_length(token_sha256) = 32),
    include_metadata boolean not null,
    created_by       uuid,
    created_at       timestamptz not null,
    expires_at       timestamptz,
    revoked_at       timestamptz,
    views            bigint not null default 0 check (views >= 0),
    last_viewed_at   timestamptz
);

create unique index session_shares_session_idx on session_shares (account_id, session_id) where revoked_at is null;

comment on table session_shares is 'Links that show a session to anybody who has them.';
comment on column session_shares.token_sha256 is 'SHA-256 of the token in the link, which is derived from share_id and the signing key and not kept.';
comment on column session_shares.expires_at is 'Null: never.';
comment on column session_shares.revoked_at is 'Null while the link may be in force; an expired one is revoked when the next one is made.';
