-- Pages that a stage of a volume had finished when its row of losses last ended by progress; 0 once the row has ended otherwise.
alter table tasks add column pages_done integer not null default 0;
