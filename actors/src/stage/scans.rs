//! Plans and scans of stages that begin from the scans of a volume.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use parkhang_pdf::{PixelMap, Rect};

use super::page_stage::{PlannedPage, VolumeRun};
use crate::runner::CpuPool;
use parkhang_core::domain::{ErrorCategory, StageError, VolumeId};
use parkhang_store::artifact::{Digest, image_names};
use parkhang_store::pages::{PageRef, PageSource, PageSourceError, Scan, common_version, read_ahead};

/// Pages read at once from the source while a volume is planned: enough to hide the latency of a remote one.
const READ_AHEAD: usize = 16;

/// The pages that the source lists, up to the limit of the job, each with the hash of its scan or of the version of it.
pub(super) async fn plan_scans(
    source: &Arc<dyn PageSource>,
    cpu: &CpuPool,
    run: &VolumeRun,
) -> Result<Vec<PlannedPage<PageRef>>, StageError> {
    let source_error = |error: PageSourceError| run.source_error(&error);
    let source = run.scans(source)?;
    let mut pages = source.pages(run.volume()).await.map_err(source_error)?;
    if run.config().limit > 0 {
        pages.truncate(run.config().limit);
    }
    let files: Vec<String> = pages.iter().map(|page| page.name.clone()).collect();
    let positions = positions(run.volume(), pages.len());
    let mut planned = Vec::with_capacity(pages.len());
    // Nothing but its bytes tells whether a page without a version has changed, so it is read twice: here for its hash, and
    // again where it is worked on. Keeping the bytes would hold a whole volume in memory.
    let unversioned: Vec<PageRef> = pages
        .iter()
        .filter(|page| page.version.is_none())
        .cloned()
        .collect();
    let mut read = pin!(read_ahead(&*source, run.volume(), unversioned, READ_AHEAD));
    for ((index, name), page) in positions.into_iter().zip(image_names(&files)).zip(pages) {
        let input_hash = match page.digest() {
            Some(digest) => digest,
            None => match read.next().await {
                Some((_, Ok(scan))) => super::compute(cpu, run, move |_| Ok(scan.digest())).await?,
                Some((_, Err(error)))
                    if matches!(error.category(), ErrorCategory::Network | ErrorCategory::Node) =>
                {
                    return Err(source_error(error));
                }
                // The page is planned all the same: it fails as an item, with its retries, and does not fail the volume.
                Some((_, Err(error))) => Digest::of(error.to_string().as_bytes()),
                // There is one read for each page without a version, so they do not run out before the
                // pages.
                None => break,
            },
        };
        let cost = page.size as f64;
        planned.push(PlannedPage {
            name,
            index,
            input_path: page.name.clone(),
            input_hash,
            cost,
            input: page,
        });
    }
    Ok(planned)
}

/// Positions of the pages that a source lists, from 0, in the volume or in the document that it is a part of.
fn positions(volume: &VolumeId, listed: usize) -> Vec<u32> {
    match volume.pages() {
        Some(part) => part.pages().map(|number| number - 1).collect(),
        None => (0..).take(listed).collect(),
    }
}

/// Scan of a planned page.
pub(super) async fn read_scan(
    source: &Arc<dyn PageSource>,
    run: &VolumeRun,
    page: &PlannedPage<PageRef>,
) -> Result<Scan, StageError> {
    let read = run.scans(source)?.read(run.volume(), &page.input).await;
    read.map_err(|error| run.source_error(&error))
}

/// The version of the volume, where all its pages have the same one.
pub(super) fn version_of_scans(pages: &[PlannedPage<PageRef>]) -> Option<String> {
    common_version(pages.iter().map(|page| &page.input)).map(str::to_owned)
}

