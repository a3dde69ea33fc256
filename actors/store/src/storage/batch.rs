use bytes::Bytes;
use futures::{Stream, StreamExt, stream};

use super::{ArtifactKey, ArtifactStore, StorageError};

/// Stream of many objects in the order of `keys`, read up to `concurrency` at once and no further ahead of the consumer.
pub fn get_many<'a>(
    store: &'a dyn ArtifactStore,
    keys: impl IntoIterator<Item = ArtifactKey, IntoIter: Send + 'a>,
    concurrency: usize,
) -> impl Stream<Item = (ArtifactKey, Result<Bytes, StorageError>)> + Send + 'a {
    stream::iter(keys)
        .map(move |key| async move {
            let read = store.get(&key).await;
            (key, read)
        })
        .buffered(concurrency.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::MemoryArtifacts;
    use super::*;

    #[tokio::test]
    async fn objects_come_in_the_order_of_their_keys_and_a_missing_one_is_only_itself() {
        let store = MemoryArtifacts::new();
        let keys: Vec<ArtifactKey> = (0..20)
            .rev()
            .map(|index| ArtifactKey::new(format!("many/{index}")).unwrap())
            .collect();
        for key in keys.iter().filter(|key| key.as_str() != "many/7") {
            store.put(key, key.to_string().into()).await.unwrap();
        }
        let read: Vec<_> = get_many(&store, keys.clone(), 4).collect().await;
        assert_eq!(read.len(), keys.len());
        for (key, (of, bytes)) in keys.iter().zip(read) {
            assert_eq!(key, &of);
            match key.as_str() {
                "many/7" => assert!(matches!(bytes, Err(StorageError::NotFound { .. }))),
                name => assert_eq!(bytes.unwrap(), name),
            }
        }
    }
}
