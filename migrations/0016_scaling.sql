-- What the autoscaler decided last for each kind of hardware: shown to operators, and with the time of the last change, from which
-- the leader that follows counts the cooldown.
create table scaling (
    hardware text primary key check (hardware in ('cpu', 'gpu')),
    decided_at timestamptz not null,
    desired bigint not null,
    cap bigint not null,
    reason text not null,
    running bigint not null,
    waiting bigint not null,
    in_work bigint not null,
    oldest timestamptz,
    changed_at timestamptz
);
