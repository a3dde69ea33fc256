-- Volumes by the id that their document has at its source, without that of the collection and without the pages of a part.
create index volumes_by_source on volumes (split_part(bdrc_i_id, '@', 1));
