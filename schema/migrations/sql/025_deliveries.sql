-- What is to be told to whom is written in the transaction that changes what it tells, and sent afterwards for as long as it takes:
-- nothing is told that did not happen, and nothing that happened is forgotten.

create table deliveries (
    delivery_id   uuid primary key,
    account_id    uuid not null references accounts (id),
    channel_id    uuid not null,
    channel_type  text not null check (channel_type in ('webhook', 'slack', 'email')),
    address       text not null,
    alert_id      uuid,
    incident_id   uuid,
    type          text not null,
    cause         text not null,
    title         text not null,
    summary       text not null,
    payload       json not null,
    state         text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
    tries         integer not null default 0 check (tries >= 0),
    created_at    timestamptz not null,
    next_try_at   timestamptz not null,
    give_up_at    timestamptz not null,
    claimed_until timestamptz,
    finished_at   timestamptz,
    constraint deliveries_once unique (channel_id, cause),
    constraint deliveries_finished_check check ((finished_at is null) = (state = 'pending'))
);

create index deliveries_due_idx on deliveries (next_try_at) where state = 'pending';
create index deliveries_alert_idx on deliveries (account_id, alert_id, created_at desc, delivery_id desc);
create index deliveries_incident_idx on deliveries (incident_id);
create index deliveries_finished_idx on deliveries (finished_at) where finished_at is not null;

comment on table deliveries is 'Messages to people and programs, sent and to be sent.';
comment on column deliveries.address is 'As it may be shown.';
comment on column deliveries.cause is 'What it is about, such as firing and the incident: a channel is told once of each.';
comment on column deliveries.payload is 'The message as a webhook gets it, to the letter: its signature is over this text.';
comment on column deliveries.tries is 'Tries since it was noted, or since it was last sent again by hand.';
comment on column deliveries.give_up_at is 'No try begins after this.';
comment on column deliveries.claimed_until is 'Until when a processor is trying; after it another one may.';

create table delivery_tries (
    delivery_id uuid not null references deliveries (delivery_id) on delete cascade,
    account_id  uuid not null,
    try         integer not null,
    at          timestamptz not null,
    took_ms     bigint not null check (took_ms >= 0),
    outcome     text not null,
    status      integer,
    primary key (delivery_id, try)
);

comment on table delivery_tries is 'Each try to send a message.';
comment on column delivery_tries.outcome is 'From a closed list: delivered, or why not.';
comment on column delivery_tries.status is 'What the receiver answered, where it answered with a number.';
{{ range list "deliveries" "delivery_tries" }}
alter table {{ . }} enable row level security;
create policy tenant on {{ . }} using (account_id = current_account() or current_user <> 'outlay_query');
{{ end }}
