-- Tries in a row that ended because the storage was out of reach. They are not charged.
alter table tasks add column outages int not null default 0;
