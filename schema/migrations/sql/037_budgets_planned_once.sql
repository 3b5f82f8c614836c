-- A function in SQL is planned anew by every statement that calls it, which for a list of ten caps took five times as long as all
-- the rest. In plpgsql its statements are planned once for each connection. They read as they did.

create or replace function budget_spent(of_account uuid, of_agent text, from_time timestamptz, to_time timestamptz) returns numeric
    language plpgsql stable as $$
begin
    return (
        select coalesce(sum(s.cost_nano_usd), 0) from spend s
        where s.account_id = of_account and s.agent = of_agent and s.bucket >= from_time and s.bucket < to_time
    ) - (
        select coalesce(sum(f.cost_nano_usd), 0) from budget_forgiven f
        where f.account_id = of_account and f.agent = of_agent and f.bucket >= from_time and f.bucket < to_time
    ) - (
        select coalesce(sum(l.stored_nano_usd), 0) from budget_leases l
        where l.account_id = of_account and l.agent = of_agent and l.bucket >= from_time and l.bucket < to_time
            and lease_forgiven(l.account_id, l.agent, l.bucket, l.epoch)
    );
end
$$;

create or replace function budget_leased(of_account uuid, of_agent text, from_time timestamptz, to_time timestamptz default 'infinity') returns numeric
    language plpgsql stable as $$
begin
    return (
        select coalesce(sum(greatest(l.granted_nano_usd - l.returned_nano_usd - l.used_nano_usd, 0)), 0)
        from budget_leases l
        where l.account_id = of_account and l.agent = of_agent and l.bucket >= from_time and l.bucket < to_time
            and not lease_forgiven(l.account_id, l.agent, l.bucket, l.epoch)
    );
end
$$;
