-- A cap whose period or time zone changes, or that is removed and set again, keeps what it knows. So far a lease was of a period and
-- a reset a property of the cap: what was on its way when the period changed counted in no period that anybody asked for, and a
-- cap that came back had forgotten its reset. Now a lease is of one quarter hour of arrival, as spend is, and counts in every
-- period that holds it; and what resets take out is kept by quarter hours as well, beside the cap.

drop function lease_budget(uuid, text, timestamptz, timestamptz, integer, uuid, uuid, bigint, bigint);
drop function settle_lease(uuid, text, timestamptz, integer, uuid, uuid, bigint, boolean);
drop function budget_leased(uuid, text, timestamptz);
drop function budget_spent(uuid, text, timestamptz, timestamptz);

-- Of the leases that there are nobody knows the quarter hours; that of their making is the first.
alter table budget_leases rename column period_start to bucket;
update budget_leases set bucket = greatest(bucket, date_bin('15 minutes', created_at, timestamptz '2000-01-01 00:00:00+00'));
alter table budget_leases
    add constraint budget_leases_bucket_check check (date_bin('15 minutes', bucket, timestamptz '2000-01-01 00:00:00+00') = bucket);

comment on column budget_leases.bucket is 'Start of the quarter hour in which all events under the lease arrive.';

-- The end of a period that was reset before is not known; nothing under leases of before arrived later than this.
alter table budget_resets add column period_end timestamptz, add column epoch integer;
update budget_resets r set period_end = r.at + interval '1 hour', epoch = n.epoch
from (
    select account_id, agent, at, row_number() over (partition by account_id, agent order by at) as epoch from budget_resets
) n
where n.account_id = r.account_id and n.agent = r.agent and n.at = r.at;
alter table budget_resets
    alter column period_end set not null,
    alter column epoch set not null,
    add constraint budget_resets_check check (period_end > period_start);

comment on column budget_resets.epoch is 'The epoch of the cap that began. Leases of earlier epochs, for quarter hours of the period, count no more. A cap that is removed and set again goes on with the latest.';

create table budget_forgiven (
    account_id    uuid not null,
    agent         text not null,
    bucket        timestamptz not null,
    cost_nano_usd numeric not null,
    primary key (account_id, agent, bucket)
);

comment on table budget_forgiven is 'What resets have taken out of spend, by quarter hour of arrival: what was stored when the latest reset came, and later under leases of before that are dropped by now. What such leases that are still there have stored comes on top.';
comment on column budget_forgiven.bucket is 'Start of the quarter hour, or of the period for all that is older than any period but total can begin.';

insert into budget_forgiven (account_id, agent, bucket, cost_nano_usd)
select account_id, agent, reset_period_start, reset_offset from budgets where reset_period_start is not null;
update budgets b set epoch = r.epoch
from (select account_id, agent, max(epoch) as epoch from budget_resets group by account_id, agent) r
where r.account_id = b.account_id and r.agent = b.agent and r.epoch > b.epoch;
alter table budgets drop column reset_period_start, drop column reset_offset;

comment on column budgets.epoch is 'Counts resets. A lease of an earlier epoch no longer counts in the period that was reset.';

create function lease_forgiven(of_account uuid, of_agent text, of_bucket timestamptz, of_epoch integer) returns boolean
    language sql stable
    return exists (
        select from budget_resets r
        where r.account_id = of_account and r.agent = of_agent and r.epoch > of_epoch
            and r.period_start <= of_bucket and of_bucket < r.period_end
    );

comment on function lease_forgiven(uuid, text, timestamptz, integer) is 'Whether a reset has taken out what is under a lease.';

create function budget_spent(of_account uuid, of_agent text, from_time timestamptz, to_time timestamptz) returns numeric
    language sql stable
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

comment on function budget_spent(uuid, text, timestamptz, timestamptz) is 'What was stored of the events that arrived in a time, without what resets have taken out.';

create function budget_leased(of_account uuid, of_agent text, from_time timestamptz, to_time timestamptz default 'infinity') returns numeric
    language sql stable
    return (
        select coalesce(sum(greatest(l.granted_nano_usd - l.returned_nano_usd - l.used_nano_usd, 0)), 0)
        from budget_leases l
        where l.account_id = of_account and l.agent = of_agent and l.bucket >= from_time and l.bucket < to_time
            and not lease_forgiven(l.account_id, l.agent, l.bucket, l.epoch)
    );

comment on function budget_leased(uuid, text, timestamptz, timestamptz) is 'What replicas hold or have put on its way for a time, without what resets have taken out.';

-- Grants a replica more of a cap, for events that arrive in the quarter hour of_bucket. need is what the event at hand lacks, want
-- what the replica would like. While anything is left, need is granted even if it crosses the cap, because the event that crosses
-- a cap is recorded; more than that is granted only from an eighth of what is left, so that shares shrink as the cap nears.
-- granted is null for a lease that may not be used any more: the cap was removed or reset, or has other periods than the replica
-- thinks, or the lease was closed. A replica of an earlier release says neither the quarter hour nor the period that it knows.
create function lease_budget(
    of_account uuid, of_agent text, from_time timestamptz, to_time timestamptz, of_epoch integer,
    lease uuid, replica uuid, need bigint, want bigint,
    of_bucket timestamptz default null, of_period text default null, of_timezone text default null,
    out granted bigint, out remaining numeric
)
    language plpgsql as $$
