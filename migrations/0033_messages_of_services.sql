-- Messages of services about their jobs that an orchestrator has taken which does not lead. The leader carries them out and deletes them.
create table service_messages (
    id bigint generated always as identity primary key,
    task_id bigint not null references tasks on delete cascade,
    stage text not null,
    job text not null,
    content jsonb not null
);
-- A repetition is the same message.
create unique index service_messages_once on service_messages (task_id, stage, job, md5(content::text));

create function notify_of_service_messages() returns trigger language plpgsql as $$
begin
    perform pg_notify('parkhang_service_messages', '');
    return null;
end
$$;

create trigger service_messages_kept after insert on service_messages
    for each statement execute function notify_of_service_messages();
