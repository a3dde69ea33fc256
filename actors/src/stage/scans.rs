//! Plans and scans of stages that begin from the scans of a volume.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use parkhang_pdf::{PixelMap, Rect};

use super::page_stage::{PlannedPage, VolumeRun};
use crate::runner::CpuPool;
use parkhang_core::domain::{StageError, VolumeId};
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
    let source_error = |error: PageSourceError| run.error(error.category(), error);
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
    read.map_err(|error| run.error(error.category(), error))
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
