-- Who takes part in the cluster, for those who watch: written by the orchestrators from what nodes tell them, read by nobody to
-- decide anything. One row per process start.
create table nodes (
    name text primary key,
    roles text[] not null,
    host text,
    build text not null,
    protocol int not null,
    -- Where the node answers over HTTP.
    health text,
    started_at timestamptz,
    last_seen timestamptz not null,
    state text not null check (state in ('joined', 'draining', 'left', 'lost'))
);

-- Pools of the nodes that are there.
create table workers (
    worker_id text primary key,
    node text not null references nodes on delete cascade,
    stage text not null,
    slots int not null,
    in_use int not null,
    -- Counts the pools that this one replaced.
    generation bigint not null,
    last_heartbeat timestamptz,
    -- Pages of the tasks in work, and how many of them are dealt with.
    pages bigint,
    pages_finished bigint
);

create index workers_by_node on workers (node);
