-- What the processor moves in the same transaction as its events, so that a crash, a retry or a second processor can neither
-- lose one nor store one twice.

create table kafka_offsets (
    topic          text not null,
    partition      integer not null check (partition >= 0),
    next_offset    bigint not null check (next_offset >= 0),
    complete_until timestamptz not null default '-infinity',
    updated_at     timestamptz not null default now(),
    primary key (topic, partition)
);

create table event_keys (
    account_id uuid not null,
    event_id   uuid not null,
    first_seen timestamptz not null default now(),
    primary key (account_id, event_id)
);

create index event_keys_first_seen_idx on event_keys (first_seen);

create table dead_letters (
    topic       text not null,
    partition   integer not null,
    "offset"    bigint not null,
    reason      text not null,
    sqlstate    text,
    account_id  uuid,
    received_at timestamptz,
    created_at  timestamptz not null default now(),
    primary key (topic, partition, "offset")
);

comment on table kafka_offsets is 'Where each partition stands. Moved by compare-and-set in the transaction that stores the events.';
comment on column kafka_offsets.next_offset is 'Offset of the first record that is not stored yet.';
comment on column kafka_offsets.complete_until is 'Every record received before this time is stored.';
comment on table event_keys is 'Events with an idempotency key seen lately; event_id is derived from account and key, so a client''s retry meets its first.';
comment on table dead_letters is 'Records that could not be stored, and why; the records themselves are in the dead-letter topic.';
comment on column dead_letters.sqlstate is 'Null when the record was refused before the database saw it.';
comment on column dead_letters.account_id is 'Null when the record could not be read.';
