-- An account may want its single events gone sooner than the installation drops them. Chunks hold the events of all accounts, so
-- these rows are deleted one day after the other; sums stay. The row remains when the setting goes, so that what was deleted is known.

create table account_retention (
    account_id     uuid primary key references accounts (id),
    retention_days integer check (retention_days between 1 and 36500),
    deleted_before timestamptz not null default '-infinity',
    updated_at     timestamptz not null,
    updated_by     uuid
);

comment on table account_retention is 'How long accounts keep single events, where they do not keep them as long as the installation does.';
comment on column account_retention.retention_days is 'Null: as long as the installation. At least 46 days, and not longer than raw_retention.';
comment on column account_retention.deleted_before is 'Events of the account before this time may be gone.';
comment on column account_retention.updated_by is 'Who set retention_days; null for the command line.';

alter table account_retention enable row level security;
create policy tenant on account_retention using (account_id = (select current_account()) or (select current_user <> 'outlay_query'));
-- An event may arrive 30 days late and then wait a week in Kafka, and is to be found for a while after that.
create function check_retention() returns trigger
    language plpgsql as $$
begin
    if new.retention_days is not null and exists (
        select from schema_settings s
        where new.retention_days < 46 or make_interval(days => new.retention_days) > s.raw_retention
    ) then
        raise exception 'events must be kept for 46 days, and cannot be kept longer than the installation does'
            using errcode = 'OL004';
    end if;
    return new;
end
$$;

create trigger account_retention_checked before insert or update of retention_days on account_retention
    for each row execute function check_retention();

comment on function check_retention() is 'Refuses with OL004 a retention that is too short or cannot be kept.';
