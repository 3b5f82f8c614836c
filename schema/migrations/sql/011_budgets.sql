-- Caps hold for any number of ingest replicas because money is handed out before it is spent: a replica leases a share of what
-- is left, spends it without asking, and the processor moves it from leased to spent in the transaction that stores the event.

create table budgets (
    account_id         uuid not null references accounts (id),
    agent              text not null,
    limit_nano_usd     bigint not null check (limit_nano_usd >= 0),
    period             text not null check (period in ('day', 'week', 'month', 'total')),
    timezone           text not null,
    alert_at           double precision[] not null default '{}',
    on_unpriced        text not null default 'allow' check (on_unpriced in ('allow', 'deny')),
    epoch              integer not null default 0,
    reset_period_start timestamptz,
    reset_offset       numeric not null default 0,
    created_at         timestamptz not null default now(),
    updated_at         timestamptz not null default now(),
    primary key (account_id, agent)
);

comment on table budgets is 'Spending caps of agents, and of a whole account where agent is empty.';
comment on column budgets.limit_nano_usd is 'The cap in 10^-9 US dollars for each period.';
comment on column budgets.epoch is 'Counts resets. A lease of an earlier epoch no longer counts against the cap.';
comment on column budgets.reset_offset is 'What had been stored when the period reset_period_start was reset, without what had come under its leases.';

create table budget_resets (
    account_id     uuid not null,
    agent          text not null,
    at             timestamptz not null default now(),
    by_user        uuid,
    period_start   timestamptz not null,
    spent_nano_usd numeric not null,
    primary key (account_id, agent, at)
);

comment on table budget_resets is 'Who started a period''s spend again from zero, when, and what it was.';

create table ingest_replicas (
    replica_id uuid primary key,
    seen_at    timestamptz not null default now()
);

comment on table ingest_replicas is 'Running ingest processes. One that was not seen for long is dead, and its leases are taken back.';

create table budget_leases (
    lease_id          uuid primary key,
    account_id        uuid not null,
    agent             text not null,
    period_start      timestamptz not null,
    epoch             integer not null,
    replica_id        uuid not null,
    granted_nano_usd  bigint not null default 0,
    returned_nano_usd bigint not null default 0,
    used_nano_usd     bigint not null default 0,
    stored_nano_usd   bigint not null default 0,
    created_at        timestamptz not null default now(),
    closed_at         timestamptz,
    barrier           jsonb
);

create index budget_leases_budget_idx on budget_leases (account_id, agent, period_start);

comment on table budget_leases is 'Shares of caps held by ingest replicas. What is granted and neither returned nor used may be on its way through Kafka.';
comment on column budget_leases.used_nano_usd is 'Cost of the events under this lease that the processor has read, duplicates included.';
comment on column budget_leases.stored_nano_usd is 'The part of it that is in spend: what duplicates used is not.';
comment on column budget_leases.closed_at is 'Since when no event is accepted under it.';
comment on column budget_leases.barrier is 'End offset of each partition, taken once no event under it could still be written. When the processor has passed them, nothing of it is on its way.';

create table refused_events (
    account_id    uuid not null,
    agent         text not null,
    model         text not null,
    provider      text not null,
    bucket        timestamptz not null,
    events        bigint not null,
    input_tokens  numeric not null,
    output_tokens numeric not null,
    cost_nano_usd numeric not null,
    primary key (account_id, agent, bucket, model, provider)
);

comment on table refused_events is 'Events refused because a cap was reached, by quarter hour of arrival, with the cost they would have had.';

-- What was stored in a period, since its last reset.
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

-- What replicas hold or have put on its way in a period, since its last reset.
create function budget_leased(of_account uuid, of_agent text, from_time timestamptz) returns numeric
    language sql stable
    return (
        select coalesce(sum(greatest(l.granted_nano_usd - l.returned_nano_usd - l.used_nano_usd, 0)), 0)
        from budget_leases l join budgets b on b.account_id = l.account_id and b.agent = l.agent
        where l.account_id = of_account and l.agent = of_agent and l.period_start = from_time and l.epoch = b.epoch
    );

-- Grants a replica more of a cap. need is what the event at hand lacks, want what the replica would like. While anything is
-- left, need is granted even if it crosses the cap, because the event that crosses a cap is recorded; more than that is granted
-- only from an eighth of what is left, so that shares shrink as the cap nears. granted is null for a lease that may not be used
-- any more: the cap was removed or reset, or the lease was closed.
create function lease_budget(
    of_account uuid, of_agent text, from_time timestamptz, to_time timestamptz, of_epoch integer,
    lease uuid, replica uuid, need bigint, want bigint,
    out granted bigint, out remaining numeric
)
    language plpgsql as $$
