-- Services that the node asks while its stages wait, as it found them last: a JSON list.
alter table nodes add column engines jsonb not null default '[]';
