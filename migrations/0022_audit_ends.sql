-- An entry is written before the command is carried out, and completed once it has ended: one without an end was cut off, or is
-- still under way.
alter table audit add column done_at timestamptz;
update audit set done_at = at;
