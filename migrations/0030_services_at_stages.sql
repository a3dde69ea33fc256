-- Stages that services do for tasks. A service holds an ordinary lease, under a name of its own.

-- Failed tries that the stage itself grants, in place of the limits of the job; null where those hold.
alter table tasks add column stage_tries int;

-- Leases of services, page by page. The condition stands word for word in the queries.
create index tasks_of_services on tasks (worker_id, id) where status = 'running' and worker_id like 'service:%';

-- Job that a service has taken for a lease: written once, after the service has answered.
create table service_jobs (
    task_id bigint not null references tasks on delete cascade,
    stage text not null,
    attempt int not null,
    generation bigint not null,
    job text not null,
    submitted_at timestamptz not null,
    primary key (task_id, stage, attempt, generation)
);

-- Health of each service, as the leader found it last.
create table services (
    name text primary key,
    failures int not null,
    paused_until timestamptz,
    error text,
    told_at timestamptz not null
);
