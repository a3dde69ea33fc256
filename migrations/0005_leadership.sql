-- One row: which orchestrator may write. Every leader raises the epoch, and what an earlier one still has under way is
-- refused in its own transaction.
create table leadership (
    only_row boolean primary key default true check (only_row),
    epoch bigint not null default 0,
    holder text,
    since timestamptz
);

insert into leadership default values;
