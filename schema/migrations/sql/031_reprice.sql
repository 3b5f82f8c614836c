-- Repricing is the one thing that changes events that are stored, by a job and only when somebody asks for it: their costs become
-- those of a price book that was pinned then. A job does it slice by slice. A slice is one statement, which corrects the events, all
-- that is summed from them, and where the job stands; so a job that is killed goes on from where the last slice ended, and each
-- event is corrected once.

create table price_books (
    sha256     bytea primary key,
    catalogue  bytea not null,
    first_used timestamptz not null default now(),
    constraint price_books_sha256_check check (sha256 = sha256(catalogue))
);

create table reprices (
    job_id          uuid primary key references jobs (job_id) on delete cascade,
    account_id      uuid not null references accounts (id),
    from_time       timestamptz not null,
    to_time         timestamptz not null,
    model           text,
    dry_run         boolean not null,
    received_before timestamptz not null,
    price_book      bytea not null references price_books (sha256),
    created_at      timestamptz not null,
    slice           bigint not null default 0,
    next_time       timestamptz not null,
    next_event      uuid not null default '00000000-0000-0000-0000-000000000000',
    next_partition  integer not null default -1,
    next_offset     bigint not null default -1,
    events          bigint not null default 0,
    too_large       bigint not null default 0,
    constraint reprices_times_check check (from_time < to_time)
);

create table reprice_overrides (
    like price_overrides,
    job_id uuid not null references reprices (job_id) on delete cascade,
    primary key (job_id, override_id)
);

create table reprice_differences (
    job_id          uuid not null references reprices (job_id) on delete cascade,
    account_id      uuid not null,
    day             date not null,
    provider        text not null,
    model           text not null,
    events          bigint not null,
    before_nano_usd numeric not null,
    after_nano_usd  numeric not null,
    unpriced_before bigint not null,
    unpriced_after  bigint not null,
    primary key (job_id, day, provider, model)
);

create table event_revisions (
    account_id    uuid not null,
    event_id      uuid not null,
    ts            timestamptz not null,
    job_id        uuid not null,
    revised_at    timestamptz not null default now(),
    cost_nano_usd bigint not null,
    cost_source   text not null,
    price_id      text
);

create index event_revisions_event_idx on event_revisions (account_id, event_id);
create index event_revisions_ts_idx on event_revisions using brin (ts);

comment on table price_books is 'Price catalogues that events were repriced with, each once.';
comment on table reprices is 'What events were asked to be repriced, with which prices, and where the job stands.';
comment on column reprices.model is 'Only events of this model; null: of any.';
comment on column reprices.received_before is 'Events that were received later have the prices of then, and are left alone.';
comment on column reprices.price_book is 'With reprice_overrides: the prices of when it was asked for.';
comment on column reprices.slice is 'Counts the slices that are done. A slice that was saved once cannot be saved again.';
comment on column reprices.next_time is 'With next_event, next_partition and next_offset: what was looked at last, in the order of time.';
comment on column reprices.events is 'How many events were looked at so far.';
comment on column reprices.too_large is 'Events that keep their cost because the new one would be more than an event may cost.';
comment on table reprice_overrides is 'An account''s own prices as they were when repricing was asked for.';
comment on table reprice_differences is 'What repricing changes, by day (UTC) of the events and by model.';
comment on column reprice_differences.events is 'Events whose cost, source of cost or price changes; the sums are theirs alone.';
comment on table event_revisions is 'What events cost before they were repriced. Nothing is unique here, as in events.';
comment on column event_revisions.ts is 'That of the event.';
comment on column event_revisions.revised_at is 'Until when it cost that.';

-- Moves a job on by a slice, or raises: OL011 when the try was given up, OL012 when the job does not stand before this slice.
create function move_reprice(
    of_job uuid, of_attempt integer, of_slice bigint,
    to_time timestamptz, to_event uuid, to_partition integer, to_offset bigint,
    events_seen bigint, events_too_large bigint,
    days date[], providers text[], models text[], counts bigint[], befores bigint[], afters bigint[],
    were_unpriced bigint[], are_unpriced bigint[]
) returns void
    language plpgsql as $$
declare
    moved reprices;
