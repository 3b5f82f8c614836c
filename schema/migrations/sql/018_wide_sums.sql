-- Nine thousand of the dearest events in one quarter hour add up to more nano-dollars than a bigint holds, and so do the events
-- under one lease of which many are duplicates. Sums are numeric; only what belongs to one event stays bigint. The two functions
-- name columns that change, so they are made anew as they were.

drop function budget_spent(uuid, text, timestamptz, timestamptz);
drop function budget_leased(uuid, text, timestamptz);

alter table spend alter column cost_nano_usd type numeric;

alter table budget_leases
    alter column granted_nano_usd type numeric,
    alter column returned_nano_usd type numeric,
    alter column used_nano_usd type numeric,
    alter column stored_nano_usd type numeric;

create function budget_spent(of_account uuid, of_agent text, from_time timestamptz, to_time timestamptz) returns numeric
    language sql stable
    return (
        select coalesce(sum(s.cost_nano_usd), 0) from spend s
        where s.account_id = of_account and s.agent = of_agent and s.bucket >= from_time and s.bucket < to_time
    ) - coalesce((
        select b.reset_offset + coalesce((
            select sum(l.stored_nano_usd) from budget_leases l
            where l.account_id = of_account and l.agent = of_agent and l.period_start = from_time and l.epoch < b.epoch
        ), 0)
        from budgets b
        where b.account_id = of_account and b.agent = of_agent and b.reset_period_start = from_time
    ), 0);

create function budget_leased(of_account uuid, of_agent text, from_time timestamptz) returns numeric
    language sql stable
    return (
        select coalesce(sum(greatest(l.granted_nano_usd - l.returned_nano_usd - l.used_nano_usd, 0)), 0)
        from budget_leases l join budgets b on b.account_id = l.account_id and b.agent = l.agent
        where l.account_id = of_account and l.agent = of_agent and l.period_start = from_time and l.epoch = b.epoch
    );

comment on function budget_spent(uuid, text, timestamptz, timestamptz) is 'What was stored in a period, since its last reset.';
comment on function budget_leased(uuid, text, timestamptz) is 'What replicas hold or have put on its way in a period, since its last reset.';
