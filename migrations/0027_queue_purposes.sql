-- Looks at the queues of standing jobs, beside those of stages.
alter table queue_looks rename column stage to serves;
alter table queue_looks add column purpose text not null default 'stage';
alter table queue_looks alter column purpose drop default;
alter table queue_looks drop constraint queue_looks_pkey;
alter table queue_looks add primary key (purpose, serves);