/// A box of a picture in points of its page, as left, top, right and bottom. A pixel of an image file, which has no map, counts as a point.
pub(super) fn in_points([x0, y0, x1, y1]: [f32; 4], map: Option<PixelMap>) -> [f32; 4] {
    let Some(map) = map else {
        return [x0, y0, x1, y1];
    };
    let Rect { x0, y0, x1, y1 } = map.rect_to_points(Rect { x0, y0, x1, y1 });
    [x0, y0, x1, y1]
}

/// A box of a page in pixels of its picture: the inverse of [`in_points`].
pub(super) fn in_pixels([x0, y0, x1, y1]: [f32; 4], map: Option<PixelMap>) -> [f32; 4] {
    let Some(map) = map else {
        return [x0, y0, x1, y1];
    };
    let Rect { x0, y0, x1, y1 } = map.rect_to_pixels(Rect { x0, y0, x1, y1 });
    [x0, y0, x1, y1]
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::stage::paged::beside;
    use parkhang_core::domain::Assignment;
    use parkhang_core::domain::testing::{at, job, leased_task};
    use parkhang_store::storage::MemoryArtifacts;

    /// A source that lists a page and fails to read it.
    #[derive(Debug)]
    struct Fails(ErrorCategory);

    #[async_trait]
    impl PageSource for Fails {
        async fn pages(&self, _: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
            Ok(vec![PageRef {
                name: "1.jpg".to_owned(),
                size: 1,
                version: None,
            }])
        }

        async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
            Err(PageSourceError::Unreadable {
                volume: volume.clone(),
                page: page.name.clone(),
                message: "no".to_owned(),
                category: self.0,
            })
        }
    }

    fn run() -> VolumeRun {
        let task = leased_task(1, "read", "w", at(60));
        let fence = task.fence().unwrap();
        let assignment = Assignment::of(task, &job()).unwrap();
        VolumeRun::new(beside(assignment), Arc::new(MemoryArtifacts::new()), fence.stage)
    }

    #[tokio::test]
    async fn an_outage_of_the_source_lies_in_no_page_and_a_broken_scan_does() {
        let cpu = CpuPool::new(1, "cpu").unwrap();
        let broken: Arc<dyn PageSource> = Arc::new(Fails(ErrorCategory::Input));
        let run_of_broken = run();
        let planned = plan_scans(&broken, &cpu, &run_of_broken).await.unwrap();
        assert_eq!(planned.len(), 1, "it fails as an item");
        let error = read_scan(&broken, &run_of_broken, &planned[0]).await.unwrap_err();
        assert_eq!(error.category, ErrorCategory::Input);
        assert_eq!(run_of_broken.store_failure.get(), None);

        let away: Arc<dyn PageSource> = Arc::new(Fails(ErrorCategory::Network));
        let run_of_away = run();
        let error = plan_scans(&away, &cpu, &run_of_away).await.unwrap_err();
        assert!(error.is_outage(), "{error}");
        let error = read_scan(&away, &run_of_away, &planned[0]).await.unwrap_err();
        let failure = run_of_away.store_failure.get().unwrap();
        assert!(
            failure.is_outage() && error.category == ErrorCategory::Network,
            "{failure}"
        );
    }

    #[tokio::test]
    async fn a_node_that_opens_no_more_documents_is_out_of_order_and_no_page_has_failed() {
        let cpu = CpuPool::new(1, "cpu").unwrap();
        let busy: Arc<dyn PageSource> = Arc::new(Fails(ErrorCategory::Node));
        let planning = run();
        let error = plan_scans(&busy, &cpu, &planning).await.unwrap_err();
        assert!(error.is_outage(), "{error}");
        assert_eq!(planning.node_failure.get(), Some(&error));
        assert!(planning.halt.is_cancelled());
        let computing = run();
        let busy = |_: &_| Err::<(), _>((ErrorCategory::Node, "no thread".to_owned()));
        super::super::compute(&cpu, &computing, busy).await.unwrap_err();
        assert!(computing.node_failure.get().is_some() && computing.halt.is_cancelled());
    }
}
