-- A replica knew of a cap only what it had left when it last asked for a share. While it held some of one it let events through of a
-- cap that another replica had crossed since, and what other replicas held counted as spent in what it answered. Now a grant returns
-- what is spent and what is leased apart from each other; and a grant of more than is left, which makes the shares that others hold
-- worthless, is noted with the cap, of which every replica is notified.

alter table budgets add column overdrawn_at timestamptz;

comment on column budgets.overdrawn_at is 'When a replica was last granted more than was left while others held shares. They ask again before they let anything more through.';

drop function lease_budget(uuid, text, timestamptz, timestamptz, integer, uuid, uuid, bigint, bigint, timestamptz, text, text);

-- Grants a replica more of a cap, for events that arrive in the quarter hour of_bucket. need is what the event at hand lacks, want
-- what the replica would like. While anything is left, need is granted even if it crosses the cap, because the event that crosses
-- a cap is recorded; more than that is granted only from an eighth of what is left, so that shares shrink as the cap nears.
-- granted is null for a lease that may not be used any more: the cap was removed or reset, or has other periods than the replica
-- knows, or the lease was closed. leased includes the grant. used has, for each of shares, the cost of its events that are read, null
-- for a lease that does not exist or that a reset has taken out.
create function lease_budget(
    of_account uuid, of_agent text, from_time timestamptz, to_time timestamptz, of_epoch integer,
    lease uuid, replica uuid, need bigint, want bigint,
    of_bucket timestamptz default null, of_period text default null, of_timezone text default null, shares uuid[] default '{}',
    out granted bigint, out of_limit bigint, out spent numeric, out leased numeric, out used numeric[]
)
    language plpgsql as $$
declare
    b budgets;
    remaining numeric;
begin
    -- One grant at a time for each cap. The statements that follow see what the one before has committed.
    select * into b from budgets where account_id = of_account and agent = of_agent for update;
    if not found or b.epoch <> of_epoch or b.period <> of_period or b.timezone <> of_timezone
        or exists (select from budget_leases where lease_id = lease and (closed_at is not null or barrier is not null)) then
        return;
    end if;
    of_limit := b.limit_nano_usd;
    -- In one statement, because what the processor stores moves from leased to spent at any time.
    select budget_spent(of_account, of_agent, from_time, to_time), budget_leased(of_account, of_agent, from_time, to_time), leases_used(shares)
    into spent, leased, used;
    remaining := of_limit - spent - leased;
    granted := 0;
    if remaining <= 0 then
        return;
    end if;
    granted := greatest(need, least(want, floor(remaining / 8)));
    leased := leased + granted;
    insert into budget_leases (lease_id, account_id, agent, bucket, epoch, replica_id, granted_nano_usd)
    values (lease, of_account, of_agent,
        coalesce(of_bucket, greatest(from_time, date_bin('15 minutes', now(), timestamptz '2000-01-01 00:00:00+00'))),
        of_epoch, replica, granted)
    on conflict (lease_id) do update set granted_nano_usd = budget_leases.granted_nano_usd + excluded.granted_nano_usd;
    if granted > remaining and exists (
        select from budget_leases l
        where l.account_id = of_account and l.agent = of_agent and l.bucket >= from_time and l.bucket < to_time
            and l.replica_id <> replica and l.granted_nano_usd - l.returned_nano_usd - l.used_nano_usd > 0
    ) then
        update budgets set overdrawn_at = clock_timestamp() where account_id = of_account and agent = of_agent;
    end if;
end
$$;

create function leases_used(leases uuid[]) returns numeric[]
    language plpgsql stable as $$
begin
    return array(
        select l.used_nano_usd
        from unnest(leases) with ordinality as q (lease_id, n)
        left join budget_leases l on l.lease_id = q.lease_id and not lease_forgiven(l.account_id, l.agent, l.bucket, l.epoch)
        order by q.n
    );
end
$$;

comment on function leases_used(uuid[]) is 'Cost of the events under each lease that the processor has read, null for a lease that does not exist or that a reset has taken out.';
