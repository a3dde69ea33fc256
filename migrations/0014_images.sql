-- What the list of a volume's images said when it was last read, and since when it says so. Volumes that were never imported,
-- but are in jobs, have no list.
alter table volumes
    -- Of the list, as its store gives it. One that was uploaded in parts has their number behind a hyphen, which is not part
    -- of the version.
    add column etag text,
    add column version text generated always as (split_part(etag, '-', 1)) stored,
    add column nb_images int,
    add column imported_at timestamptz,
    add constraint imported_whole check (
        (etag is null) = (imported_at is null) and (etag is null) = (nb_images is null)
    );

-- Lists of volumes, and those of a collection, go by names in the order of their bytes.
create index volumes_by_name on volumes (bdrc_w_id collate "C", bdrc_i_id collate "C");
-- The jobs in which a volume is.
create index tasks_by_volume on tasks (volume_id);

create table images (
    volume_id bigint not null references volumes on delete cascade,
    -- Place in the list, from 0, junk left out.
    position int not null,
    file_name text not null,
    width int,
    height int,
    mode text,
    format text,
    compression text,
    size bigint,
    -- Why whoever made the list could not read the image.
    error text,
    primary key (volume_id, position)
);
