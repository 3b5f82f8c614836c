-- What the list of sessions shows is kept up as events arrive: to group the events of a month for every page takes seconds. A
-- batch only adds a few rows to session_parts, in the statement that stores it; they are folded into sessions a moment later, off
-- the way of the events. Readers add up both, so what they see is exact at any time.

-- A batch stored by a processor of before would be missing here. Those at work are waited for; what they store later misses
-- advance_offsets, and is tried again until they are replaced.
lock table events in share row exclusive mode;
drop function advance_offsets(text, integer[], bigint[], bigint[]);

create function move_offsets(of_topic text, partitions integer[], expected bigint[], next bigint[]) returns integer
    language plpgsql as $$
declare
    moved integer;
begin
    update kafka_offsets o set next_offset = s.next, updated_at = now()
    from unnest(partitions, expected, next) as s (partition, expected, next)
    where o.topic = of_topic and o.partition = s.partition and o.next_offset = s.expected;
    get diagnostics moved = row_count;
    if moved <> cardinality(partitions) then
        raise exception 'fenced: % of % partitions stand where the batch starts', moved, cardinality(partitions)
            using errcode = 'OL001';
    end if;
    return moved;
end
$$;

comment on function move_offsets(text, integer[], bigint[], bigint[]) is 'Moves partitions from expected to next, or raises OL001 and moves none.';

create table sessions (
    account_id    uuid not null,
    session_id    text not null,
    agents        text[] not null,
    users         text[] not null,
    events        bigint not null,
    errors        bigint not null,
    input_tokens  numeric not null,
    output_tokens numeric not null,
    cost_nano_usd numeric not null,
    started_at    timestamptz not null,
    ended_at      timestamptz not null,
    primary key (account_id, session_id)
) with (fillfactor = 80);

create index sessions_started_idx on sessions (account_id, started_at desc, session_id collate "C" desc);

create table session_parts (like sessions)
    with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

comment on table sessions is 'Sums of each session that a client named, but for what still lies in session_parts. A session that was made for a single event is not here.';
comment on column sessions.agents is 'Agents with an event in the session by name, a hundred at most.';
comment on column sessions.users is 'Users with an event in the session by name, a hundred at most.';
comment on table session_parts is 'What batches, and later corrections, added to sessions and is not folded into them yet. Readers add it to them.';
comment on column session_parts.agents is 'Agents of the events, in no order; empty for a correction.';
comment on column session_parts.users is 'Users of the events, in no order.';

-- When the event was accepted that an implicit session is named after, if its id is made of time: the first ten digits are its
-- milliseconds.
create function implicit_time(of_session text) returns timestamptz
    language sql immutable parallel safe
    return to_timestamp((
        select sum((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(of_session, 4 + n, 1)) - 1) * 32::numeric ^ (10 - n)) / 1000
        from generate_series(1, 10) as n));

create function implicit_events(of_account uuid, of_session text, from_time timestamptz, to_time timestamptz) returns table (
    agents text[], users text[], events bigint, errors bigint, input_tokens numeric, output_tokens numeric, cost_nano_usd numeric,
    started_at timestamptz, ended_at timestamptz)
    language sql stable as $$
    select array_agg(e.agent), array_agg(e.user_id), count(*), count(*) filter (where e.status = 'error'),
        sum(e.input_tokens), sum(e.output_tokens), sum(e.cost_nano_usd), min(e.ts), max(e.ts)
    from events e
    where e.account_id = of_account and e.session_id = of_session and e.session_implicit and e.ts > from_time and e.ts < to_time
    having count(*) > 0
$$;

-- A client that named no session at first may go on with the one that it was answered. The event that began it is then found
-- here; events of one session are stored in the order of their acceptance, so it is there. It is looked for in the week around
-- the event that goes on with it and in the day around its own time, not further: where there is a columnstore, each older day
-- costs a millisecond, for every new session whose name only looks like one of ours.
create function implicit_start(of_account uuid, of_session text, near timestamptz) returns table (
    agents text[], users text[], events bigint, errors bigint, input_tokens numeric, output_tokens numeric, cost_nano_usd numeric,
    started_at timestamptz, ended_at timestamptz)
    language plpgsql stable
    set plan_cache_mode = force_generic_plan as $$
declare
    made timestamptz;
