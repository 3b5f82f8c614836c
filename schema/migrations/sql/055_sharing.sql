-- A link shows a session to anybody who has it, so an account may say who makes them, or that nobody does. The query tier changes
-- this and the name of an account; the plan is the operator's.

alter table accounts add column sharing text not null default 'members' check (sharing in ('off', 'members', 'admins'));

comment on column accounts.sharing is 'Who may make share links of sessions: all members, admins and owners only, or nobody; off also stops those that exist.';

-- The query tier keeps users in memory for some seconds; it reads them again within a second of a change of what they may do.
create trigger users_changed
    after delete or truncate or update of role, disabled_at, email, password_hash on users
    for each statement execute function notify_change();

create trigger sign_ins_ended
    after update of revoked_at on refresh_tokens
    for each statement execute function notify_change();
