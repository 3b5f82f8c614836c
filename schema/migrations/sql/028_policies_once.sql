-- The policies of migration 017 and later called current_account() for every row that a statement looked at, which made the list of
-- a month's sessions half as slow again. As subselects they are asked once for each statement.

do $$
declare
    policy record;
begin
    for policy in
        select p.polrelid::regclass as relation, case p.polrelid when 'accounts'::regclass then 'id' else 'account_id' end as owner
        from pg_policy p where p.polname = 'tenant'
    loop
        execute format('alter policy tenant on %s using (%I = (select current_account()) or (select current_user <> ''outlay_query''))',
            policy.relation, policy.owner);
    end loop;
end
$$;
