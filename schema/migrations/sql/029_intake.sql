-- That everything accepted is stored is not to be believed but counted: each batch notes, for each account and hour of arrival,
-- how many records it took from Kafka and what became of them, in the transaction that moves the positions past them. What was
-- taken is counted by offsets, what was stored by the rows that the database says it inserted, so that neither follows from the
-- other.

-- A batch stored by a processor of before would be missing here. Those at work are waited for; what they store later misses
-- move_offsets, and is tried again until they are replaced.
lock table events in share row exclusive mode;
drop function move_offsets(text, integer[], bigint[], bigint[]);

create table intake (
    account_id   uuid not null,
    hour         timestamptz not null check (date_bin('1 hour', hour, timestamptz '2000-01-01 00:00:00+00') = hour),
    accepted     bigint not null,
    stored       bigint not null,
    duplicates   bigint not null,
    dead_letters bigint not null,
    difference   bigint not null generated always as (accepted - stored - duplicates - dead_letters) stored,
    first_ts     timestamptz,
    last_ts      timestamptz,
    primary key (account_id, hour)
) with (fillfactor = 50);

create index intake_difference_idx on intake (hour) where difference <> 0;

comment on table intake is 'What processors took from Kafka and what became of it, by hour of arrival (received_at). Erasure and retention of events change nothing here.';
comment on column intake.account_id is 'All zeros for records whose account cannot be read.';
comment on column intake.hour is 'Its start. A record that cannot be read counts in the hour in which Kafka took it.';
comment on column intake.accepted is 'Records by their offsets. Of hours before this was counted, what was stored.';
comment on column intake.stored is 'Rows that were inserted into events.';
comment on column intake.duplicates is 'Events whose idempotency key was stored already.';
comment on column intake.difference is 'What became of nothing that is known: always 0, or something is wrong.';
comment on column intake.first_ts is 'The least ts of the stored events, with last_ts where to look for them. Null where nothing was stored.';

create function move_positions(
    of_topic text, partitions integer[], expected bigint[], next bigint[], records numeric, events integer, summed numeric
) returns integer
    language plpgsql as $$
declare
    moved integer;
    passed bigint;
begin
    update kafka_offsets o set next_offset = s.next, updated_at = now()
    from unnest(partitions, expected, next) as s (partition, expected, next)
    where o.topic = of_topic and o.partition = s.partition and o.next_offset = s.expected;
    get diagnostics moved = row_count;
    if moved <> cardinality(partitions) then
        raise exception 'fenced: % of % partitions stand where the batch starts', moved, cardinality(partitions)
            using errcode = 'OL001';
    end if;
    select sum(s.next - s.expected) into passed from unnest(expected, next) as s (expected, next);
    if passed is distinct from records then
        raise exception 'the batch passes % offsets and accounts for % records', passed, records using errcode = 'OL003';
    end if;
    if summed is distinct from events then
        raise exception 'the batch has % events and sums of %', events, summed using errcode = 'OL003';
    end if;
    return moved;
end
$$;

comment on function move_positions(text, integer[], bigint[], bigint[], numeric, integer, numeric) is 'Moves partitions from expected to next, or raises OL001 and moves none. OL003: the records accounted for are not as many as the offsets, or the events that are summed not as many as those to be stored.';

alter table intake enable row level security;
create policy tenant on intake using (account_id = (select current_account()) or (select current_user <> 'outlay_query'));
-- What was stored before is known by hour of arrival, and where its events are is not: they are looked for as far back as any
-- event may be late.
insert into intake (account_id, hour, accepted, stored, duplicates, dead_letters, first_ts, last_ts)
select account_id, date_bin('1 hour', bucket, timestamptz '2000-01-01 00:00:00+00') as hour, sum(events), sum(events), 0, 0,
    date_bin('1 hour', bucket, timestamptz '2000-01-01 00:00:00+00') - interval '38 days',
    date_bin('1 hour', bucket, timestamptz '2000-01-01 00:00:00+00') + interval '2 hours'
from spend where agent = ''
group by 1, 2;
