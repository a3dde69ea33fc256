//! Read model: the questions of operators about jobs, tasks, volumes and nodes.
//!
//! A console asks them every few seconds, over jobs of very many tasks, beside a cluster that writes to the same tables. So each
//! goes by an index, which its statement names, or adds up totals that triggers keep: a page costs what it shows, and tests
//! compare the plans of the server with that (`a_page_costs_what_it_shows`). Statements of lists are constants for these tests.
//! Where the planner would rather read a whole table, a statement leaves it no choice: a lateral join for each place and status
//! keeps a search within a partial index, and `offset 0` keeps a look-up row by row from becoming a join over all rows. Pages go
//! on behind the last id of the one before. The one exception is the forecast: it reads all runs of a job, and is asked for by
//! hand. Nothing here locks a row or writes one, and there is no snapshot across statements: an answer may be a moment old, and
//! two parts of it a moment apart.

mod by_node;
mod failures;
mod forecast;
mod paces;
mod quality;
mod services;
mod tasks;
mod volumes;

use sqlx::Row;

use super::PostgresStore;
use crate::StateError;

impl PostgresStore {
    /// Returns a text that differs once something that operators are shown has changed; cheap however many tasks there are.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn change_mark(&self) -> Result<String, StateError> {
        let row = sqlx::query(
            "select concat_ws(' ',
                 (select max(id) from stage_runs),
                 (select max(done_at) from stage_runs where status = 'done'),
                 (select count(*) from tasks where status = 'running'),
                 (select max(id) from audit),
                 (select max(at) from corrections),
                 (select md5(string_agg(concat_ws(' ', id, status, config), ',' order by id)) from jobs where finished_at is null),
                 (select max(finished_at) from jobs),
                 (select max(looked_at) from queue_looks),
                 (select max(told_at) from services),
                 (select md5(string_agg(concat_ws(' ', name, state), ',' order by name)) from nodes)) as mark",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(row.try_get("mark")?)
    }
}

#[cfg(test)]
mod tests;
