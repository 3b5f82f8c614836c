-- The schema remembers what kind of database it was made for and how long it keeps events.

create table schema_settings (
    only_row           boolean primary key default true check (only_row),
    edition            text not null check (edition in ('community', 'apache', 'plain')),
    raw_retention      interval check (raw_retention > '0'),
    raw_dropped_before timestamptz not null default '-infinity',
    updated_at         timestamptz not null default now()
);

insert into schema_settings (edition) values ('{{ .Edition }}');

comment on table schema_settings is 'One row: what the schema was made for, and how long events are kept. Written by outlay migrate only.';
comment on column schema_settings.edition is 'community: TimescaleDB with continuous aggregates; apache: hypertables only; plain: no TimescaleDB.';
comment on column schema_settings.raw_retention is 'How long raw events are kept; null keeps them for ever.';
comment on column schema_settings.raw_dropped_before is 'Events before this time may be gone under an earlier retention.';
