-- Budgets must know what was spent to the event, which no aggregate that is refreshed later can tell: this table moves in
-- the same transaction as its events.

create table spend (
    account_id    uuid not null,
    agent         text not null,
    bucket        timestamptz not null,
    cost_nano_usd bigint not null,
    events        bigint not null check (events >= 0),
    primary key (account_id, agent, bucket)
);

comment on table spend is 'Cost of the stored events by quarter hour of arrival, for each agent and, under the empty name, for the whole account. An event counts in the period in which it arrived.';
comment on column spend.bucket is 'Start of the quarter hour of received_at.';
comment on column spend.cost_nano_usd is 'Sum in 10^-9 US dollars.';
