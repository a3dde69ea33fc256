-- What a node did: its name is what stands before the first slash in those of its workers.
create index stage_runs_by_node on stage_runs (split_part(worker_id, '/', 1), task_id);

-- The job of a volume's results, so that the slowest volumes of a job, and those with pages that could not be read, are found
-- without a look at the others. Whoever writes results need not know of it.
alter table volume_results add column job_id bigint;

create function name_job_of_results() returns trigger language plpgsql security definer set search_path from current as $$
begin
    new.job_id := (select job_id from tasks where id = new.task_id);
    return new;
end
$$;

update volume_results r set job_id = t.job_id from tasks t where t.id = r.task_id;
alter table volume_results alter column job_id set not null;

create trigger volume_results_of_job before insert on volume_results
    for each row execute function name_job_of_results();

create index volume_results_slowest on volume_results (job_id, processing_duration_ms desc);
drop index volume_results_errors;
create index volume_results_errors on volume_results (job_id, task_id) where nb_errors > 0;