begin
    perform from jobs where job_id = of_job and attempt = of_attempt and state = 'running' for update;
    if not found then
        raise exception 'the try was given up' using errcode = 'OL011';
    end if;
    update reprices set
        slice = slice + 1, next_time = move_reprice.to_time, next_event = to_event, next_partition = to_partition, next_offset = to_offset,
        events = events + events_seen, too_large = too_large + events_too_large
    where job_id = of_job and slice = of_slice
    returning * into moved;
    if not found then
        raise exception 'slice % is not the next', of_slice using errcode = 'OL012';
    end if;
    insert into reprice_differences as d
        (job_id, account_id, day, provider, model, events, before_nano_usd, after_nano_usd, unpriced_before, unpriced_after)
    select of_job, moved.account_id, n.*
    from unnest(days, providers, models, counts, befores, afters, were_unpriced, are_unpriced) as n
    on conflict (job_id, day, provider, model) do update set
        events = d.events + excluded.events,
        before_nano_usd = d.before_nano_usd + excluded.before_nano_usd, after_nano_usd = d.after_nano_usd + excluded.after_nano_usd,
        unpriced_before = d.unpriced_before + excluded.unpriced_before, unpriced_after = d.unpriced_after + excluded.unpriced_after;
    update jobs set done = moved.events, total = greatest(total, moved.events) where job_id = of_job;
end
$$;

create type corrected_event as (
    ts timestamptz, received_at timestamptz, agent text, provider text, model text, session_id text, session_implicit boolean,
    change bigint, unpriced integer
);

comment on type corrected_event is 'An event that was repriced: by how much its cost changed, and by how much the number of unpriced events.';

-- Gives events another cost, keeps the former one, and corrects all that is summed from them. It raises OL012, and so does
-- nothing, unless every event is there and costs what the caller has read. some_implicit says that sessions were made for some of
-- them. Rows that processors write as well are locked as they lock them: arrivals, usage_15m, spend, each in the order of its key.
create function correct_events(
    of_job uuid, of_account uuid, times timestamptz[], ids uuid[], partitions integer[], offsets bigint[],
    former_costs bigint[], former_sources text[], former_prices text[],
    costs bigint[], sources text[], prices text[], breakdowns text[], some_implicit boolean
) returns void
    language plpgsql
    -- The times are constants of the plan, which so concerns only the chunks that hold them, and of those in the columnstore only the
    -- batches. Of these the events are taken out, however many they are.
    set plan_cache_mode = force_custom_plan
    {{- if eq .Edition "community" }}
    set timescaledb.max_tuples_decompressed_per_dml_transaction = 0
    {{- end }}
as $$
declare
    epoch constant timestamptz := '2000-01-01 00:00:00+00';
    first_time timestamptz;
    last_time timestamptz;
    corrected corrected_event[];
