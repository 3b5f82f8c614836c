-- Work that takes longer than an answer may, such as a report: asked for in the query tier, done in the processor, and looked at
-- meanwhile. The queue itself is River's, in schema river. The query tier has no other way into it than a row of jobs, from
-- which the trigger makes an entry of the queue in the same transaction.

create table jobs (
    job_id      uuid primary key,
    account_id  uuid not null references accounts (id),
    kind        text not null check (kind ~ '^[a-z][a-z0-9_]{0,62}$'),
    args        jsonb not null default '{}',
    state       text not null default 'queued' check (state in ('queued', 'running', 'done', 'failed')),
    attempt     integer not null default 0 check (attempt >= 0),
    done        bigint not null default 0 check (done >= 0),
    total       bigint check (total >= 0),
    error       text,
    result      jsonb,
    created_by  uuid,
    created_at  timestamptz not null default now(),
    started_at  timestamptz,
    finished_at timestamptz,
    constraint jobs_finished_check check ((finished_at is not null) = (state in ('done', 'failed'))),
    constraint jobs_failed_check check (state <> 'failed' or error is not null)
);

create index jobs_account_idx on jobs (account_id, job_id desc);
create index jobs_finished_idx on jobs (finished_at) where finished_at is not null;

comment on table jobs is 'Jobs that accounts asked for, and how far they are. Kept for a while after their end.';
comment on column jobs.args is 'What the job was told.';
comment on column jobs.attempt is 'Counts the tries. What a try writes names its number, so that one that was given up cannot write any more.';
comment on column jobs.done is 'How much of total is done, in units of the kind''s own.';
comment on column jobs.total is 'Null while it is not known.';
comment on column jobs.error is 'Why the last try did not succeed, for people.';
comment on column jobs.created_by is 'The user who asked for it; null for a schedule and for the command line.';

-- The queue of a kind has the kind's name, so that kinds do not wait for each other.
create function enqueue_job() returns trigger
    language plpgsql security definer set search_path = '' as $$
begin
    insert into river.river_job (kind, queue, args, max_attempts)
    values (new.kind, new.kind, jsonb_build_object('job_id', new.job_id), 10);
    return null;
end
$$;

create trigger jobs_inserted after insert on jobs for each row execute function enqueue_job();

comment on function enqueue_job() is 'Makes an entry in the queue for a new row of jobs, with the rights of the owner.';

-- A processor that was killed says nothing any more, and what it was working on goes back into the queue.
create unlogged table job_runners (
    runner_id text primary key,
    seen_at   timestamptz not null default now()
);

comment on table job_runners is 'Processors that work on jobs, and when they last said so.';

alter table jobs enable row level security;
create policy tenant on jobs using (account_id = current_account() or current_user <> 'outlay_query');
