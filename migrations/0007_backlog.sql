-- A reconciler pass reads the first tasks that wait for a stage with room, and the leases; neither costs what else waits.
drop index tasks_open;
create index tasks_open on tasks (job_id, current_stage, status, id) where current_stage <> 'done' and not terminal;
create index tasks_leased on tasks (worker_id) where status = 'running';
