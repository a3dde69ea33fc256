-- Totals, so that a look at a job costs the same however many tasks it has. Triggers keep them, whoever writes: a statement adds
-- what it changed as rows of its own, which are to be added up. So no writer waits for another, and the sums are exact in every
-- transaction. About every hundredth statement folds the rows of busy jobs.

create table task_counts (
    job_id bigint not null,
    current_stage text not null,
    status task_status not null,
    terminal boolean not null,
    -- Of failed tasks; see error_cause.
    cause text,
    tasks bigint not null,
    -- When the latest of the failed tasks came here.
    latest timestamptz
);
create index task_counts_by_job on task_counts (job_id);

-- Runs that have ended. Durations in a bucket b are above 1.02^(b-1) seconds and not above 1.02^b.
create table run_counts (
    job_id bigint not null,
    stage text not null,
    status stage_run_status not null,
    duration_bucket smallint not null,
    runs bigint not null,
    microseconds bigint not null,
    -- That the runs made, failed ones included.
    pages bigint not null
);
create index run_counts_by_job on run_counts (job_id);

-- Tasks with pages that could not be read.
create table failed_page_counts (
    job_id bigint not null,
    tasks bigint not null,
    pages bigint not null
);
create index failed_page_counts_by_job on failed_page_counts (job_id);

-- What failures that differ in numbers and quoted names alone have in common; a star stands for those.
create function error_cause(error jsonb) returns text language sql immutable parallel safe as $$
    select coalesce(error ->> 'category', 'unknown') || ': ' || regexp_replace(
        regexp_replace(left(coalesce(error ->> 'message', ''), 500), '"[^"]*"|''[^'']*''', '*', 'g'), '[0-9]+', '*', 'g'
    )
$$;

-- Zero if the metrics have no such number.
create function metric(metrics jsonb, name text) returns bigint language sql immutable parallel safe as $$
    select case when jsonb_typeof(metrics -> name) = 'number' then (metrics -> name)::numeric::bigint else 0 end
$$;

create function duration_bucket(duration interval) returns smallint language sql immutable parallel safe as $$
    select ceil(ln(greatest(extract(epoch from duration), 0.000001)) / ln(1.02))::smallint
$$;

-- Folds the rows of jobs that have more than so many. One transaction does at a time, so that none waits for another, and none does
-- whose snapshot may be older than the rows.
create function is_free_to_fold(counts regclass) returns boolean language sql volatile as $$
    select current_setting('transaction_isolation') = 'read committed'
        and pg_try_advisory_xact_lock(counts::oid::int, 0)
$$;

create function fold_task_counts(above int) returns void language plpgsql set search_path from current as $$
begin
    if is_free_to_fold('task_counts') then
        with folded as (
            delete from task_counts
            where job_id in (select job_id from task_counts group by job_id having count(*) > above)
            returning *
        )
        insert into task_counts
        select job_id, current_stage, status, terminal, cause, sum(tasks), max(latest)
        from folded
        group by 1, 2, 3, 4, 5
        having sum(tasks) <> 0;
    end if;
end
$$;

create function fold_run_counts(above int) returns void language plpgsql set search_path from current as $$
begin
    if is_free_to_fold('run_counts') then
        with folded as (
            delete from run_counts
            where job_id in (select job_id from run_counts group by job_id having count(*) > above)
            returning *
        )
        insert into run_counts
        select job_id, stage, status, duration_bucket, sum(runs), sum(microseconds), sum(pages)
        from folded
        group by 1, 2, 3, 4
        having sum(runs) <> 0;
    end if;
end
$$;

create function fold_failed_page_counts(above int) returns void language plpgsql set search_path from current as $$
begin
    if is_free_to_fold('failed_page_counts') then
        with folded as (
            delete from failed_page_counts
            where job_id in (select job_id from failed_page_counts group by job_id having count(*) > above)
            returning *
        )
        insert into failed_page_counts
        select job_id, sum(tasks), sum(pages) from folded group by 1 having sum(tasks) <> 0 or sum(pages) <> 0;
    end if;
end
$$;

create function count_tasks() returns trigger language plpgsql security definer set search_path from current as $$
begin
    if tg_op = 'INSERT' then
        insert into task_counts
        select job_id, current_stage, status, terminal, case when status = 'failed' then error_cause(last_error) end,
            count(*), case when status = 'failed' then now() end
        from after
        group by 1, 2, 3, 4, 5;
    elsif tg_op = 'DELETE' then
        insert into task_counts
        select job_id, current_stage, status, terminal, case when status = 'failed' then error_cause(last_error) end,
            -count(*), null
        from before
        group by 1, 2, 3, 4, 5;
    elsif tg_op = 'UPDATE' then
        insert into task_counts
        select job_id, current_stage, status, terminal, case when status = 'failed' then error_cause(last_error) end,
            sum(change), case when status = 'failed' and sum(change) > 0 then now() end
        from (
            select job_id, current_stage, status, terminal, last_error, -1 as change from before
            union all
            select job_id, current_stage, status, terminal, last_error, 1 from after
        ) as moved
        group by 1, 2, 3, 4, 5
        having sum(change) <> 0;
    else
        truncate task_counts;
    end if;
    if random() < 0.01 then
        perform fold_task_counts(100);
    end if;
    return null;
