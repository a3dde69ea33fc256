-- What an operator sets for a job lives in its configuration alone. Older jobs get the keys that were columns or did not
-- exist; SQL sees the two that others sort and insert by as generated columns.
update jobs
set config = jsonb_build_object('priority', 0, 'max_attempts', greatest(1, least(100, max_attempts))) || config;

alter table jobs drop column max_attempts;
alter table jobs
    add column max_attempts int not null generated always as ((config ->> 'max_attempts')::int) stored,
    add column priority int not null generated always as ((config ->> 'priority')::int) stored;

-- Jobs that a reconciler pass looks at. A cancelled one is among them until its last lease has been taken back.
drop index jobs_running;
create index jobs_unfinished on jobs (id) where finished_at is null;

-- The stages to come recompute what still stands: set by a rerun, until the last stage is done.
alter table tasks add column forced boolean not null default false;

alter type stage_run_status add value 'cancelled';

-- Limits and priorities wake the orchestrator too.
drop trigger jobs_changed on jobs;
create trigger jobs_changed after insert or update on jobs
    for each statement execute function notify_of_jobs();
