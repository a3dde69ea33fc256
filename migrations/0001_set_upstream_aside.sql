-- Expand, step 1 of 2. A database of the Python pipeline holds jobs, volumes, tasks and volume_results in an older form,
-- whose task_status knows 'retryable_failed' and 'terminal_failed'. Casting those to the new enum in place fails, and an
-- ALTER TABLE would leave no way back. So its tables and enums move as they are to the schema parkhang_upstream, 0002
-- makes the tables of this release, and 0003 copies the rows with an explicit map of the statuses.
--
-- Contract is left to the operator: once the new tables have been checked, DROP SCHEMA parkhang_upstream CASCADE.
-- On an empty database this does nothing.
do $$
declare
    relation text;
    enum text;
begin
    if to_regclass('tasks') is null then
        return;
    end if;
    create schema parkhang_upstream;
    foreach relation in array array['jobs', 'volumes', 'tasks', 'volume_results'] loop
        if to_regclass(relation) is not null then
            execute format('alter table %I set schema parkhang_upstream', relation);
        end if;
    end loop;
    foreach enum in array array['task_status', 'job_status'] loop
        if to_regtype(enum) is not null then
            execute format('alter type %I set schema parkhang_upstream', enum);
        end if;
    end loop;
end
$$;
