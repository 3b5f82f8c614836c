-- Alerts ask every few seconds what has happened in the last minutes. What that costs must not grow with the number of events, so
-- the sums they ask for are kept while storing, in the transaction of the events, and grow coarser as they grow older.
-- A busy minute's rows are all changed by every batch: with room for a second version of each, a page is never left.

create table arrivals (
    account_id        uuid not null,
    bucket            timestamptz not null,
    minutes           smallint not null check (minutes in (1, 15, 60)),
    agent             text not null,
    provider          text not null,
    model             text not null,
    events            bigint not null,
    errors            bigint not null,
    unpriced_events   bigint not null,
    input_tokens      numeric not null,
    output_tokens     numeric not null,
    cost_nano_usd     numeric not null,
    latency_histogram numeric not null,
    primary key (account_id, bucket, minutes, agent, provider, model)
) with (fillfactor = 40);

create index arrivals_width_idx on arrivals (minutes, bucket);

comment on table arrivals is 'Sums of the stored events by time of arrival. Each event is in exactly one row: of a minute at first, then of a quarter of an hour, then of an hour.';
comment on column arrivals.bucket is 'Start, in UTC, of the time of arrival (received_at).';
comment on column arrivals.minutes is 'How long the bucket is.';
comment on column arrivals.latency_histogram is 'Add with sum(), read with latency_percentile(). 0 without latencies.';

-- Moves the sums of buckets that start before a time into the next coarser ones and returns how many. A row that is just being
-- written stays for the next time; one that is written later is moved later: sums are added, so nothing is lost or counted twice.
create function fold_arrivals(from_minutes integer, to_minutes integer, before timestamptz) returns bigint
    language sql
    begin atomic
    with aged as (
        select account_id, bucket, agent, provider, model from arrivals
        where minutes = from_minutes and bucket < before
        order by account_id, bucket, agent, provider, model
        limit 100000
        for update skip locked
    ), moved as (
        delete from arrivals a using aged o
        where a.account_id = o.account_id and a.bucket = o.bucket and a.minutes = from_minutes
          and a.agent = o.agent and a.provider = o.provider and a.model = o.model
        returning a.*
    ), added as (
        insert into arrivals as t
        select account_id, date_bin(make_interval(mins => to_minutes), bucket, timestamptz '2000-01-01 00:00:00+00'), to_minutes,
            agent, provider, model, sum(events), sum(errors), sum(unpriced_events),
            sum(input_tokens), sum(output_tokens), sum(cost_nano_usd), sum(latency_histogram)
        from moved
        group by 1, 2, 4, 5, 6
        on conflict (account_id, bucket, minutes, agent, provider, model) do update set
            events = t.events + excluded.events, errors = t.errors + excluded.errors,
            unpriced_events = t.unpriced_events + excluded.unpriced_events,
            input_tokens = t.input_tokens + excluded.input_tokens, output_tokens = t.output_tokens + excluded.output_tokens,
            cost_nano_usd = t.cost_nano_usd + excluded.cost_nano_usd,
            latency_histogram = t.latency_histogram + excluded.latency_histogram
    )
    select count(*) from moved;
    end;

alter table arrivals enable row level security;
create policy tenant on arrivals using (account_id = current_account() or current_user <> 'outlay_query');
