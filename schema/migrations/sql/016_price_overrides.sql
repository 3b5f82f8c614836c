-- What an account pays by contract comes before the published prices. Ingest holds all of it in memory and reads it anew within
-- a second of a change.

create table price_overrides (
    override_id             uuid primary key,
    account_id              uuid not null references accounts (id),
    match                   text not null check (match <> '' and char_length(match) <= 200),
    provider                text not null default '' check (char_length(provider) <= 200),
    from_time               timestamptz,
    input_pico_usd          bigint not null check (input_pico_usd between 0 and 1000000000000),
    output_pico_usd         bigint not null check (output_pico_usd between 0 and 1000000000000),
    cache_read_pico_usd     bigint check (cache_read_pico_usd between 0 and 1000000000000),
    cache_write_pico_usd    bigint check (cache_write_pico_usd between 0 and 1000000000000),
    cache_write_1h_pico_usd bigint check (cache_write_1h_pico_usd between 0 and 1000000000000),
    reasoning_pico_usd      bigint check (reasoning_pico_usd between 0 and 1000000000000),
    created_at              timestamptz not null default now(),
    created_by              uuid,
    constraint price_overrides_once unique nulls not distinct (account_id, match, provider, from_time)
);

comment on table price_overrides is 'Prices that accounts pay instead of the published ones.';
comment on column price_overrides.match is 'A model name as clients send it, or a pattern in which each * stands for any text.';
comment on column price_overrides.provider is 'Whose calls it is for; empty for any.';
comment on column price_overrides.from_time is 'The first instant of the price; null is since ever. It holds until a later one of the same match and provider.';
comment on column price_overrides.input_pico_usd is 'Price of a token in 10^-12 US dollars, which is 10^-6 dollars for a million tokens; likewise the others. Without a price of their own, cached kinds cost as input and reasoning as output.';
comment on column price_overrides.created_by is 'The user who made it; null for the command line.';

create trigger price_overrides_changed
    after insert or delete or truncate or update on price_overrides
    for each statement execute function notify_change();
