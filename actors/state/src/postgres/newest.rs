//! The newest rows of a table, as many as an answer may hold.

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::{Newest, StateError};

/// The newest of some rows: `limit` of them at most, and no more after the one with which their `bytes` come to `most`. `limit` and
/// `most` are parameters of the statement, `bytes` is told of the rows' columns. [`newest`] reads the answer.
macro_rules! newest_rows {
    (bytes: $bytes:literal, order: $order:literal, limit: $limit:literal, most: $most:literal, of: $($rows:tt)+) => {
        concat!(
            "select * from (
                 select *, row_number() over newest as place, count(*) over () as found,
                     sum(",
            $bytes,
            ") over (newest rows between unbounded preceding and 1 preceding) as bytes_before
                 from (",
            $($rows)+,
            " order by ",
            $order,
            " limit ",
            $limit,
            "::bigint + 1
                 ) as wanted
                 window newest as (order by ",
            $order,
            ")
             ) as placed
             where place <= ",
            $limit,
            " and coalesce(bytes_before, 0) < ",
            $most,
            " order by ",
            $order
        )
    };
}

pub(super) use newest_rows;

/// Reads the rows of [`newest_rows`], which say with `found` how many there were in all.
pub(super) fn newest<T>(
    rows: &[PgRow],
    entry: impl Fn(&PgRow) -> Result<T, StateError>,
) -> Result<Newest<T>, StateError> {
    let found: i64 = rows.first().map_or(Ok(0), |row| row.try_get("found"))?;
    Ok(Newest {
        has_more: usize::try_from(found).is_ok_and(|found| found > rows.len()),
        entries: rows.iter().map(entry).collect::<Result<_, _>>()?,
    })
}
