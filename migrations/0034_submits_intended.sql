-- Submits of leases, each written before its first transmission: what has no row here was never sent. A service that knows no keys is
-- asked for the job of one that has, before the work is sent again.
create table service_submits (
    task_id bigint not null references tasks on delete cascade,
    stage text not null,
    attempt int not null,
    generation bigint not null,
    intended_at timestamptz not null,
    primary key (task_id, stage, attempt, generation)
);
