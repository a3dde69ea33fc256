-- The actors of the nodes that are there, as each told of them last, for those who watch.
create table node_actors (
    node text primary key references nodes on delete cascade,
    told_at timestamptz not null,
    actors jsonb not null
);

-- What operators want nodes to do. Whoever leads, or the node where it reads this itself, carries an order out that is not done and
-- has not expired, and writes the outcome; the first outcome stands.
create table node_orders (
    id bigint generated always as identity primary key,
    node text not null,
    what jsonb not null,
    asked_by text not null,
    asked_at timestamptz not null,
    expires_at timestamptz not null,
    done_at timestamptz,
    outcome jsonb,
    constraint done_has_an_outcome check ((done_at is null) = (outcome is null))
);
create index node_orders_open on node_orders (id) where done_at is null;
create index node_orders_by_node on node_orders (node, id);

-- Wakes those who carry orders out, and those who wait for the outcome.
create function notify_of_orders() returns trigger language plpgsql as $$
begin
    perform pg_notify('parkhang_orders', '');
    return null;
end
$$;

create trigger node_orders_changed after insert or update on node_orders
    for each statement execute function notify_of_orders();
