-- A standing job goes on when its tasks are over, as more may come, until it is closed.
alter table jobs
    add column standing boolean not null default false,
    add constraint only_open_jobs_stand check (not standing or status in ('created', 'running', 'paused'));

-- Messages that asked for volumes of a job, so that one which comes again is known. An open one still waits for the answer to whether
-- another version of its volume is to be read.
create table inbox (
    job_id bigint not null references jobs on delete cascade,
    message_id text not null,
    task_id bigint not null references tasks on delete cascade,
    open boolean not null,
    taken_at timestamptz not null,
    primary key (job_id, message_id)
);
create index inbox_by_task on inbox (task_id);
create index inbox_open on inbox (job_id, task_id) where open;
create index inbox_settled on inbox (job_id, taken_at) where not open;