declare
    b budgets;
begin
    -- One grant at a time for each cap. The statements that follow see what the one before has committed.
    select * into b from budgets where account_id = of_account and agent = of_agent for update;
    if not found or b.epoch <> of_epoch or b.period <> of_period or b.timezone <> of_timezone
        or exists (select from budget_leases where lease_id = lease and (closed_at is not null or barrier is not null)) then
        return;
    end if;
    remaining := b.limit_nano_usd - budget_spent(of_account, of_agent, from_time, to_time)
        - budget_leased(of_account, of_agent, from_time, to_time);
    granted := 0;
    if remaining <= 0 then
        return;
    end if;
    granted := greatest(need, least(want, floor(remaining / 8)));
    remaining := remaining - granted;
    insert into budget_leases (lease_id, account_id, agent, bucket, epoch, replica_id, granted_nano_usd)
    values (lease, of_account, of_agent,
        coalesce(of_bucket, greatest(from_time, date_bin('15 minutes', now(), timestamptz '2000-01-01 00:00:00+00'))),
        of_epoch, replica, granted)
    on conflict (lease_id) do update set granted_nano_usd = budget_leases.granted_nano_usd + excluded.granted_nano_usd;
end
$$;

-- Takes back what a replica does not keep of a lease, however often it is said. A closed lease is granted nothing any more: also
-- not by a request that was sent before and arrives later, for which reason a lease that does not exist is made, and closed.
create function settle_lease(
    of_account uuid, of_agent text, of_bucket timestamptz, of_epoch integer, lease uuid, replica uuid, keep bigint, closes boolean
) returns void
    language plpgsql as $$
begin
    perform from budgets where account_id = of_account and agent = of_agent for update;
    if closes then
        insert into budget_leases (lease_id, account_id, agent, bucket, epoch, replica_id)
        values (lease, of_account, of_agent, of_bucket, of_epoch, replica)
        on conflict do nothing;
    end if;
    update budget_leases
    set returned_nano_usd = granted_nano_usd - keep,
        closed_at = case when closes then coalesce(closed_at, now()) else closed_at end
    where lease_id = lease and granted_nano_usd >= keep;
end
$$;

-- Starts a period's spend again from zero and returns what it was. Events that were accepted before and are stored later belong
-- to what was: they come under leases of an old epoch.
create or replace function reset_budget(of_account uuid, of_agent text, from_time timestamptz, to_time timestamptz, by_user uuid)
    returns numeric
    language plpgsql as $$
declare
    spent numeric;
    new_epoch integer;
begin
    perform from budgets where account_id = of_account and agent = of_agent for update;
    if not found then
        return null;
    end if;
    spent := budget_spent(of_account, of_agent, from_time, to_time);
    update budgets set epoch = epoch + 1, updated_at = now()
    where account_id = of_account and agent = of_agent returning epoch into new_epoch;
    insert into budget_resets (account_id, agent, at, by_user, period_start, period_end, epoch, spent_nano_usd)
    values (of_account, of_agent, clock_timestamp(), by_user, from_time, to_time, new_epoch, spent);
    -- All that is stored counts no more, whatever was taken out of it before. No period but total holds what is older than a
    -- month, so that may be one row.
    delete from budget_forgiven where account_id = of_account and agent = of_agent and bucket >= from_time and bucket < to_time;
    insert into budget_forgiven (account_id, agent, bucket, cost_nano_usd)
    select of_account, of_agent, case when t.bucket < now() - interval '33 days' then from_time else t.bucket end, sum(t.cost)
    from (
        select s.bucket, s.cost_nano_usd as cost from spend s
        where s.account_id = of_account and s.agent = of_agent and s.bucket >= from_time and s.bucket < to_time
        union all
        select l.bucket, -l.stored_nano_usd from budget_leases l
        where l.account_id = of_account and l.agent = of_agent and l.bucket >= from_time and l.bucket < to_time
    ) t
    group by 3;
    return spent;
end
$$;

-- Removes leases that nothing is on its way of any more. What was stored under those that a reset has taken out stays out.
create or replace function drop_leases(leases uuid[]) returns integer
    language plpgsql as $$
declare
    dropped integer;
begin
    perform from budgets b
    where exists (select from budget_leases l where l.lease_id = any (leases) and l.account_id = b.account_id and l.agent = b.agent)
    order by account_id, agent for update;
    with gone as (
        delete from budget_leases where lease_id = any (leases)
        returning account_id, agent, bucket, epoch, stored_nano_usd
    ), forgiven as (
        insert into budget_forgiven as f (account_id, agent, bucket, cost_nano_usd)
        select account_id, agent, bucket, sum(stored_nano_usd) from gone
        where lease_forgiven(account_id, agent, bucket, epoch) and stored_nano_usd <> 0
        group by account_id, agent, bucket
        on conflict (account_id, agent, bucket) do update set cost_nano_usd = f.cost_nano_usd + excluded.cost_nano_usd
    )
    select count(*) into dropped from gone;
    return dropped;
end
$$;

alter table budget_forgiven enable row level security;
create policy tenant on budget_forgiven using (account_id = current_account() or current_user <> 'outlay_query');
