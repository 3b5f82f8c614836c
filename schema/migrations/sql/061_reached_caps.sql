-- The incident of a reached cap lasts until the cap is raised, reset or removed, or its period ends. So far it ended as it began,
-- like that of any other threshold. And thresholds are evaluated for each period that events were stored into, not only for the
-- present one: what arrived just before a period's end is often stored after it.

alter table incidents
    add column period_end timestamptz,
    add column limit_nano_usd bigint;

update incidents i set limit_nano_usd = coalesce(
    (select b.limit_nano_usd from budgets b where b.account_id = i.account_id and b.agent = i.scope), 0)
where kind = 'budget';

comment on table incidents is 'When the condition of a rule held, when a cap was reached, and when a cap''s spend passed a threshold. They outlive the rule and the cap.';
comment on column incidents.ended_at is 'Null while the condition holds, or the cap is reached. A threshold that is not the cap itself ends as it begins.';
comment on column incidents.period_end is 'When the period of the cap ends that period_start begins.';
comment on column incidents.limit_nano_usd is 'What the cap was when it was passed.';

drop index incidents_budget_idx;
create unique index incidents_budget_idx on incidents (account_id, scope, period_start, epoch, share, limit_nano_usd)
    where kind = 'budget' and share < 1;
create unique index incidents_reached_idx on incidents (account_id, scope) where kind = 'budget' and share = 1 and ended_at is null;

comment on index incidents_budget_idx is 'A threshold is notified once in a period, and once more after a reset or a change of the limit.';
comment on index incidents_reached_idx is 'A cap is reached once at a time.';

alter table alert_leader add column caps_checked_until timestamptz;

comment on column alert_leader.caps_checked_until is 'The time up to which everything that had arrived was stored when the thresholds of all caps were last checked; periods that end later are checked again. Null before the first check.';
