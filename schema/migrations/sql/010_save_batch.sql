-- A batch is stored by one statement, which has to undo all of itself when a partition does not stand where the batch starts,
-- or when another processor stored one of its keys a moment before. Raising is the only way to undo from inside a statement.

create function advance_offsets(of_topic text, partitions integer[], expected bigint[], next bigint[]) returns integer
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

create function require_count(new_keys bigint, wanted integer) returns boolean
    language plpgsql as $$
begin
    if new_keys <> wanted then
        raise exception '% of % idempotency keys are new', new_keys, wanted using errcode = 'OL002';
    end if;
    return true;
end
$$;

comment on function advance_offsets(text, integer[], bigint[], bigint[]) is 'Moves partitions from expected to next, or raises OL001 and moves none.';
comment on function require_count(bigint, integer) is 'True, or raises OL002.';
