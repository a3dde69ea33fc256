use futures::{Stream, StreamExt, stream};

use super::{PageRef, PageSource, PageSourceError, Scan};
use parkhang_core::domain::VolumeId;

/// Stream of the scans of `pages` in their order, while up to `depth` of them are on their way. With a source that takes a time
/// `t` to answer, `depth / t` pages a second come out; nothing is read that the consumer has no room for.
pub fn read_ahead<'a>(
    source: &'a dyn PageSource,
    volume: &'a VolumeId,
    pages: impl IntoIterator<Item = PageRef, IntoIter: Send + 'a>,
    depth: usize,
) -> impl Stream<Item = (PageRef, Result<Scan, PageSourceError>)> + Send + 'a {
    stream::iter(pages)
        .map(move |page| async move {
            let read = source.read(volume, &page).await;
            (page, read)
        })
        .buffered(depth.max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use tokio::time::Instant;

    use super::*;

    /// Answers every read after 100 ms.
    #[derive(Debug, Default)]
    struct FarAway {
        reading: AtomicUsize,
        most: AtomicUsize,
    }

    #[async_trait]
    impl PageSource for FarAway {
        async fn pages(&self, _: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
            Ok(Vec::new())
        }

        async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
            let reading = self.reading.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(reading, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.reading.fetch_sub(1, Ordering::SeqCst);
            match page.size {
                13 => Err(PageSourceError::NoSuchPage {
                    volume: volume.clone(),
                    page: page.name.clone(),
                }),
                _ => Ok(Scan::Image(page.name.clone().into())),
            }
        }
    }

    /// Rows: F27.
    #[tokio::test(start_paused = true)]
    async fn pages_come_in_order_and_latency_is_paid_once_per_depth() {
        let source = FarAway::default();
        let volume = VolumeId::new("W1", "I1").unwrap();
        let pages = (0..160).map(|index| PageRef {
            name: index.to_string(),
            size: index,
            version: None,
        });
        let started = Instant::now();
        let read: Vec<_> = read_ahead(&source, &volume, pages, 16).collect().await;
        assert!(
            started.elapsed() <= Duration::from_millis(1_050),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(source.most.load(Ordering::SeqCst), 16);
        for (index, (page, bytes)) in (0..).zip(&read) {
            assert_eq!(page.size, index);
            match index {
                13 => assert!(bytes.is_err()),
                _ => assert_eq!(bytes.as_ref().unwrap().image().unwrap(), &page.name),
            }
        }
        assert_eq!(read.len(), 160);
    }
}
