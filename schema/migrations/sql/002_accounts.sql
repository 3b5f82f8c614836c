-- Who may send and who may read: accounts, their users and their API keys. Secrets are kept as hashes only.

create table accounts (
    id         uuid primary key,
    name       text not null check (name <> ''),
    plan       text not null default 'enterprise' check (plan in ('free', 'pro', 'enterprise')),
    created_at timestamptz not null default now()
);

create table users (
    id            uuid primary key,
    account_id    uuid not null references accounts (id),
    email         text not null check (email <> ''),
    password_hash text not null,
    role          text not null check (role in ('viewer', 'admin', 'owner')),
    created_at    timestamptz not null default now(),
    disabled_at   timestamptz
);

create unique index users_email_idx on users (lower(email));
create index users_account_idx on users (account_id);

create table api_keys (
    id            uuid primary key,
    account_id    uuid not null references accounts (id),
    name          text not null,
    secret_sha256 bytea not null unique check (octet_length(secret_sha256) = 32),
    hint          text not null check (char_length(hint) <= 4),
    created_at    timestamptz not null default now(),
    expires_at    timestamptz,
    revoked_at    timestamptz,
    last_used_at  timestamptz
);

create index api_keys_account_idx on api_keys (account_id);

comment on table accounts is 'A tenant. Every other row that belongs to a tenant names it by account_id.';
comment on column accounts.plan is 'Decides the rate limit of the tracking endpoints.';
comment on table users is 'Who may sign in, and what they may do in their account.';
comment on column users.email is 'Unique without regard to case, over all accounts.';
comment on column users.password_hash is 'Argon2id in its usual encoded form; parameters and salt are in it.';
comment on column users.disabled_at is 'Null while the user may sign in.';
comment on table api_keys is 'Keys of the tracking endpoints.';
comment on column api_keys.secret_sha256 is 'SHA-256 of the whole key as the client sends it. The key itself is shown once and not kept.';
comment on column api_keys.hint is 'The last four characters of the key, so that people can tell keys apart.';
comment on column api_keys.expires_at is 'Null: never.';
comment on column api_keys.revoked_at is 'Null while the key works.';
comment on column api_keys.last_used_at is 'Kept to the minute or coarser; a change of it alone notifies nobody.';
