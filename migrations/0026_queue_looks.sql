-- What the leader saw last of the queue of each stage, and the alarms that stand: shown to operators, and the alarms are where the
-- next leader goes on.
create table queue_looks (
    stage text primary key,
    queue text not null,
    looked_at timestamptz not null,
    visible bigint not null,
    in_flight bigint not null,
    delayed bigint not null,
    dead_letters bigint,
    oldest timestamptz,
    alarms jsonb not null
);

-- Runs that failed lately, beside stage_runs_done: an alarm compares the two.
create index stage_runs_failed on stage_runs (done_at) where status = 'failed';
