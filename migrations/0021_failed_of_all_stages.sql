-- Tasks of a job that failed for good, of one stage and of all of them in order: an index for each.
alter index tasks_terminal rename to tasks_terminal_by_stage;
create index tasks_terminal on tasks (job_id, id) where terminal;
