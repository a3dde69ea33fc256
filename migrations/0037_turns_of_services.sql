-- Time from which on turns of submits to a service with a rate are free. All processes take theirs here. A crash of the server forgets it,
-- which costs a second's turns at most, and so no turn waits for a disk.
create unlogged table service_turns (
    service text primary key,
    free_at timestamptz not null
);
