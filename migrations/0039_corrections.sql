-- Edits of pages by people. They belong to the volume and not to a job: a line that somebody has corrected stands in every reading of its page
-- that has the line. Never changed and never deleted: what a page is now is folded from them.
create table corrections (
    edit_id text primary key,
    bdrc_w_id text not null,
    bdrc_i_id text not null,
    image_name text not null,
    -- Number of the edit on its page, from 1.
    revision int not null,
    job_key text not null,
    who text not null,
    at timestamptz not null default now(),
    replaces jsonb not null,
    lines jsonb not null,
    unique (bdrc_w_id, bdrc_i_id, image_name, revision)
);
create index corrections_by_time on corrections (at desc, edit_id);
