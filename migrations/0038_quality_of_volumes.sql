-- Expand. How surprising the text of a volume is to the language model (reduce says it), and how many volumes of a job are read how well.

alter table volume_results add column perplexity real;

create index volume_results_perplexity on volume_results (job_id, perplexity desc) where perplexity is not null;
create index volume_results_confidence on volume_results (job_id, confidence_mean) where confidence_mean is not null;

-- Volumes of a job by the classes of the two: steps of 0.05, of which the last holds 1 as well, and half steps of the logarithm to the base 2. Kept
-- as the other totals are (0017).
create table quality_counts (
    job_id bigint not null,
    confidence_bucket smallint,
    perplexity_bucket smallint,
    volumes bigint not null
);
create index quality_counts_by_job on quality_counts (job_id);

-- Strict, as greatest and least pass over null.
create function confidence_bucket(confidence real) returns smallint language sql immutable strict parallel safe as $$
    select least(greatest(floor(confidence * 20), 0), 19)::smallint
$$;

create function perplexity_bucket(perplexity real) returns smallint language sql immutable strict parallel safe as $$
    select least(greatest(floor(2 * ln(greatest(perplexity, 1)) / ln(2.0)), 0), 31)::smallint
$$;

create function fold_quality_counts(above int) returns void language plpgsql set search_path from current as $$
begin
    if is_free_to_fold('quality_counts') then
        with folded as (
            delete from quality_counts
            where job_id in (select job_id from quality_counts group by job_id having count(*) > above)
            returning *
        )
        insert into quality_counts
        select job_id, confidence_bucket, perplexity_bucket, sum(volumes) from folded group by 1, 2, 3 having sum(volumes) <> 0;
    end if;
end
$$;

create function count_quality() returns trigger language plpgsql security definer set search_path from current as $$
begin
    if tg_op in ('INSERT', 'UPDATE') then
        insert into quality_counts
        select job_id, confidence_bucket(confidence_mean), perplexity_bucket(perplexity), count(*) from after group by 1, 2, 3;
    end if;
    if tg_op in ('UPDATE', 'DELETE') then
        insert into quality_counts
        select job_id, confidence_bucket(confidence_mean), perplexity_bucket(perplexity), -count(*) from before group by 1, 2, 3;
    end if;
    if tg_op = 'TRUNCATE' then
        truncate quality_counts;
    end if;
    if random() < 0.01 then
        perform fold_quality_counts(1000);
    end if;
    return null;
end
$$;

create trigger quality_inserted after insert on volume_results referencing new table as after
    for each statement execute function count_quality();
create trigger quality_updated after update on volume_results referencing old table as before new table as after
    for each statement execute function count_quality();
create trigger quality_deleted after delete on volume_results referencing old table as before
    for each statement execute function count_quality();
create trigger quality_truncated after truncate on volume_results for each statement execute function count_quality();

insert into quality_counts
select job_id, confidence_bucket(confidence_mean), null, count(*) from volume_results group by 1, 2;
