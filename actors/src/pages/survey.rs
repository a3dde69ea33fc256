use futures::{Stream, StreamExt, stream};

use super::{PageRef, PageSource, SourceError};
use crate::domain::VolumeId;

/// Looks `volumes` up in a source, up to `concurrency` at once: the pages of each, or why it cannot be had, in the order
/// given. For whoever makes a job, before it is made.
pub fn survey<'a>(
    source: &'a dyn PageSource,
    volumes: impl IntoIterator<Item = VolumeId, IntoIter: Send + 'a>,
    concurrency: usize,
) -> impl Stream<Item = (VolumeId, Result<Vec<PageRef>, SourceError>)> + Send + 'a {
    stream::iter(volumes)
        .map(move |volume| async move {
            let pages = source.pages(&volume).await;
            (volume, pages)
        })
        .buffered(concurrency.max(1))
}
