-- Intentions to publish a task in the queue of a stage, and what became of them. A row belongs to the lease that would come next, by
-- its stage, attempt and generation: one of an earlier lease is replaced. It is written before the message is sent and marked after,
-- so that a crash between the two sends the message again under the same deduplication id.
create table outbox (
    task_id bigint primary key references tasks on delete cascade,
    stage text not null,
    attempt int not null,
    generation bigint not null,
    -- Counts deliberate repetitions, each of which needs a deduplication id of its own.
    repetition int not null default 0,
    not_before timestamptz,
    published_at timestamptz
);
create index outbox_published on outbox (stage, published_at) where published_at is not null;
