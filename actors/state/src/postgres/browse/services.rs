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

impl PostgresStore {
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
