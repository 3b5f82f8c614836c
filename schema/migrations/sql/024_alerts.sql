-- Rules about what agents spend and do, whom they tell, and what came of them. The query tier keeps the rules; one processor at a
-- time checks them.

create table alert_rules (
    alert_id       uuid primary key,
    account_id     uuid not null references accounts (id),
    name           text not null check (name <> ''),
    metric         text not null check (metric in ('cost_usd', 'events', 'errors', 'error_rate', 'input_tokens', 'output_tokens',
                                                   'latency_p95_ms', 'unpriced_events', 'budget_used')),
    agent          text,
    model          text,
    provider       text,
    window_minutes integer not null check (window_minutes in (5, 15, 60, 1440)),
    condition      text not null check (condition in ('above', 'anomaly')),
    threshold      double precision check (threshold >= 0),
    sensitivity    double precision check (sensitivity > 0),
    cooldown       interval not null check (cooldown >= '0'),
    enabled        boolean not null,
    created_at     timestamptz not null,
    updated_at     timestamptz not null,
    created_by     uuid,
    constraint alert_rules_limit_check check (
        (condition = 'above') = (threshold is not null) and (condition = 'anomaly') = (sensitivity is not null))
);

create index alert_rules_account_idx on alert_rules (account_id);

comment on table alert_rules is 'What is watched. A change of a rule takes effect at its next check.';
comment on column alert_rules.agent is 'Null: all agents. Likewise model and provider.';
comment on column alert_rules.threshold is 'In the unit of the metric; money in 10^-9 US dollars.';
comment on column alert_rules.sensitivity is 'How many times the usual spread a value may be off.';
comment on column alert_rules.cooldown is 'How long after an incident ended the rule does not fire again for the same scope.';

create table alert_channels (
    channel_id uuid primary key,
    account_id uuid not null references accounts (id),
    alert_id   uuid references alert_rules (alert_id) on delete cascade,
    position   integer not null,
    type       text not null check (type in ('webhook', 'slack', 'email')),
    address    text not null check (address <> ''),
    created_at timestamptz not null
);

create index alert_channels_alert_idx on alert_channels (account_id, alert_id, position);

comment on table alert_channels is 'Whom a rule tells, or, where alert_id is null, whom the account tells of its caps and reports.';
comment on column alert_channels.address is 'As it may be shown: of a Slack address, which is a secret, the end is left out.';

create table alert_secrets (
    channel_id uuid primary key references alert_channels (channel_id) on delete cascade,
    account_id uuid not null,
    secret     text not null
);

comment on table alert_secrets is 'Signing secrets of webhooks and addresses of Slack. The query tier writes them and cannot read them.';

create table alert_status (
    alert_id   uuid primary key references alert_rules (alert_id) on delete cascade,
    account_id uuid not null,
    state      text not null check (state in ('ok', 'firing', 'no_data', 'learning')),
    value      double precision,
    checked_at timestamptz not null,
    data_at    timestamptz,
    fired_at   timestamptz
) with (fillfactor = 50);

comment on table alert_status is 'How each rule stood at its last check. A rule without a row was never checked.';
comment on column alert_status.value is 'The value at the last check, of the scope that is worst; null without data.';
comment on column alert_status.data_at is 'When the rule last found anything to look at; null: never.';
comment on column alert_status.fired_at is 'When the rule last fired; null: never.';

create table incidents (
    incident_id  uuid primary key,
    account_id   uuid not null references accounts (id),
    kind         text not null check (kind in ('alert', 'budget')),
    alert_id     uuid,
    name         text not null,
    metric       text not null,
    scope        text not null,
    started_at   timestamptz not null,
    ended_at     timestamptz check (ended_at >= started_at),
    value        double precision not null,
    peak         double precision not null,
    peak_at      timestamptz not null,
    summary      text not null,
    period_start timestamptz,
    epoch        integer,
    share        double precision,
    constraint incidents_cause_check check ((kind = 'alert') = (alert_id is not null) and (kind = 'budget') = (share is not null))
);

create unique index incidents_open_idx on incidents (alert_id, scope) where ended_at is null;
create unique index incidents_budget_idx on incidents (account_id, scope, period_start, epoch, share) where kind = 'budget';
create index incidents_account_idx on incidents (account_id, started_at desc, incident_id desc);
create index incidents_alert_idx on incidents (alert_id, scope, ended_at desc);

comment on table incidents is 'When the condition of a rule held, and when a cap''s spend passed a threshold. They outlive the rule.';
comment on column incidents.scope is 'The agent whose values were judged; empty where all agents, or the cap of the account, were judged as one.';
comment on column incidents.ended_at is 'Null while the condition holds. A passed threshold ends as it begins.';
comment on column incidents.value is 'The value that began it, in the unit of the metric; money in 10^-9 US dollars.';
comment on column incidents.peak is 'The value that was furthest off.';
comment on column incidents.summary is 'What was found and what is usual, in a sentence.';
comment on column incidents.share is 'The part of the cap that was passed; 1: the cap itself.';
comment on index incidents_open_idx is 'A rule fires once for a scope: the second of two processors that find the same finds the incident open.';
comment on index incidents_budget_idx is 'A threshold is told once in a period, and once more after a reset.';

create table alert_leader (
    only_row boolean primary key default true check (only_row),
    holder   uuid,
    until    timestamptz not null default '-infinity'
);

insert into alert_leader default values;

comment on table alert_leader is 'The processor that checks the rules, and until when nobody else does. Every change it makes holds this row, so that one which was paused can change nothing after another took over.';
{{ range list "alert_rules" "alert_channels" "alert_secrets" "alert_status" "incidents" }}
alter table {{ . }} enable row level security;
create policy tenant on {{ . }} using (account_id = current_account() or current_user <> 'outlay_query');
{{ end }}
