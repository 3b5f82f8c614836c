-- A person may have a user in several accounts under one e-mail address: that an address is taken in another account would give
-- away who has one. So an address is unique within an account only.

drop index users_email_idx;
create index users_email_idx on users (lower(email)) where issuer is null;
create unique index users_account_email_idx on users (account_id, lower(email)) where issuer is null;

comment on column users.email is 'Unique without regard to case within the account, among those who sign in with a password. Of an outside user it is only a name: the address in the token, or else the subject.';

-- Before it is known which account a request is for, there are these four questions. The query tier's role asks them with the
-- owner's rights, and anything else within one account.

create function users_signing_in(wanted text) returns setof users
    language sql stable security definer set search_path = public, pg_temp
as $$ select * from users where lower(email) = lower(wanted) and issuer is null order by created_at, id $$;

comment on function users_signing_in(text) is 'The users, of any account, who sign in with an e-mail address and a password.';

create function signed_in_from(wanted text, from_network text) returns boolean
    language sql stable security definer set search_path = public, pg_temp
as $$
    select count(*) > 0 and bool_and(exists (select from refresh_tokens t where t.user_id = u.id and t.network = from_network))
    from users u where lower(u.email) = lower(wanted) and u.issuer is null and u.disabled_at is null
$$;

comment on function signed_in_from(text, text) is 'Whether every user with an e-mail address has signed in from a network. All of them: whoever has an account could add a user under a stranger''s address.';

create function account_of_refresh_token(hash bytea) returns uuid
    language sql stable security definer set search_path = public, pg_temp
as $$ select account_id from refresh_tokens where secret_sha256 = hash $$;

create function account_of_share(hash bytea) returns uuid
    language sql stable security definer set search_path = public, pg_temp
as $$ select account_id from session_shares where token_sha256 = hash $$;

revoke execute on function users_signing_in(text), signed_in_from(text, text), account_of_refresh_token(bytea), account_of_share(bytea) from public;
