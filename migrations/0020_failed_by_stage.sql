-- Pages of the tasks of a job that failed for good, of all its stages or of one.
drop index tasks_terminal;
create index tasks_terminal on tasks (job_id, current_stage, id) where terminal;
