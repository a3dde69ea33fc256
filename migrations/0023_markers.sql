-- The generation in which a task was finished whose end is marked in the storage, for layouts that have such markers. A rerun raises
-- the generation, so that the next end is marked anew.
alter table tasks add column marked bigint;
create index tasks_to_mark on tasks (job_id)
    where (current_stage = 'done' or terminal) and marked is distinct from generation;
