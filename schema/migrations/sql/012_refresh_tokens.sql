-- A sign-in lasts as long as its refresh tokens are passed on: each is used once, and using one twice ends the sign-in, because
-- then somebody else has it too.

create table refresh_tokens (
    token_id      uuid primary key,
    account_id    uuid not null references accounts (id),
    user_id       uuid not null references users (id),
    sign_in_id    uuid not null,
    secret_sha256 bytea not null unique check (octet_length(secret_sha256) = 32),
    created_at    timestamptz not null,
    expires_at    timestamptz not null check (expires_at > created_at),
    used_at       timestamptz,
    revoked_at    timestamptz
);

create index refresh_tokens_sign_in_idx on refresh_tokens (sign_in_id);
create index refresh_tokens_user_idx on refresh_tokens (user_id);
create index refresh_tokens_expires_idx on refresh_tokens (expires_at);

comment on table refresh_tokens is 'Refresh tokens of sign-ins, kept until they expire.';
comment on column refresh_tokens.sign_in_id is 'The sign-in, whose tokens are all revoked when one is used twice.';
comment on column refresh_tokens.secret_sha256 is 'SHA-256 of the token, which is not kept.';
comment on column refresh_tokens.used_at is 'When it was exchanged for the next one; null: it is the one to use.';
