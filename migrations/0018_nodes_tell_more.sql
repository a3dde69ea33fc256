-- What operators say of a node when they start it, and what the node says of itself besides.
alter table nodes
    add column tags text[] not null default '{}',
    -- Bytes of memory that its process has in use.
    add column resident bigint;

-- Names of the models that the pool has loaded, a JSON list.
alter table workers add column models jsonb not null default '[]';
