-- Spending of jobs at services. Amounts are in billionths of the operator's currency.

-- Use that was made of a service under a lease so far. It only grows, so that writing it twice counts once.
create table expenses (
    task_id bigint not null references tasks on delete cascade,
    stage text not null,
    attempt int not null,
    generation bigint not null,
    service text not null,
    calls bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cost bigint not null,
    primary key (task_id, stage, attempt, generation, service)
);

-- Sums of each job: the one place by which budgets are kept. It counts what was spent on tasks that are gone, too.
create table spending (
    job_id bigint not null references jobs on delete cascade,
    service text not null,
    calls bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cost bigint not null,
    primary key (job_id, service)
);

create function count_expense() returns trigger language plpgsql security definer set search_path from current set enable_seqscan = off as $$
begin
    insert into spending as s (job_id, service, calls, input_tokens, output_tokens, cost)
    select t.job_id, new.service, new.calls - coalesce(old.calls, 0), new.input_tokens - coalesce(old.input_tokens, 0),
        new.output_tokens - coalesce(old.output_tokens, 0), new.cost - coalesce(old.cost, 0)
    from tasks t
    where t.id = new.task_id
    on conflict (job_id, service) do update
    set calls = s.calls + excluded.calls, input_tokens = s.input_tokens + excluded.input_tokens,
        output_tokens = s.output_tokens + excluded.output_tokens, cost = s.cost + excluded.cost;
    return null;
end
$$;

create trigger expenses_counted after insert or update on expenses for each row execute function count_expense();
