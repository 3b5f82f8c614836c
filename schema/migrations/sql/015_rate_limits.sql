-- What an account may send in a minute is handed out to the ingest replicas in chunks, so that the replicas together keep to the
-- plan and a request of a large one asks nobody.

create table rate_windows (
    window_start timestamptz not null,
    account_id   uuid not null,
    used         bigint not null check (used >= 0),
    primary key (window_start, account_id)
) with (fillfactor = 50);

comment on table rate_windows is 'Events of the present minute that were handed out to ingest replicas, by account. Past minutes are deleted.';
comment on column rate_windows.used is 'Events handed out, and those that replicas let through without asking and told afterwards.';

-- Hands out events of a window to a replica, for several accounts at once, and returns for each, in the order of the accounts,
-- what it was given and what is left. owed is what the replica has let through without asking. At least need is given, or
-- nothing: what does not fit is refused as a whole, and stays for others. Callers pass the accounts in one order, so that they do not wait
-- for each other in a circle.
create function take_rate(windows timestamptz[], accounts uuid[], limits bigint[], owed bigint[], needs bigint[], wants bigint[])
    returns table (granted bigint, remaining bigint)
    language plpgsql as $$
begin
    for i in 1 .. cardinality(accounts) loop
        insert into rate_windows as w (window_start, account_id, used) values (windows[i], accounts[i], owed[i])
        on conflict (window_start, account_id) do update set used = w.used + excluded.used
        returning limits[i] - w.used into remaining;
        granted := case when remaining < greatest(needs[i], 0) then 0 else least(wants[i], remaining) end;
        if granted > 0 then
            update rate_windows w set used = w.used + granted where w.window_start = windows[i] and w.account_id = accounts[i];
            remaining := remaining - granted;
        end if;
        return next;
    end loop;
end
$$;
