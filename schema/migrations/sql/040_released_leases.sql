-- A replica that is cut off from Kafka and from the database is taken for dead, and what its leases hold is given to others. Its
-- client of Kafka may still write what it has in flight when the network heals, however late. So a lease that is given up while it holds
-- something leaves its barrier: what is written under it from there on is refused, as if the cap had refused it.

create table released_leases (
    lease_id    uuid primary key,
    account_id  uuid not null,
    barrier     jsonb not null,
    released_at timestamptz not null default now()
);

create index released_leases_released_at_idx on released_leases (released_at);

comment on table released_leases is 'Leases that were given up while it was not known of all they held whether it is written. Kept for 30 days.';
comment on column released_leases.barrier is 'End offset of each partition of Kafka from which on nothing under the lease is stored.';
comment on column budget_leases.closed_at is 'Since when no event is accepted under it and none is in flight to Kafka.';

alter table released_leases enable row level security;
create policy tenant on released_leases using (account_id = (select current_account()) or (select current_user <> 'outlay_query'));

-- Removes leases that nothing counts of any more. What was stored under those that a reset has taken out stays out.
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
        returning lease_id, account_id, agent, bucket, epoch, stored_nano_usd, barrier,
            granted_nano_usd - returned_nano_usd - used_nano_usd as held
    ), released as (
        insert into released_leases (lease_id, account_id, barrier)
        select lease_id, account_id, barrier from gone where held > 0 and barrier is not null
        on conflict do nothing
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

-- What is refused late is neither stored nor lost.
drop index intake_difference_idx;
alter table intake drop column difference;
alter table intake
    add column refused_late bigint not null default 0,
    add column difference bigint not null generated always as (accepted - stored - duplicates - dead_letters - refused_late) stored;
create index intake_difference_idx on intake (hour) where difference <> 0;

comment on column intake.refused_late is 'Events written to Kafka after their lease of a cap had been given to others, and so refused by it.';
comment on column intake.difference is 'What became of nothing that is known: always 0, or something is wrong.';

create function require_leases(present bigint, wanted integer) returns boolean
    language plpgsql as $$
begin
    if present <> wanted then
        raise exception '% of % leases are there', present, wanted using errcode = 'OL002';
    end if;
    return true;
end
$$;

comment on function require_leases(bigint, integer) is 'True, or raises OL002.';