declare
    b budgets;
begin
    -- One grant at a time for each cap. The statements that follow see what the one before has committed.
    select * into b from budgets where account_id = of_account and agent = of_agent for update;
    if not found or b.epoch <> of_epoch
        or exists (select from budget_leases where lease_id = lease and (closed_at is not null or barrier is not null)) then
        return;
    end if;
    remaining := b.limit_nano_usd - budget_spent(of_account, of_agent, from_time, to_time)
        - budget_leased(of_account, of_agent, from_time);
    granted := 0;
    if remaining <= 0 then
        return;
    end if;
    granted := greatest(need, least(want, floor(remaining / 8)));
    remaining := remaining - granted;
    insert into budget_leases (lease_id, account_id, agent, period_start, epoch, replica_id, granted_nano_usd)
    values (lease, of_account, of_agent, from_time, of_epoch, replica, granted)
    on conflict (lease_id) do update set granted_nano_usd = budget_leases.granted_nano_usd + excluded.granted_nano_usd;
end
$$;

-- Takes back what a replica does not keep of a lease, however often it is said. A closed lease is granted nothing any more: also
-- not by a request that was sent before and arrives later, for which reason a lease that does not exist is made, and closed.
create function settle_lease(
    of_account uuid, of_agent text, from_time timestamptz, of_epoch integer, lease uuid, replica uuid, keep bigint, closes boolean
) returns void
    language plpgsql as $$
begin
    perform from budgets where account_id = of_account and agent = of_agent for update;
    if closes then
        insert into budget_leases (lease_id, account_id, agent, period_start, epoch, replica_id)
        values (lease, of_account, of_agent, from_time, of_epoch, replica)
        on conflict do nothing;
    end if;
    update budget_leases
    set returned_nano_usd = granted_nano_usd - keep,
        closed_at = case when closes then coalesce(closed_at, now()) else closed_at end
    where lease_id = lease and granted_nano_usd >= keep;
end
$$;

-- Starts a period's spend again from zero and returns what it was. Events that were accepted before and are stored later belong
-- to what was: they come under leases of the old epoch.
create function reset_budget(of_account uuid, of_agent text, from_time timestamptz, to_time timestamptz, by_user uuid)
    returns numeric
    language plpgsql as $$
declare
    spent numeric;
begin
    perform from budgets where account_id = of_account and agent = of_agent for update;
    if not found then
        return null;
    end if;
    spent := budget_spent(of_account, of_agent, from_time, to_time);
    insert into budget_resets (account_id, agent, at, by_user, period_start, spent_nano_usd)
    values (of_account, of_agent, clock_timestamp(), by_user, from_time, spent);
    update budgets set
        epoch = epoch + 1,
        reset_period_start = from_time,
        reset_offset = (
            select coalesce(sum(s.cost_nano_usd), 0) from spend s
            where s.account_id = of_account and s.agent = of_agent and s.bucket >= from_time and s.bucket < to_time
        ) - (
            select coalesce(sum(l.stored_nano_usd), 0) from budget_leases l
            where l.account_id = of_account and l.agent = of_agent and l.period_start = from_time
        ),
        updated_at = now()
    where account_id = of_account and agent = of_agent;
    return spent;
end
$$;

-- Removes leases that nothing is on its way of any more.
create function drop_leases(leases uuid[]) returns integer
    language plpgsql as $$
declare
    dropped integer;
begin
    perform from budgets b
    where exists (select from budget_leases l where l.lease_id = any (leases) and l.account_id = b.account_id and l.agent = b.agent)
    order by account_id, agent for update;
    -- What was stored under a lease of an earlier epoch stays out of the spend since the reset.
    update budgets b set reset_offset = b.reset_offset + o.stored
    from (
        select l.account_id, l.agent, sum(l.stored_nano_usd) as stored
        from budget_leases l join budgets c on c.account_id = l.account_id and c.agent = l.agent
        where l.lease_id = any (leases) and l.epoch < c.epoch and l.period_start = c.reset_period_start
        group by l.account_id, l.agent
    ) o
    where b.account_id = o.account_id and b.agent = o.agent;
    delete from budget_leases where lease_id = any (leases);
    get diagnostics dropped = row_count;
    return dropped;
end
$$;

create trigger budgets_changed after insert or update or delete on budgets
    for each statement execute function notify_change();
