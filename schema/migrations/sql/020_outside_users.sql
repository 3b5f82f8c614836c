-- Users whom an outside identity provider signs in have a row of their own from their first request on, so that the audit log
-- can name them and an owner can shut them out. The row is found by issuer and subject, never by the e-mail address, which a
-- provider may hand out as it likes: an outside user never becomes a user with a password.

alter table users
    add column issuer  text check (issuer <> ''),
    add column subject text check (subject <> ''),
    add constraint users_outside check ((issuer is null) = (subject is null) and (issuer is null or password_hash = ''));

drop index users_email_idx;
create unique index users_email_idx on users (lower(email)) where issuer is null;
create unique index users_subject_idx on users (account_id, issuer, subject) where issuer is not null;

comment on column users.email is 'Unique without regard to case, over all accounts, among those who sign in with a password. Of an outside user it is only a name: the address in the token, or else the subject.';
comment on column users.password_hash is 'Argon2id in its usual encoded form; parameters and salt are in it. Empty for an outside user, who has no password here.';
comment on column users.role is 'What the user may do. Of an outside user it is what the latest token said, which decides.';
comment on column users.issuer is 'The identity provider that signs the user in; null for a user with a password.';
comment on column users.subject is 'How that provider names the user, for ever.';

-- An account's prices are managed by the query tier, which sees no other account's.

alter table price_overrides enable row level security;
create policy tenant on price_overrides using (account_id = current_account() or current_user <> 'outlay_query');
