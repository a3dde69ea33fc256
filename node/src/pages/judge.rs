//! Verdicts about the pages of one PDF.

use std::sync::Arc;

use futures::{StreamExt, stream};
use parkhang_core::domain::VolumeId;
use parkhang_pdf::Verdict;
use parkhang_store::artifact::TextVerdict;
use parkhang_store::pages::{PageRef, PageSource, PageSourceError};
use tokio::sync::Semaphore;

use super::filing::{Filing, Place};
use super::sources::Buckets;

/// Name of a document that has none, which nobody sees.
const UNNAMED: (&str, &str) = ("pdf", "unnamed");

/// Verdict about a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PageVerdict {
    /// Number from 1.
    pub page: u32,
    pub verdict: Verdict,
}

/// Findings about a PDF.
#[derive(Debug, Default)]
pub struct Judged {
    pub pages: Vec<PageVerdict>,
    /// Faults of the PDF or of pages, which have no verdict.
    pub failures: Vec<String>,
}

impl Judged {
    /// Numbers of the pages whose text is not that of their picture, in ascending order.
    pub fn broken(&self) -> Vec<u32> {
        let broken = self
            .pages
            .iter()
            .filter(|found| TextVerdict::from(found.verdict.kind).needs_reading());
        broken.map(|found| found.page).collect()
    }
}

/// Judge of PDFs. Clones share the processors.
#[derive(Debug, Clone)]
pub struct Judge {
    buckets: Arc<Buckets>,
    /// A permit for each page that is judged at a time.
    processors: Arc<Semaphore>,
    threads: usize,
}

impl Judge {
    pub fn new(buckets: Arc<Buckets>, threads: usize) -> Self {
        Self {
            buckets,
            processors: Arc::new(Semaphore::new(threads)),
            threads,
        }
    }

    /// Judges every page of a PDF. What cannot be judged is a part of the answer.
    pub async fn judge(&self, filing: &Filing) -> Judged {
        let mut judged = Judged::default();
        let named = |error: &dyn std::fmt::Display| failure(&filing.place, error);
        let volume = match &filing.document {
            Some(document) => Ok(document.clone()),
            None => VolumeId::new(UNNAMED.0, UNNAMED.1),
        };
        let volume = match volume {
            Ok(volume) => volume,
            Err(error) => {
                judged.failures.push(named(&error));
                return judged;
            }
        };
        let source = match self.buckets.source(&filing.place, &volume).await {
            Ok(source) => source,
            Err(error) => {
                judged.failures.push(named(&format!("{error:#}")));
                return judged;
            }
        };
        let pages = match source.pages(&volume).await {
            Ok(pages) => pages,
            Err(PageSourceError::NoSuchDocument { .. }) => {
                judged.failures.push(named(&"it does not exist"));
                return judged;
            }
            Err(error) => {
                judged.failures.push(named(&error));
                return judged;
            }
        };
        let mut verdicts = stream::iter(pages.into_iter().zip(1..))
            .map(|(page, number)| self.page(&source, &volume, page, number))
            .buffered(self.threads);
        while let Some(verdict) = verdicts.next().await {
            match verdict {
                Ok(verdict) => judged.pages.push(verdict),
                Err(error) => judged.failures.push(named(&error)),
            }
        }
        judged
    }

    async fn page(
        &self,
        source: &Arc<dyn PageSource>,
        volume: &VolumeId,
        page: PageRef,
        number: u32,
    ) -> Result<PageVerdict, Box<dyn std::error::Error + Send + Sync>> {
        let _permit = self.processors.acquire().await?;
        let scan = source.read(volume, &page).await?;
        let text = tokio::task::spawn_blocking(move || scan.text()).await?;
        let named = |error: String| format!("page {number}: {error}");
        let text = text.map_err(|error| named(error.to_string()))?;
        let text = text.ok_or_else(|| named("it is an image".to_owned()))?;
        Ok(PageVerdict {
            page: number,
            verdict: text.verdict,
        })
    }
}

/// Message about a PDF, which names it once.
pub fn failure(place: &Place, error: &(impl std::fmt::Display + ?Sized)) -> String {
    let (place, error) = (place.to_string(), error.to_string());
    if error.contains(&place) {
        error
    } else {
        format!("{place}: {error}")
    }
}
