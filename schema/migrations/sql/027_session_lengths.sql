-- Sessions that overlap a range of time are found among those that began before its end, of which there are more with every day.
-- Sorted by length they need not be: of those shorter than a day, only who began in the range or the day before can overlap it.

create function session_length(started_at timestamptz, ended_at timestamptz) returns smallint
    language sql immutable parallel safe
    return width_bucket(extract(epoch from ended_at - started_at)::bigint, array[86400, 691200, 5529600, 44236800]::bigint[])::smallint;

-- A column and not an expression, so that a session that goes on changes no index until it passes into the next length.
alter table sessions add column length smallint not null generated always as (session_length(started_at, ended_at)) stored;

create index sessions_length_idx on sessions (account_id, length, started_at);

create function longest_session(of_length integer) returns interval
    language sql immutable parallel safe
    return case when of_length < 4 then interval '24 hours' * 8 ^ of_length else interval '300 years' end;

comment on function session_length(timestamptz, timestamptz) is '0: less than a day, 1: less than 8 days, 2: 64 days, 3: 512 days, 4: more.';
comment on function longest_session(integer) is 'What a session of this session_length lasts at most.';
comment on column sessions.length is 'session_length, to find who overlaps a range.';
