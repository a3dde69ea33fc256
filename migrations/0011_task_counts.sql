-- Tasks of the job. With it, those that are done are told by subtraction, and a count of a large job reads the index of its open
-- tasks alone.
alter table jobs add column tasks bigint not null default 0;
update jobs j set tasks = (select count(*) from tasks t where t.job_id = j.id);
