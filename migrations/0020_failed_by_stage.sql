-- Tasks of a job that failed for good at one stage; those of all its stages have an index already.
create index tasks_terminal_by_stage on tasks (job_id, current_stage, id) where terminal;
