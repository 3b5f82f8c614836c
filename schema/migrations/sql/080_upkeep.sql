-- Old rows are deleted and folded in slices, whose size the caller gives, so that no statement grows with what is waiting.

drop function fold_arrivals(integer, integer, timestamptz);

create function fold_arrivals(from_minutes integer, to_minutes integer, before timestamptz, most integer) returns bigint
    language sql
    begin atomic
    with aged as (
        select account_id, bucket, agent, provider, model from arrivals
        where minutes = from_minutes and bucket < before
        order by bucket, account_id, agent, provider, model
        limit most
        for update skip locked
    ), moved as (
        delete from arrivals a using aged o
        where a.account_id = o.account_id and a.bucket = o.bucket and a.minutes = from_minutes
          and a.agent = o.agent and a.provider = o.provider and a.model = o.model
        returning a.*
    ), added as (
        insert into arrivals as t
        select account_id, date_bin(make_interval(mins => to_minutes), bucket, timestamptz '2000-01-01 00:00:00+00') as coarse, to_minutes,
            agent, provider, model, sum(events), sum(errors), sum(unpriced_events),
            sum(input_tokens), sum(output_tokens), sum(cost_nano_usd), sum(latency_histogram)
        from moved
        group by 1, 2, 4, 5, 6
        order by 1, 2, 4, 5, 6
        on conflict (account_id, bucket, minutes, agent, provider, model) do update set
            events = t.events + excluded.events, errors = t.errors + excluded.errors,
            unpriced_events = t.unpriced_events + excluded.unpriced_events,
            input_tokens = t.input_tokens + excluded.input_tokens, output_tokens = t.output_tokens + excluded.output_tokens,
            cost_nano_usd = t.cost_nano_usd + excluded.cost_nano_usd,
            latency_histogram = t.latency_histogram + excluded.latency_histogram
    )
    select count(*) from moved;
    end;

comment on function fold_arrivals(integer, integer, timestamptz, integer) is 'Moves the sums of at most so many buckets that start before a time into the next coarser ones and returns how many. A row that is being written stays for the next time; one that is written later is moved later.';

-- The start of the day (UTC) that holds a time.
create function day_of(t timestamptz) returns timestamptz
    language sql immutable parallel safe
    return date_bin('1 day', t, timestamptz '2000-01-01 00:00:00+00');

-- Only rows of quarter hours are looked for again and again, so they are indexed and those of days are not.
create index spend_fold_idx on spend (bucket) where bucket <> date_bin('1 day', bucket, timestamptz '2000-01-01 00:00:00+00');
create index refused_events_fold_idx on refused_events (bucket) where bucket <> date_bin('1 day', bucket, timestamptz '2000-01-01 00:00:00+00');

create function fold_spend(before timestamptz, most integer) returns bigint
    language sql
    begin atomic
    with aged as (
        select account_id, agent, bucket from spend
        where bucket < before and bucket <> date_bin('1 day', bucket, timestamptz '2000-01-01 00:00:00+00')
        order by bucket
        limit most
        for update skip locked
    ), moved as (
        delete from spend s using aged o
        where s.account_id = o.account_id and s.agent = o.agent and s.bucket = o.bucket
        returning s.*
    ), added as (
        insert into spend as t (account_id, agent, bucket, cost_nano_usd, events)
        select account_id, agent, day_of(bucket), sum(cost_nano_usd), sum(events) from moved
        group by 1, 2, 3
        order by 1, 2, 3
        on conflict (account_id, agent, bucket) do update set
            cost_nano_usd = t.cost_nano_usd + excluded.cost_nano_usd, events = t.events + excluded.events
    )
    select count(*) from moved;
    end;

comment on function fold_spend(timestamptz, integer) is 'Moves at most so many rows of quarter hours before a time into those of their days (UTC) and returns how many. Every sum over whole days stays as it is.';

create function fold_refused_events(before timestamptz, most integer) returns bigint
    language sql
    begin atomic
    with aged as (
        select account_id, agent, bucket, model, provider from refused_events
        where bucket < before and bucket <> date_bin('1 day', bucket, timestamptz '2000-01-01 00:00:00+00')
        order by bucket
        limit most
        for update skip locked
    ), moved as (
        delete from refused_events s using aged o
        where s.account_id = o.account_id and s.agent = o.agent and s.bucket = o.bucket and s.model = o.model and s.provider = o.provider
        returning s.*
    ), added as (
        insert into refused_events as t (account_id, agent, model, provider, bucket, events, input_tokens, output_tokens, cost_nano_usd)
        select account_id, agent, model, provider, day_of(bucket), sum(events), sum(input_tokens), sum(output_tokens), sum(cost_nano_usd)
        from moved
        group by 1, 2, 3, 4, 5
        order by 1, 2, 5, 3, 4
        on conflict (account_id, agent, bucket, model, provider) do update set
            events = t.events + excluded.events, input_tokens = t.input_tokens + excluded.input_tokens,
            output_tokens = t.output_tokens + excluded.output_tokens, cost_nano_usd = t.cost_nano_usd + excluded.cost_nano_usd
    )
    select count(*) from moved;
    end;

comment on function fold_refused_events(timestamptz, integer) is 'Moves at most so many rows of quarter hours before a time into those of their days (UTC) and returns how many.';
comment on column spend.bucket is 'Start of the quarter hour of received_at; of its day (UTC) for what is older than any period of a cap that ends.';
comment on column refused_events.bucket is 'Start of the quarter hour of arrival; of its day (UTC) after a hundred days.';

-- What is deleted by age is found by its age.
create index audit_log_at_idx on audit_log (at);
create index intake_hour_idx on intake (hour);
