-- Lists that operators page through go by these, in the order of ids.
create index tasks_by_job on tasks (job_id, id);
create index tasks_done on tasks (job_id, id) where current_stage = 'done';
drop index tasks_terminal;
create index tasks_terminal on tasks (job_id, id) where terminal;

-- What operators did, or tried to: written with each command that may change something, and never changed.
create table audit (
    id bigint generated always as identity primary key,
    at timestamptz not null,
    who text not null,
    via text not null,
    command text not null,
    arguments jsonb not null,
    refusal text
);
create index audit_by_time on audit (at desc, id desc);

-- How fast stages have been lately.
create index stage_runs_done on stage_runs (done_at) where status = 'done';
