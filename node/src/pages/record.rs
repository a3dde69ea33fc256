//! The list of pages of a filing, in the database of another program.

use anyhow::{Context, Result};
use parkhang_core::domain::VolumeId;
use parkhang_state::{FilingsError, FilingsTable};
use tracing::warn;

/// Place for the lists of pages, if there is one.
#[derive(Debug)]
pub struct Recorder {
    table: Option<FilingsTable>,
    /// Filings that the table does not have.
    unknown: u64,
}

impl Recorder {
    /// Opens the database of a URL. One that lists cannot be recorded in gives one warning.
    ///
    /// # Errors
    ///
    /// If it cannot be reached.
    pub async fn open(url: Option<&str>) -> Result<Self> {
        let table = match url.filter(|url| !url.is_empty()) {
            None => None,
            Some(url) => match FilingsTable::open(url).await {
                Ok(table) => Some(table),
                Err(error) => {
                    unfit(error).context("cannot use the database of DATABASE_URL")?;
                    None
                }
            },
        };
        Ok(Self { table, unknown: 0 })
    }

    /// Records the pages of a document; that is committed when this returns.
    ///
    /// # Errors
    ///
    /// If the database does not answer, or refuses the values.
    pub async fn record(&mut self, document: &VolumeId, pages: &[u32]) -> Result<()> {
        let Some(table) = &self.table else {
            return Ok(());
        };
        let pages = pages.iter().map(|page| i32::try_from(*page));
        let pages = pages.collect::<Result<Vec<i32>, _>>()?;
        match table.record(document.w_id(), document.i_id(), &pages).await {
            Ok(is_known) => self.unknown += u64::from(!is_known),
            Err(error) => {
                unfit(error).context("filings.broken_pages was not updated")?;
                // Every other update would be refused too.
                self.table = None;
            }
        }
        Ok(())
    }

    /// Number of filings so far that the table does not have.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }
}

/// Warns of a database that lists cannot be recorded in.
///
/// # Errors
///
/// The error, if it is another one.
fn unfit(error: FilingsError) -> Result<()> {
    match error {
        FilingsError::Unfit(reason) => {
            warn!("broken pages are not recorded in the database of DATABASE_URL: {reason}");
            Ok(())
        }
        FilingsError::Database(error) => Err(error.into()),
    }
}
