-- Wakes the orchestrator when a job appears, grows, or changes its status; it looks for itself what there is to do.
create function notify_of_jobs() returns trigger language plpgsql as $$
begin
    perform pg_notify('parkhang_jobs', '');
    return null;
end
$$;

create trigger jobs_changed after insert or update of status on jobs
    for each statement execute function notify_of_jobs();
create trigger tasks_added after insert on tasks
    for each statement execute function notify_of_jobs();