begin
    if of_session !~ '^ses_[0-7][0-9a-hjkmnp-tv-z]{25}$' then
        return;
    end if;
    return query select * from implicit_events(of_account, of_session, near - interval '7 days', near + interval '7 days');
    made := implicit_time(of_session);
    if not found and made not between near - interval '6 days' and near + interval '6 days' then
        return query select * from implicit_events(of_account, of_session, made - interval '1 day', made + interval '1 day');
    end if;
end
$$;

comment on function implicit_events(uuid, text, timestamptz, timestamptz) is 'What the event adds up to that a session was made for, if it lies between the times.';
comment on function implicit_time(text) is 'Anything for an id that is not made of time.';
comment on function implicit_start(uuid, text, timestamptz) is 'What a session was before a client named it: no row unless it was made for an event.';

-- Moves up to most parts into sessions and returns how many; 0 also while another call is at work.
create function fold_sessions(most integer) returns bigint
    language plpgsql as $$
declare
    taken bigint;
begin
    if not pg_try_advisory_xact_lock({{ .Locks.FoldSessions }}) then
        return 0;
    end if;
    with part as (
        delete from session_parts where ctid = any (array(select ctid from session_parts limit most)) returning *
    ), begun as (
        select p.account_id, p.session_id, i.*
        from (select account_id, session_id, min(started_at) as started_at from part group by account_id, session_id) p
        cross join lateral implicit_start(p.account_id, p.session_id, p.started_at) i
        where not exists (select from sessions s where s.account_id = p.account_id and s.session_id = p.session_id)
    ), every as (
        select * from part union all select * from begun
    ), sums as (
        select account_id, session_id, sum(events)::bigint as events, sum(errors)::bigint as errors, sum(input_tokens) as input_tokens,
            sum(output_tokens) as output_tokens, sum(cost_nano_usd) as cost_nano_usd, min(started_at) as started_at, max(ended_at) as ended_at
        from every group by account_id, session_id
    ), names as (
        select account_id, session_id,
            (array_agg(distinct agent order by agent) filter (where agent is not null))[1:100] as agents,
            (array_agg(distinct user_id order by user_id) filter (where user_id is not null))[1:100] as users
        from every, unnest(agents, users) as n (agent, user_id) group by account_id, session_id
    ), folded as (
        insert into sessions as s (account_id, session_id, agents, users, events, errors, input_tokens, output_tokens, cost_nano_usd,
            started_at, ended_at)
        select account_id, session_id, coalesce(agents, '{}'), coalesce(users, '{}'), events, errors, input_tokens, output_tokens,
            cost_nano_usd, started_at, ended_at
        from sums left join names using (account_id, session_id)
        on conflict (account_id, session_id) do update set
            agents = case when s.agents @> excluded.agents then s.agents else merge_names(s.agents, excluded.agents) end,
            users = case when s.users @> excluded.users then s.users else merge_names(s.users, excluded.users) end,
            events = s.events + excluded.events, errors = s.errors + excluded.errors,
            input_tokens = s.input_tokens + excluded.input_tokens, output_tokens = s.output_tokens + excluded.output_tokens,
            cost_nano_usd = s.cost_nano_usd + excluded.cost_nano_usd,
            started_at = least(s.started_at, excluded.started_at), ended_at = greatest(s.ended_at, excluded.ended_at)
    )
    select count(*) into taken from part;
    return taken;
end
$$;

create function merge_names(some_names text[], more_names text[]) returns text[]
    language sql immutable parallel safe
    return array(select name from unnest(some_names || more_names) as n (name) group by name order by name limit 100);

comment on function fold_sessions(integer) is 'Moves parts into sessions; called every second or so by any number of processors.';
comment on function merge_names(text[], text[]) is 'The names of both, each once, a hundred at most.';

{{ range list "sessions" "session_parts" }}
alter table {{ . }} enable row level security;
create policy tenant on {{ . }} using (account_id = current_account() or current_user <> 'outlay_query');
{{ end }}
-- What is stored already. Sessions that a client named later than they began are put together as they are folded.
insert into session_parts
select account_id, session_id, array_agg(distinct agent), coalesce(array_agg(distinct user_id) filter (where user_id is not null), '{}'),
    count(*), count(*) filter (where status = 'error'), sum(input_tokens), sum(output_tokens), sum(cost_nano_usd), min(ts), max(ts)
from events where not session_implicit
group by account_id, session_id;

select fold_sessions(2147483647);
