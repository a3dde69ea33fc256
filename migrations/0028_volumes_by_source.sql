-- Volumes by the second part of their names: the id that a document has at its source, without that of the collection.
create index volumes_by_source on volumes (bdrc_i_id);
