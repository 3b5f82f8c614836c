-- Reports are asked for or due by a schedule, drawn by a job, kept as files, and sent by e-mail. When a report was asked for is
-- what it says of itself as its time, so that drawing it again gives the same bytes.

create table report_schedules (
    schedule_id uuid primary key,
    account_id  uuid not null references accounts (id),
    title       text not null check (char_length(title) between 1 and 200),
    frequency   text not null check (frequency in ('weekly', 'monthly')),
    timezone    text not null,
    agents      text[] not null default '{}',
    group_by    text not null check (group_by in ('agent', 'model')),
    recipients  text[] not null check (cardinality(recipients) between 1 and 20),
    next_at     timestamptz not null,
    created_by  uuid,
    created_at  timestamptz not null default now()
);

create index report_schedules_account_idx on report_schedules (account_id, schedule_id desc);
create index report_schedules_next_idx on report_schedules (next_at);

create table reports (
    report_id      uuid primary key,
    account_id     uuid not null references accounts (id),
    job_id         uuid not null unique,
    schedule_id    uuid references report_schedules (schedule_id) on delete set null,
    title          text not null check (char_length(title) between 1 and 200),
    from_time      timestamptz not null,
    to_time        timestamptz not null,
    timezone       text not null,
    agents         text[] not null default '{}',
    group_by       text not null check (group_by in ('agent', 'model')),
    created_by     uuid,
    created_at     timestamptz not null default now(),
    ready_at       timestamptz,
    constraint reports_times_check check (from_time < to_time)
);

create index reports_account_idx on reports (account_id, report_id desc);
create index reports_created_idx on reports (created_at);

create table report_files (
    report_id  uuid not null references reports (report_id) on delete cascade,
    account_id uuid not null,
    format     text not null check (format in ('pdf', 'csv')),
    content    bytea not null,
    sha256     bytea not null check (octet_length(sha256) = 32),
    primary key (report_id, format)
);

create table report_deliveries (
    report_id  uuid not null references reports (report_id) on delete cascade,
    account_id uuid not null,
    address    text not null check (address <> ''),
    state      text not null default 'waiting' check (state in ('waiting', 'sent', 'failed')),
    tries      integer not null default 0 check (tries >= 0),
    error      text,
    sent_at    timestamptz,
    primary key (report_id, address),
    constraint report_deliveries_sent_check check ((sent_at is not null) = (state = 'sent'))
);

comment on table report_schedules is 'Reports that are made and sent by e-mail every week or month.';
comment on column report_schedules.timezone is 'IANA name. Weeks begin on its Monday, months on its first.';
comment on column report_schedules.next_at is 'When the next report is made. It moves in the transaction that asks for the report, so none is made twice.';
comment on table reports is 'Reports that were asked for. How far one is, its job says until ready_at is set.';
comment on column reports.job_id is 'The row of jobs that draws it; that row may be gone.';
comment on column reports.schedule_id is 'Null for one that a user asked for, and when the schedule is gone.';
comment on column reports.agents is 'Only these agents; empty: all.';
comment on column reports.created_at is 'Also the time that the document gives as its own.';
comment on table report_files is 'Reports as documents.';
comment on table report_deliveries is 'Whom a report is sent to, and what became of it.';
comment on column report_deliveries.error is 'Why the last try did not succeed, for people.';

{{ range list "report_schedules" "reports" "report_files" "report_deliveries" }}
alter table {{ . }} enable row level security;
create policy tenant on {{ . }} using (account_id = current_account() or current_user <> 'outlay_query');
{{ end }}
