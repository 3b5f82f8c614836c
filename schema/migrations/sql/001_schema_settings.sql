-- The schema remembers what kind of database it was made for and which horizons its jobs keep, because every later
-- migration and every job must decide as the first one did.

create table schema_settings (
    only_row           boolean primary key default true check (only_row),
    edition            text not null check (edition in ('community', 'apache', 'plain')),
    late_window        interval not null default '0' check (late_window >= '0'),
    refresh_window     interval not null default '0' check (refresh_window >= '0'),
    raw_retention      interval check (raw_retention > '0'),
    raw_dropped_before timestamptz not null default '-infinity',
    updated_at         timestamptz not null default now()
);

insert into schema_settings (edition) values ('{{ .Edition }}');

comment on table schema_settings is 'One row: what the schema was made for, and the horizons in force. Written by outlay migrate only.';
comment on column schema_settings.edition is 'community: TimescaleDB with continuous aggregates; apache: hypertables only; plain: no TimescaleDB.';
comment on column schema_settings.late_window is 'The oldest an accepted event may be. Always shorter than refresh_window.';
comment on column schema_settings.refresh_window is 'How far back aggregates are computed again from raw events. Always shorter than raw_retention.';
comment on column schema_settings.raw_retention is 'How long raw events are kept; null keeps them for ever.';
comment on column schema_settings.raw_dropped_before is 'Raw events before this time may be gone under an earlier retention: no refresh may start before it.';
