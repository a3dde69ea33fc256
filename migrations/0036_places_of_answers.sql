-- Place at which a service writes its answers itself, made of what it was asked: a job with the same place has the same work in hand.
alter table service_jobs add column place text;
