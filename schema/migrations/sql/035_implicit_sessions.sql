-- A session that was made for an event with an idempotency key is named after an id that no time can be read from. When a client went
-- on with it more than a week later, the event that began it was not found, and was missing from sessions for good.

-- A name like those of events with a key: that of a UUID of version 8. Hardly anybody else makes any, so a look at all days of such
-- an account, a millisecond for each in the columnstore, is for sessions that were begun so.
create function is_keyed_session(of_session text) returns boolean
    language sql immutable parallel safe
    return of_session ~ '^ses_[0-7][0-9a-hjkmnp-tv-z]{9}[gh][0-9a-hjkmnp-tv-z]{2}[89abrstv][0-9a-hjkmnp-tv-z]{12}$';

create or replace function implicit_start(of_account uuid, of_session text, near timestamptz) returns table (
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
    if found then
        return;
    end if;
    if is_keyed_session(of_session) then
        return query select * from implicit_events(of_account, of_session, '-infinity', near - interval '6 days');
        return;
    end if;
    made := implicit_time(of_session);
    if made not between near - interval '6 days' and near + interval '6 days' then
        return query select * from implicit_events(of_account, of_session, made - interval '1 day', made + interval '1 day');
    end if;
end
$$;

comment on function is_keyed_session(text) is 'Whether a session is named like one that was made for an event with an idempotency key.';

-- Those that are folded without the event that began them get it now. It is one that is in the session if that began no later.
select pg_advisory_xact_lock({{ .Locks.FoldSessions }});

update sessions s set
    agents = merge_names(s.agents, b.agents), users = merge_names(s.users, array_remove(b.users, null)),
    events = s.events + b.events, errors = s.errors + b.errors, input_tokens = s.input_tokens + b.input_tokens,
    output_tokens = s.output_tokens + b.output_tokens, cost_nano_usd = s.cost_nano_usd + b.cost_nano_usd, started_at = b.started_at
from (
    select o.account_id, o.session_id, i.*
    from sessions o cross join lateral implicit_events(o.account_id, o.session_id, '-infinity', o.started_at) i
    where is_keyed_session(o.session_id)
) b
where s.account_id = b.account_id and s.session_id = b.session_id;
