-- Which account a key reads is not known before the key is: row-level security hides it from the query tier's role. It asks for one
-- key at a time by its hash, which only who has the key can compute, with the owner's rights.

create function key_that_reads(hash bytea)
    returns table (secret_sha256 bytea, id uuid, account_id uuid, plan text, expires_at timestamptz, scopes text[], agents text[])
    language sql stable security definer set search_path = public, pg_temp
as $$
    select k.secret_sha256, k.id, k.account_id, a.plan, k.expires_at, k.scopes, k.agents
    from api_keys k join accounts a on a.id = k.account_id
    where k.secret_sha256 = hash and 'read' = any (k.scopes) and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
$$;

comment on function key_that_reads(bytea) is 'The API key with this SHA-256, if it is one with the scope read that has neither been revoked nor expired.';

revoke execute on function key_that_reads(bytea) from public;
