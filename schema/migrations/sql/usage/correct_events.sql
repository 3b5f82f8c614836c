create or replace function correct_events(
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

    insert into late_buckets (bucket, noted_at)
    select date_bin('15 minutes', c.ts, epoch) as bucket, now() from unnest(corrected) as c
    where date_bin('15 minutes', c.ts, epoch) < now() - interval '1 hour'
    group by bucket order by bucket
    on conflict (bucket) do update set noted_at = excluded.noted_at;

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

    -- What is below the watermark by now is corrected by its note.
    insert into usage_live_parts (bucket, account_id, agent, model, provider, events, errors, unpriced_events,
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_nano_usd,
        latency_count, latency_sum_ms, latency_max_ms, latency_histogram, first_ts, last_ts)
    select date_bin('15 minutes', c.ts, epoch) as bucket, of_account, c.agent, c.model, c.provider, 0, 0, sum(c.unpriced),
        0, 0, 0, 0, 0, sum(c.change), 0, 0, null, 0, min(c.ts), max(c.ts)
    from unnest(corrected) as c
    where c.ts >= (select quarters from usage_watermarks)
    group by bucket, c.agent, c.model, c.provider
    having sum(c.change) <> 0 or sum(c.unpriced) <> 0;
end
$$;