end
$$;

-- The job of a run is looked up run by run: what the server planned while there were few tasks must not read them all once there
-- are many. A run that goes with its task stays counted for as long as the job is there.
create function count_runs() returns trigger language plpgsql security definer set search_path from current set enable_seqscan = off as $$
begin
    if tg_op in ('INSERT', 'UPDATE') then
        insert into run_counts
        select (select t.job_id from tasks t where t.id = r.task_id), stage, status, duration_bucket(done_at - started_at),
            count(*), sum(1000000 * extract(epoch from done_at - started_at)),
            sum(metric(metrics, 'read') + metric(metrics, 'failed'))
        from after r
        where done_at is not null
        group by 1, 2, 3, 4;
    end if;
    if tg_op in ('UPDATE', 'DELETE') then
        insert into run_counts
        select t.job_id, stage, r.status, duration_bucket(done_at - r.started_at),
            -count(*), -sum(1000000 * extract(epoch from done_at - r.started_at)),
            -sum(metric(metrics, 'read') + metric(metrics, 'failed'))
        from before r
        cross join lateral (select job_id from tasks where id = r.task_id offset 0) as t
        where done_at is not null
        group by 1, 2, 3, 4;
    end if;
    if tg_op = 'TRUNCATE' then
        truncate run_counts;
    end if;
    if random() < 0.01 then
        perform fold_run_counts(2000);
    end if;
    return null;
end
$$;

create function count_failed_pages() returns trigger language plpgsql security definer set search_path from current set enable_seqscan = off as $$
begin
    if tg_op in ('INSERT', 'UPDATE') then
        insert into failed_page_counts
        select (select t.job_id from tasks t where t.id = r.task_id), count(*), sum(nb_errors)
        from after r
        where nb_errors > 0
        group by 1;
    end if;
    if tg_op in ('UPDATE', 'DELETE') then
        insert into failed_page_counts
        select t.job_id, -count(*), -sum(nb_errors)
        from before r
        cross join lateral (select job_id from tasks where id = r.task_id offset 0) as t
        where nb_errors > 0
        group by 1;
    end if;
    if tg_op = 'TRUNCATE' then
        truncate failed_page_counts;
    end if;
    if random() < 0.01 then
        perform fold_failed_page_counts(100);
    end if;
    return null;
end
$$;

create trigger tasks_inserted after insert on tasks referencing new table as after
    for each statement execute function count_tasks();
create trigger tasks_updated after update on tasks referencing old table as before new table as after
    for each statement execute function count_tasks();
create trigger tasks_deleted after delete on tasks referencing old table as before
    for each statement execute function count_tasks();
create trigger tasks_truncated after truncate on tasks for each statement execute function count_tasks();

create trigger stage_runs_inserted after insert on stage_runs referencing new table as after
    for each statement execute function count_runs();
create trigger stage_runs_updated after update on stage_runs referencing old table as before new table as after
    for each statement execute function count_runs();
create trigger stage_runs_deleted after delete on stage_runs referencing old table as before
    for each statement execute function count_runs();
create trigger stage_runs_truncated after truncate on stage_runs for each statement execute function count_runs();

create trigger volume_results_inserted after insert on volume_results referencing new table as after
    for each statement execute function count_failed_pages();
create trigger volume_results_updated after update on volume_results referencing old table as before new table as after
    for each statement execute function count_failed_pages();
create trigger volume_results_deleted after delete on volume_results referencing old table as before
    for each statement execute function count_failed_pages();
create trigger volume_results_truncated after truncate on volume_results
    for each statement execute function count_failed_pages();

-- What is there already. The triggers above have locked the tables, so that nothing is written meanwhile.
insert into task_counts
select t.job_id, t.current_stage, t.status, t.terminal, case when t.status = 'failed' then error_cause(t.last_error) end,
    count(*), case when t.status = 'failed' then coalesce(max(t.started_at), now()) end
from tasks t
group by 1, 2, 3, 4, 5;

insert into run_counts
select t.job_id, r.stage, r.status, duration_bucket(r.done_at - r.started_at), count(*),
    sum(1000000 * extract(epoch from r.done_at - r.started_at)), sum(metric(r.metrics, 'read') + metric(r.metrics, 'failed'))
from stage_runs r join tasks t on t.id = r.task_id
where r.done_at is not null
group by 1, 2, 3, 4;

insert into failed_page_counts
select t.job_id, count(*), sum(r.nb_errors)
from volume_results r join tasks t on t.id = r.task_id
where r.nb_errors > 0
group by 1;

-- Samples of failed tasks of one cause.
create index tasks_failed on tasks (job_id, current_stage, error_cause(last_error), id) where status = 'failed';

-- Counted now; see 0011.
alter table jobs drop column tasks;
