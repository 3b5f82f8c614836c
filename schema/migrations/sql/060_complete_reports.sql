-- A report states whether its figures are complete, and a job what it waits for.

alter table reports
    add column complete boolean,
    add column complete_until timestamptz;

comment on column reports.complete is 'Whether everything that was accepted before the report was made is in its figures; null until it is ready.';
comment on column reports.complete_until is 'The time up to which everything that was accepted is in the figures; null until it is ready, and when that was not known.';

alter table jobs add column waiting_for text;

comment on column jobs.waiting_for is 'What the running try waits for, for people; null when it does not wait.';
