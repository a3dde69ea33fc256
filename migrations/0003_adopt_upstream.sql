-- Expand, step 2 of 2: copies the rows that 0001 has set aside. Ids are kept. Columns that not every release of the
-- Python pipeline had are read through jsonb, so that their absence is a null and not an error.
--
-- Old status            becomes
-- done                  (done, done)
-- terminal_failed       failed at its stage, terminal
-- retryable_failed      failed at its stage, terminal when its attempts are used up
-- failed                the same
-- running               not running: its worker speaks another protocol; the stage waits for a new lease
--
-- volume_results stays aside: its old key is not known, and reduce writes it anew.
do $$
declare
    upstream_pipeline constant text[] := array['line_detection', 'line_extraction', 'ocr', 'reduce'];
begin
    if to_regclass('parkhang_upstream.tasks') is null then
        return;
    end if;

    insert into volumes (id, bdrc_w_id, bdrc_i_id)
    select id, bdrc_w_id, bdrc_i_id from parkhang_upstream.volumes;

    insert into jobs (id, job_key, operation, pipeline, config, max_attempts, status, created_at, finished_at)
    select
        j.id,
        coalesce(row ->> 'job_key', 'J' || j.id),
        'ocr',
        upstream_pipeline,
        coalesce(nullif(row -> 'config', 'null'), '{}'),
        coalesce((select max(t.max_attempts) from parkhang_upstream.tasks t where t.job_id = j.id), 3),
        (case row ->> 'status'
            when 'pending' then 'created'
            when 'done' then 'completed'
            when 'canceled' then 'cancelled'
            else row ->> 'status'
        end)::job_status,
        coalesce((row ->> 'created_at')::timestamptz, now()),
        (row ->> 'finished_at')::timestamptz
    from parkhang_upstream.jobs j, lateral to_jsonb(j) as row;

    insert into tasks (
        id, job_id, volume_id, current_stage, status, attempts, max_attempts, allowance, terminal,
        last_error, started_at, done_at
    )
    select
        id, job_id, volume_id, new_stage, new_status, attempts, max_attempts, max_attempts, terminal,
        case
            when new_status <> 'failed' then null
            else jsonb_build_object(
                'stage', new_stage,
                'item_id', null,
                'category', 'unknown',
                'message', coalesce(last_error ->> 'message', last_error #>> '{}', 'failed before the upgrade'),
                'retryable', not terminal
            )
        end,
        started_at,
        case when new_stage = 'done' then coalesce(done_at, now()) end
    from (
        select
            t.id, t.job_id, t.volume_id, t.attempts, t.max_attempts, t.started_at, t.done_at,
            to_jsonb(t.last_error) as last_error,
            case
                when old_status = 'done' and old_stage in ('pending', 'reduce', 'done') then 'done'
                when old_status like '%failed' and old_stage = 'pending' then upstream_pipeline[1]
                else old_stage
            end as new_stage,
            (case
                when old_status in ('failed', 'retryable_failed', 'terminal_failed') then 'failed'
                when old_status = 'running' then 'pending'
                else old_status
            end)::task_status as new_status,
            old_status = 'terminal_failed'
                or (old_status like '%failed' and t.attempts >= t.max_attempts) as terminal
        from
            parkhang_upstream.tasks t,
            lateral (select t.status::text, coalesce(to_jsonb(t) ->> 'current_stage', 'pending'))
                as old (old_status, old_stage)
    ) as mapped;

    perform setval(pg_get_serial_sequence('jobs', 'id'), coalesce((select max(id) from jobs), 0) + 1, false);
    perform setval(pg_get_serial_sequence('volumes', 'id'), coalesce((select max(id) from volumes), 0) + 1, false);
    perform setval(pg_get_serial_sequence('tasks', 'id'), coalesce((select max(id) from tasks), 0) + 1, false);
end
$$;
