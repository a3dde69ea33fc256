-- Service, looks and messages of each job of a service, and counts of the submits and errors of each service.
alter table service_jobs
    add column service text,
    -- Looks of the poller, and the time of the last one.
    add column polls int not null default 0,
    add column polled_at timestamptz,
    -- First message of the service about it.
    add column told_at timestamptz;

-- Submits of the last minutes.
create index service_jobs_by_time on service_jobs (submitted_at);

alter table services
    add column submits bigint not null default 0,
    -- Errors by category.
    add column errors jsonb not null default '{}';
