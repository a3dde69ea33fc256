//! Inputs of a job's forecast.

use std::collections::BTreeMap;

use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use crate::postgres::PostgresStore;
use crate::postgres::rows::{stage_name, word};
use crate::{Paces, StateError};
use parkhang_core::domain::{JobId, Position, StageName, TaskId, TaskStatus};
use parkhang_core::policy::forecast::{Cohort, MadeWith, Pace};

/// Number of runs that a pace is taken of, the latest ones.
const RECENT: i64 = 20_000;

impl PostgresStore {
    /// Counts the tasks of a job, or the given ones of them, by everything that a forecast tells them apart by, in no order.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn cohorts(&self, job: JobId, tasks: Option<&[TaskId]>) -> Result<Vec<Cohort>, StateError> {
        let tasks: Option<Vec<i64>> = tasks.map(|tasks| tasks.iter().map(|task| task.0).collect());
        let rows = sqlx::query(
            "with last as (
                 select distinct on (r.task_id, r.stage) r.task_id, r.stage,
                     jsonb_build_object('names', coalesce(r.metrics -> 'models', '[]')) || (r.metrics -> 'made_with') as made_with,
                     (r.metrics ->> 'pages')::bigint as pages
                 from stage_runs r join tasks t on t.id = r.task_id
                 where t.job_id = $1 and r.status = 'done' and ($2::bigint[] is null or t.id = any($2))
                 order by r.task_id, r.stage, r.id desc
             ), made as (
                 select task_id, jsonb_object_agg(stage, made_with) as made, max(pages) as pages from last group by task_id
             )
             select t.current_stage, t.status::text as status, t.terminal, t.forced, coalesce(m.made, '{}') as made,
                 count(*) as volumes, count(m.pages) as counted, coalesce(sum(m.pages), 0)::bigint as pages
             from tasks t left join made m on m.task_id = t.id
             where t.job_id = $1 and ($2::bigint[] is null or t.id = any($2))
             group by t.current_stage, t.status, t.terminal, t.forced, m.made",
        )
        .bind(job.0)
        .bind(tasks)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(cohort).collect()
    }

    /// Returns the times that stages take: in this job if it has done them, else in the latest runs of all jobs.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn paces_of(&self, job: JobId) -> Result<Paces, StateError> {
        let mut paces = Paces::default();
        // All jobs first, so that the paces of this one replace them.
        for (of_this_job, job) in [(false, None), (true, Some(job.0))] {
            let rows = sqlx::query(
                "with run as (
                     select r.stage, extract(epoch from r.done_at - r.started_at)::float8 as seconds,
                         (r.metrics ->> 'pages')::bigint as pages,
                         coalesce((r.metrics ->> 'read')::bigint, 0) + coalesce((r.metrics ->> 'failed')::bigint, 0) as made
                     from stage_runs r
                     where r.status = 'done'
                         and ($1::bigint is null or exists (select from tasks t where t.id = r.task_id and t.job_id = $1))
                     order by r.done_at desc limit $2
                 )
                 select stage,
                     count(*) filter (where made > 0 or pages is null) as samples,
                     percentile_cont(0.5) within group (order by seconds / nullif(made, 0)) filter (where made > 0) as per_page,
                     percentile_cont(0.5) within group (order by seconds) filter (where pages is null) as per_volume,
                     percentile_cont(0.5) within group (order by pages) filter (where pages > 0) as pages
                 from run group by stage",
            )
            .bind(job)
            .bind(RECENT)
            .fetch_all(&self.pool)
            .await?;
            for row in &rows {
                let pace = Pace {
                    seconds_per_page: row.try_get("per_page")?,
                    seconds_per_volume: row.try_get("per_volume")?,
                    samples: u64::try_from(row.try_get::<i64, _>("samples")?).unwrap_or_default(),
                    of_this_job,
                };
                let pages: Option<f64> = row.try_get("pages")?;
                paces.pages_of_a_volume = pages.or(paces.pages_of_a_volume);
                if pace.samples > 0 {
                    paces.stages.insert(stage_name(row, "stage")?, pace);
                }
            }
        }
        Ok(paces)
    }
}

