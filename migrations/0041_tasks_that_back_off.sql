-- Tasks that back off, by the time at which they are due: a pass over the open tasks asks for the first of each place. Among those that wait
-- without one it would be looked for in vain, one by one.
create index tasks_backing_off on tasks (job_id, current_stage, status, not_before)
    where not_before is not null and current_stage <> 'done' and not terminal;
