//! How well the volumes of a job were read.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, Row};

use crate::postgres::PostgresStore;
use crate::postgres::rows::{VolumeResultsRow, volume_id};
use crate::{QualityClass, QualityIndex, StateError, VolumeQuality};
use parkhang_core::domain::JobId;

/// Columns of a volume's results, with the metrics of the run that named its worst pages.
macro_rules! worst {
    ($rest:literal) => {
        concat!(
            "select v.bdrc_w_id, v.bdrc_i_id, r.*, \
                 (select s.metrics -> 'worst_pages' from stage_runs s \
                     where s.task_id = r.task_id and s.status = 'done' and s.metrics ? 'worst_pages' \
                     order by s.id desc limit 1) as worst_pages \
             from volume_results r join tasks t on t.id = r.task_id join volumes v on v.id = t.volume_id ",
            $rest
        )
    };
}

/// Volumes with the most surprising text, by the index `volume_results_perplexity`.
pub(super) const BY_PERPLEXITY: &str =
    worst!("where r.job_id = $1 and r.perplexity is not null order by r.perplexity desc limit $2");

/// Volumes of which the recogniser is least sure, by the index `volume_results_confidence`.
pub(super) const BY_CONFIDENCE: &str =
    worst!("where r.job_id = $1 and r.confidence_mean is not null order by r.confidence_mean limit $2");

impl PostgresStore {
    /// Returns the volumes of a job that were read worst, going by an index, the worst first. Those without it are left out.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn worst_volumes(
        &self,
        job: JobId,
        by: QualityIndex,
        limit: u32,
    ) -> Result<Vec<VolumeQuality>, StateError> {
        let statement = match by {
            QualityIndex::Perplexity => BY_PERPLEXITY,
            QualityIndex::Confidence => BY_CONFIDENCE,
        };
        let rows = sqlx::query(statement)
            .bind(job.0)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(quality).collect()
    }

    /// Counts the finished volumes of a job by classes of both indexes.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn quality_classes(&self, job: JobId) -> Result<Vec<QualityClass>, StateError> {
        let rows = sqlx::query(
            "select confidence_bucket, perplexity_bucket, sum(volumes)::bigint as volumes
             from quality_counts where job_id = $1
             group by 1, 2 having sum(volumes) > 0 order by 1, 2",
        )
        .bind(job.0)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(class).collect()
    }
}

fn quality(row: &PgRow) -> Result<VolumeQuality, StateError> {
    let worst_pages: Option<serde_json::Value> = row.try_get("worst_pages")?;
    Ok(VolumeQuality {
        volume: volume_id(row)?,
        results: VolumeResultsRow::from_row(row)?.0,
        worst_pages: worst_pages.unwrap_or_default(),
    })
}

/// Class of the buckets that the migration `quality_of_volumes` defines.
fn class(row: &PgRow) -> Result<QualityClass, StateError> {
    let confidence: Option<i16> = row.try_get("confidence_bucket")?;
    let perplexity: Option<i16> = row.try_get("perplexity_bucket")?;
    let volumes: i64 = row.try_get("volumes")?;
    Ok(QualityClass {
        confidence: confidence.map(|bucket| f64::from(bucket) / 20.0),
        perplexity: perplexity.map(|bucket| (f64::from(bucket) / 2.0).exp2()),
        volumes: u64::try_from(volumes).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::postgres::tests::{applied, change, lease, new_job, now, store};
    use crate::{StateStore, VolumeQuery};
    use parkhang_core::domain::VolumeResults;
    use parkhang_core::policy::transition::Event;

    /// A job whose volumes are done with these confidences and perplexities, each with itself as its worst page.
    async fn read(store: &PostgresStore, indexes: &[(Option<f32>, Option<f32>)]) -> JobId {
        let job = store.create_job(&new_job(indexes.len()), now()).await.unwrap();
        let tasks = store.tasks(job.id).await.unwrap();
        for (number, (task, &(confidence_mean, perplexity))) in (1..).zip(tasks.iter().zip(indexes)) {
            let mut task = task.clone();
            for stage in job.pipeline.stages() {
                task = applied(store, lease(&task, &job)).await;
                let is_last = job.pipeline.stages().last() == Some(stage);
                let results = VolumeResults {
                    total_images: number,
                    confidence_mean,
                    perplexity,
                    ..VolumeResults::default()
                };
                let mut success = change(&task, Event::Succeeded);
                success.results = is_last.then_some(results);
                success.metrics = is_last.then(|| json!({ "worst_pages": [{ "page": number }] }));
                task = applied(store, success).await;
            }
        }
        job.id
    }

    /// Rows: 87.
    #[tokio::test]
    async fn volumes_are_ranked_and_counted_by_how_well_they_were_read() {
        let store = store().await;
        let indexes = [
            (Some(0.97), Some(6.0)),
            (Some(0.5), Some(40.0)),
            (None, Some(90.0)),
            (Some(0.96), Some(6.1)),
        ];
        let job = read(&store, &indexes).await;
        read(&store, &[(Some(0.1), Some(500.0))]).await;
        let worst = async |by, limit| -> Vec<i32> {
            let worst = store.worst_volumes(job, by, limit).await.unwrap();
            let named = worst.iter().map(|volume| {
                assert_eq!(
                    volume.worst_pages,
                    json!([{ "page": volume.results.total_images }])
                );
                volume.results.total_images
            });
            named.collect()
        };
        assert_eq!(worst(QualityIndex::Perplexity, 3).await, [3, 2, 4]);
        assert_eq!(worst(QualityIndex::Confidence, 9).await, [2, 4, 1]);
        let classes = store.quality_classes(job).await.unwrap();
        let classes: Vec<_> = classes
            .iter()
            .map(|class| (class.confidence, class.perplexity.map(f64::round), class.volumes))
            .collect();
        assert_eq!(
            classes,
            [
                (Some(0.5), Some(32.0), 1),
                (Some(0.95), Some(6.0), 2),
                (None, Some(64.0), 1)
            ]
        );
    }

    /// Rows: 87.
    #[tokio::test]
    async fn volumes_are_listed_by_how_they_were_read_last() {
        let store = store().await;
        read(
            &store,
            &[(Some(0.9), Some(6.0)), (Some(0.5), Some(40.0)), (None, None)],
        )
        .await;
        let listed =
            async |query: VolumeQuery| -> usize { store.list_volumes(&query).await.unwrap().volumes.len() };
        let surprising = |perplexity_above| VolumeQuery {
            perplexity_above: Some(perplexity_above),
            ..VolumeQuery::default()
        };
        let unsure = VolumeQuery {
            confidence_below: Some(0.7),
            ..VolumeQuery::default()
        };
        assert_eq!(listed(surprising(5.0)).await, 2);
        assert_eq!(listed(surprising(30.0)).await, 1);
        assert_eq!(listed(unsure.clone()).await, 1);
        // The same volumes, read better.
        read(
            &store,
            &[
                (Some(0.9), Some(6.0)),
                (Some(0.95), Some(5.5)),
                (Some(0.9), Some(5.0)),
            ],
        )
        .await;
        assert_eq!(listed(surprising(30.0)).await, 0);
        assert_eq!(listed(surprising(5.2)).await, 2);
        assert_eq!(listed(unsure).await, 0);
    }
}
