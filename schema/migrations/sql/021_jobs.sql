-- Work that takes longer than a request, such as a report: asked for in the query tier, done in the processor, and looked at
-- meanwhile. The table is the queue as well: runners claim rows that are due with SKIP LOCKED.

create table jobs (
    job_id      uuid primary key,
    account_id  uuid not null references accounts (id),
    kind        text not null check (kind ~ '^[a-z][a-z0-9_]{0,62}$'),
    args        jsonb not null default '{}',
    state       text not null default 'queued' check (state in ('queued', 'running', 'done', 'failed')),
    internal    boolean not null default false,
    run_at      timestamptz not null default now(),
    runner_id   text,
    attempt     integer not null default 0 check (attempt >= 0),
    failures    integer not null default 0 check (failures >= 0),
    max_tries   integer not null default 10 check (max_tries > 0),
    done        bigint not null default 0 check (done >= 0),
    total       bigint check (total >= 0),
    error       text,
    result      jsonb,
    created_by  uuid,
    created_at  timestamptz not null default now(),
    started_at  timestamptz,
    finished_at timestamptz,
    constraint jobs_finished_check check ((finished_at is not null) = (state in ('done', 'failed'))),
    constraint jobs_runner_check check ((runner_id is not null) = (state = 'running')),
    constraint jobs_failed_check check (state <> 'failed' or error is not null)
);

create index jobs_account_idx on jobs (account_id, job_id desc);
create index jobs_unfinished_idx on jobs (kind, run_at) where finished_at is null;
create index jobs_finished_idx on jobs (finished_at) where finished_at is not null;

comment on table jobs is 'Jobs that accounts asked for, and how far they are. Kept for a while after their end.';
comment on column jobs.args is 'What the job was told.';
comment on column jobs.internal is 'The processor gave it itself; the API does not show it.';
comment on column jobs.run_at is 'It is not begun before. A failed try moves it.';
comment on column jobs.runner_id is 'Who runs it, a row of job_runners unless that is dead; null while nobody does.';
comment on column jobs.failures is 'Counts the tries that failed or whose runner died, not those that a stop ended. At max_tries the job fails.';
comment on column jobs.attempt is 'Counts the tries. What a try writes names its number, so that one that was given up cannot write any more.';
comment on column jobs.done is 'How much of total is done, in units of the kind''s own.';
comment on column jobs.total is 'Null while it is not known.';
comment on column jobs.error is 'Why the last try did not succeed, for people.';
comment on column jobs.created_by is 'The user who asked for it; null for a schedule and for the command line.';

-- A runner that was killed has no heartbeat any more, and other runners put its jobs back. The heartbeat is that of the runner and
-- not of the job, whose row may be locked for long by what the job does.
create table job_runners (
    runner_id text primary key,
    seen_at   timestamptz not null default now()
);

comment on table job_runners is 'Processors that run jobs, with their last heartbeat.';

alter table jobs enable row level security;
create policy tenant on jobs using (account_id = current_account() or current_user <> 'outlay_query');
