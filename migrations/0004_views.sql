-- Read-only views for tools that know other vocabularies. Nothing in this code base reads them.

-- The tasks with failure_kind, and status_v1 in the words of the first design.
create view tasks_v1 as
select
    t.*,
    case when t.status = 'failed' then case when t.terminal then 'terminal' else 'retryable' end end as failure_kind,
    case
        when t.status <> 'failed' then t.status::text
        when t.terminal then 'terminal_failed'
        else 'retryable_failed'
    end as status_v1
from tasks t;

-- One row per task and stage of its pipeline, with the seven columns that the entity pipeline keeps for each stage. The
-- status follows from where the task stands, so that a rerun shows later stages as pending again; the rest is that of
-- the stage's latest lease.
create view task_stages as
select
    t.id as task_id,
    t.job_id as task_job_id,
    t.volume_id,
    s.stage,
    s.position,
    case
        when s.position < p.position or (s.position = p.position and t.status = 'done') then 'completed'
        when s.position > p.position then 'pending'
        when t.status = 'running' then 'started'
        when t.terminal then 'failed'
        else 'queued'
    end as status,
    t.id || '-' || s.stage || '-' || r.attempt
        || case when r.generation > 0 then '-g' || r.generation else '' end as job_id,
    r.metrics as result,
    r.error ->> 'message' as error,
    (
        select count(*)::int
        from stage_runs f
        where f.task_id = t.id and f.stage = s.stage and f.status = 'failed'
    ) as retry_count,
    r.started_at,
    case when r.status = 'done' then r.done_at end as completed_at
from tasks t
join jobs j on j.id = t.job_id
cross join lateral unnest(j.pipeline) with ordinality as s (stage, position)
cross join lateral (
    select case t.current_stage
        when 'pending' then 0
        when 'done' then cardinality(j.pipeline) + 1
        else array_position(j.pipeline, t.current_stage)
    end as position
) as p
left join lateral (
    select *
    from stage_runs l
    where l.task_id = t.id and l.stage = s.stage
    order by l.id desc
    limit 1
) as r on true;
