use futures::{Stream, StreamExt, stream};

use super::{PageRef, PageSource, PageSourceError};
use parkhang_core::domain::VolumeId;

/// Looks `volumes` up in a source, up to `concurrency` at once, before a job is made of them: the pages of each, or the reason
/// for which it cannot be read, in the order given.
pub fn survey<'a>(
    source: &'a dyn PageSource,
    volumes: impl IntoIterator<Item = VolumeId, IntoIter: Send + 'a>,
    concurrency: usize,
) -> impl Stream<Item = (VolumeId, Result<Vec<PageRef>, PageSourceError>)> + Send + 'a {
    stream::iter(volumes)
        .map(move |volume| async move {
            let pages = source.pages(&volume).await;
            (volume, pages)
        })
        .buffered(concurrency.max(1))
}
