//! Work of services at stages of pipelines.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::Row;

use crate::postgres::PostgresStore;
use crate::postgres::rows::number;
use crate::{ServiceWork, StateError};

/// Leases of services, by the partial index `tasks_of_services`.
pub(super) const IN_FLIGHT: &str = "select split_part(split_part(worker_id, '/', 1), ':', 2) as service, \
         count(*) as in_flight, min(started_at) as oldest \
     from tasks where status = 'running' and worker_id like 'service:%' group by 1";

/// Jobs that services have taken since a time, by the index `service_jobs_by_time`.
pub(super) const TAKEN: &str = "select service, count(*) as taken from service_jobs \
     where submitted_at > $1 and service is not null group by 1";

/// Leases of one service, by the same index.
pub(super) const LEASES_OF_ONE: &str = "select count(*) from tasks where status = 'running' and worker_id like 'service:%' \
     and split_part(split_part(worker_id, '/', 1), ':', 2) = $1";

impl PostgresStore {
    /// Counts the leases that a service holds.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn leases_of_service(&self, service: &str) -> Result<u64, StateError> {
        let count: i64 = sqlx::query_scalar(LEASES_OF_ONE)
            .bind(service)
            .fetch_one(&self.pool)
            .await?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Returns the work of the services that have some, by name; jobs that were submitted after `since` count as taken lately.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn work_of_services(
        &self,
        since: DateTime<Utc>,
    ) -> Result<BTreeMap<String, ServiceWork>, StateError> {
        let mut work: BTreeMap<String, ServiceWork> = BTreeMap::new();
        for row in sqlx::query(IN_FLIGHT).fetch_all(&self.pool).await? {
            let of_service = work.entry(row.try_get("service")?).or_default();
            of_service.in_flight = number(&row, "in_flight")?;
            of_service.oldest = row.try_get("oldest")?;
        }
        for row in sqlx::query(TAKEN).bind(since).fetch_all(&self.pool).await? {
            let of_service = work.entry(row.try_get("service")?).or_default();
            of_service.taken_lately = number(&row, "taken")?;
        }
        Ok(work)
    }
}