begin
    -- The event that a session was made for is in sessions only if the client went on with it, since when its session is folded.
    -- This lock comes before those of events, as wherever both are taken.
    if some_implicit then
        perform pg_advisory_xact_lock({{ .Locks.FoldSessions }});
    end if;

    select min(t), max(t) into first_time, last_time from unnest(times) as t;

    with wanted as (
        select * from unnest(times, ids, partitions, offsets, former_costs, former_sources, former_prices, costs, sources, prices, breakdowns)
            as w (ts, event_id, kafka_partition, kafka_offset, former_cost, former_source, former_price, cost, source, price, breakdown)
    ), changed as (
        update events e set cost_nano_usd = w.cost, cost_source = w.source, price_id = w.price, cost_breakdown = w.breakdown::json
        from wanted w
        where e.account_id = of_account and e.ts >= first_time and e.ts <= last_time
            and e.ts = w.ts and e.event_id = w.event_id and e.kafka_partition = w.kafka_partition and e.kafka_offset = w.kafka_offset
            and e.cost_nano_usd = w.former_cost and e.cost_source = w.former_source and e.price_id is not distinct from w.former_price
        returning e.event_id, e.ts, e.received_at, e.agent, e.provider, e.model, e.session_id, e.session_implicit,
            w.former_cost, w.former_source, w.former_price, w.cost, w.source
    ), revised as (
        insert into event_revisions (account_id, event_id, ts, job_id, cost_nano_usd, cost_source, price_id)
        select of_account, event_id, ts, of_job, former_cost, former_source, former_price from changed
    )
    select array_agg(row(ts, received_at, agent, provider, model, session_id, session_implicit, cost - former_cost,
        (source = 'unpriced')::integer - (former_source = 'unpriced')::integer)::corrected_event)
    into corrected from changed;
    if coalesce(cardinality(corrected), 0) <> cardinality(ids) then
        raise exception '% of % events are as they were read', coalesce(cardinality(corrected), 0), cardinality(ids) using errcode = 'OL012';
    end if;

    insert into session_parts (account_id, session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd,
        started_at, ended_at)
    select of_account, c.session_id, '{}', '{}', 0, 0, 0, 0, sum(c.change), min(c.ts), max(c.ts)
    from unnest(corrected) as c
    where c.change <> 0 and (not c.session_implicit
        or exists (select from sessions s where s.account_id = of_account and s.session_id = c.session_id))
    group by c.session_id;

    -- Into rows as coarse as those are by now that the events are in. Much later nobody asks for them any more.
    insert into arrivals as a (account_id, bucket, minutes, agent, provider, model, events, errors, unpriced_events,
        input_tokens, output_tokens, cost_nano_usd, latency_histogram)
    select of_account, date_bin(make_interval(mins => c.minutes), c.received_at, epoch) as bucket, c.minutes, c.agent, c.provider, c.model,
        0, 0, sum(c.unpriced), 0, 0, sum(c.change), 0
    from (
        select case when received_at < now() - interval '28 hours' then 60 when received_at < now() - interval '3 hours' then 15 else 1 end
            as minutes, *
        from unnest(corrected) where received_at > now() - interval '70 days'
    ) as c
    group by bucket, c.minutes, c.agent, c.provider, c.model
    having sum(c.change) <> 0 or sum(c.unpriced) <> 0
    order by bucket, c.agent collate "C", c.provider collate "C", c.model collate "C"
    on conflict (account_id, bucket, minutes, agent, provider, model) do update set
        unpriced_events = a.unpriced_events + excluded.unpriced_events, cost_nano_usd = a.cost_nano_usd + excluded.cost_nano_usd;

    insert into usage_15m as u (bucket, account_id, agent, model, provider, events, errors, unpriced_events,
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_nano_usd,
        latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts)
    select date_bin('15 minutes', c.ts, epoch) as bucket, of_account, c.agent, c.model, c.provider, 0, 0, sum(c.unpriced),
        0, 0, 0, 0, 0, sum(c.change), 0, 0, null, 0, min(c.ts), max(c.ts)
    from unnest(corrected) as c
    group by bucket, c.agent, c.model, c.provider
    having sum(c.change) <> 0 or sum(c.unpriced) <> 0
    order by bucket, c.agent collate "C", c.provider collate "C", c.model collate "C"
    on conflict (account_id, bucket, agent, model, provider) do update set
        unpriced_events = u.unpriced_events + excluded.unpriced_events, cost_nano_usd = u.cost_nano_usd + excluded.cost_nano_usd;

    -- No cap is reset meanwhile. What a reset has taken out stays out, whatever it costs now.
    perform from budgets b
    where b.account_id = of_account and (b.agent = '' or b.agent in (select c.agent from unnest(corrected) as c))
    order by b.account_id, b.agent for share;

    insert into spend as s (account_id, agent, bucket, cost_nano_usd, events)
    select of_account, n.agent, date_bin('15 minutes', c.received_at, epoch) as bucket, sum(c.change), 0
    from unnest(corrected) as c cross join lateral (values (c.agent), ('')) as n (agent)
    group by n.agent, bucket having sum(c.change) <> 0
    order by n.agent collate "C", bucket
    on conflict (account_id, agent, bucket) do update set cost_nano_usd = s.cost_nano_usd + excluded.cost_nano_usd;

    insert into budget_forgiven as f (account_id, agent, bucket, cost_nano_usd)
    select of_account, c.agent, c.bucket, sum(c.change)
    from (
        select n.agent, date_bin('15 minutes', c.received_at, epoch) as bucket, c.received_at, c.change
        from unnest(corrected) as c cross join lateral (values (c.agent), ('')) as n (agent)
    ) as c
    where exists (
        select from budget_resets r
        where r.account_id = of_account and r.agent = c.agent and r.at > c.received_at
            and r.period_start <= c.bucket and c.bucket < r.period_end)
    group by c.agent, c.bucket having sum(c.change) <> 0
    order by c.agent collate "C", c.bucket
    on conflict (account_id, agent, bucket) do update set cost_nano_usd = f.cost_nano_usd + excluded.cost_nano_usd;
end
$$;

comment on function move_reprice(uuid, integer, bigint, timestamptz, uuid, integer, bigint, bigint, bigint, date[], text[], text[], bigint[], bigint[], bigint[], bigint[], bigint[]) is 'Moves a job on by a slice and adds up what the slice changes; or raises OL011 or OL012.';
comment on function correct_events(uuid, uuid, timestamptz[], uuid[], integer[], bigint[], bigint[], text[], text[], bigint[], text[], text[], text[], boolean) is 'Gives events another cost and corrects all that is summed from them; or raises OL012.';

{{ range list "reprices" "reprice_overrides" "reprice_differences" "event_revisions" }}
alter table {{ . }} enable row level security;
create policy tenant on {{ . }} using (account_id = (select current_account()) or (select current_user <> 'outlay_query'));
{{ end }}