/// Cohort of a row.
fn cohort(row: &PgRow) -> Result<Cohort, StateError> {
    let position: &str = row.try_get("current_stage")?;
    let count = |column: &str| -> Result<u64, StateError> {
        Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or_default())
    };
    let made: Json<BTreeMap<StageName, serde_json::Value>> = row.try_get("made")?;
    let made = made
        .0
        .into_iter()
        .map(|(stage, with)| {
            // A record that another build wrote in its own way counts as none.
            let with: Option<MadeWith> = serde_json::from_value(with).ok();
            (stage, with)
        })
        .collect();
    Ok(Cohort {
        position: position
            .parse::<Position>()
            .map_err(|error| StateError::Corrupt(error.to_string()))?,
        status: word(row, &TaskStatus::ALL, TaskStatus::as_str)?,
        terminal: row.try_get("terminal")?,
        forced: row.try_get("forced")?,
        made,
        volumes: count("volumes")?,
        counted: count("counted")?,
        pages: count("pages")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sqlx::raw_sql;

    use super::*;
    use crate::postgres::PostgresStore;
    use crate::postgres::tests::{applied, change, lease, new_job, now, store};
    use crate::{Change, StateStore};
    use parkhang_core::domain::Job;
    use parkhang_core::policy::transition::Event;

    /// Runs the first stage of so many volumes of the job.
    async fn run(store: &PostgresStore, job: &Job, volumes: usize, metrics: serde_json::Value) {
        let tasks = store.tasks(job.id).await.unwrap();
        for task in tasks.iter().take(volumes) {
            let task = applied(store, lease(task, job)).await;
            let succeeded = Change {
                metrics: Some(metrics.clone()),
                ..change(&task, Event::Succeeded)
            };
            applied(store, succeeded).await;
        }
    }

    #[tokio::test]
    async fn tasks_that_stand_alike_are_counted_together() {
        let store = store().await;
        let job = store.create_job(&new_job(5), now()).await.unwrap();
        let with = json!({"settings": {"use_tps": true}, "models": ["sha256:aa"]});
        run(
            &store,
            &job,
            2,
            json!({"pages": 10, "models": ["reader"], "made_with": with}),
        )
        .await;
        let mut cohorts = store.cohorts(job.id, None).await.unwrap();
        cohorts.sort_by_key(|cohort| cohort.volumes);
        let [begun, fresh] = &cohorts[..] else {
            panic!("{cohorts:?}");
        };
        assert_eq!((fresh.volumes, fresh.counted, fresh.made.len()), (3, 0, 0));
        assert_eq!((begun.volumes, begun.counted, begun.pages), (2, 2, 20));
        let first = &job.pipeline.stages()[0];
        assert_eq!(begun.position, Position::At(first.clone()));
        let made = begun.made[first].as_ref().unwrap();
        assert_eq!(
            (made.models[0].as_str(), &made.settings["use_tps"]),
            ("sha256:aa", &json!(true))
        );
        assert_eq!(made.names, ["reader"]);
        let tasks = store.tasks(job.id).await.unwrap();
        let one = store.cohorts(job.id, Some(&[tasks[4].id])).await.unwrap();
        assert_eq!(one.iter().map(|cohort| cohort.volumes).collect::<Vec<_>>(), [1]);
    }

    #[tokio::test]
    async fn a_pace_is_the_jobs_own_where_it_has_one() {
        let store = store().await;
        let old = store.create_job(&new_job(3), now()).await.unwrap();
        run(&store, &old, 3, json!({"pages": 8, "read": 4})).await;
        raw_sql("update stage_runs set done_at = started_at + interval '8 seconds'")
            .execute(&store.pool)
            .await
            .unwrap();
        let job = store.create_job(&new_job(2), now()).await.unwrap();
        let first = job.pipeline.stages()[0].clone();
        let paces = store.paces_of(job.id).await.unwrap();
        let pace = paces.stages[&first];
        assert_eq!(
            (pace.seconds_per_page, pace.samples, pace.of_this_job),
            (Some(2.0), 3, false)
        );
        assert_eq!(paces.pages_of_a_volume, Some(8.0));

        run(&store, &job, 1, json!({"lines": 8})).await;
        raw_sql("update stage_runs set done_at = started_at + interval '5 seconds' where metrics ? 'lines'")
            .execute(&store.pool)
            .await
            .unwrap();
        let pace = store.paces_of(job.id).await.unwrap().stages[&first];
        assert_eq!(
            (pace.seconds_per_page, pace.seconds_per_volume),
            (None, Some(5.0))
        );
        assert_eq!((pace.samples, pace.of_this_job), (1, true));
    }
}
