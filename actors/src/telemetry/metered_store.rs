use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

use super::StorageAnswered;
use parkhang_store::storage::{
    ArtifactKey, ArtifactStore, ObjectMeta, PutOutcome, StorageError, VersionedObject,
};

/// Store that counts every request: its duration, its outcome, and the bytes it moved.
#[derive(Debug, Clone)]
pub struct MeteredStore(Arc<dyn ArtifactStore>);

impl MeteredStore {
    /// Store around another one.
    pub fn new(store: Arc<dyn ArtifactStore>) -> Self {
        Self(store)
    }
}

/// Waits for the answer to one request and counts it. `read` gives the number of bytes of a good answer.
async fn metered<T>(
    operation: &'static str,
    written: usize,
    read: impl FnOnce(&T) -> usize,
    request: impl Future<Output = Result<T, StorageError>>,
) -> Result<T, StorageError> {
    let began = Instant::now();
    let answer = request.await;
    let (result, read, written) = match &answer {
        Ok(answer) => ("ok", read(answer), written),
        // An answer, and no failure of the store: readers often ask whether something is there.
        Err(StorageError::NotFound { .. }) => ("not_found", 0, 0),
        Err(error) => (error.category().as_str(), 0, 0),
    };
    StorageAnswered {
        operation,
        result,
        read: read as u64,
        written: written as u64,
        took: began.elapsed(),
    }
    .emit();
    answer
}

fn nothing<T>(_: &T) -> usize {
    0
}

#[async_trait]
impl ArtifactStore for MeteredStore {
    async fn get_within(&self, key: &ArtifactKey, limit: u64) -> Result<Bytes, StorageError> {
        metered("get", 0, Bytes::len, self.0.get_within(key, limit)).await
    }

    async fn get_versioned(&self, key: &ArtifactKey, limit: u64) -> Result<VersionedObject, StorageError> {
        let read = |object: &VersionedObject| object.bytes.len();
        metered("get", 0, read, self.0.get_versioned(key, limit)).await
    }

    async fn get_if_changed(
        &self,
        key: &ArtifactKey,
        version: &str,
        limit: u64,
    ) -> Result<Option<VersionedObject>, StorageError> {
        let read = |object: &Option<VersionedObject>| object.as_ref().map_or(0, |object| object.bytes.len());
        metered("get", 0, read, self.0.get_if_changed(key, version, limit)).await
    }

    async fn get_range(&self, key: &ArtifactKey, range: Range<u64>) -> Result<Bytes, StorageError> {
        metered("get_range", 0, Bytes::len, self.0.get_range(key, range)).await
    }

    async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError> {
        metered("head", 0, nothing, self.0.head(key)).await
    }

    async fn put(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        metered("put", bytes.len(), nothing, self.0.put(key, bytes)).await
    }

    async fn put_unsynced(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        metered("put", bytes.len(), nothing, self.0.put_unsynced(key, bytes)).await
    }

    async fn sync(&self, prefix: &ArtifactKey) -> Result<(), StorageError> {
        metered("sync", 0, nothing, self.0.sync(prefix)).await
    }

    async fn put_if_absent(&self, key: &ArtifactKey, bytes: Bytes) -> Result<PutOutcome, StorageError> {
        metered("put", bytes.len(), nothing, self.0.put_if_absent(key, bytes)).await
    }

    async fn replace(
        &self,
        key: &ArtifactKey,
        bytes: Bytes,
        seen: Option<&str>,
    ) -> Result<PutOutcome, StorageError> {
        metered("put", bytes.len(), nothing, self.0.replace(key, bytes, seen)).await
    }

    async fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError> {
        metered("delete", 0, nothing, self.0.delete(key)).await
    }

    async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError> {
        metered("list", 0, nothing, self.0.list(prefix)).await
    }

    async fn folders(&self, prefix: &ArtifactKey) -> Result<Vec<String>, StorageError> {
        metered("list", 0, nothing, self.0.folders(prefix)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::testing::Measured;
    use parkhang_store::storage::{LocalStore, MemoryArtifacts, conformance};

    #[tokio::test]
    async fn requests_and_bytes_are_counted_with_what_came_of_them() {
        let measured = Measured::begin();
        let store = MeteredStore::new(Arc::new(MemoryArtifacts::new()));
        let key = |key: &str| ArtifactKey::new(key).unwrap();
        store
            .put(&key("a"), Bytes::from_static(b"twelve bytes"))
            .await
            .unwrap();
        store.get_range(&key("a"), 0..5).await.unwrap();
        store.get(&key("a")).await.unwrap();
        store.get(&key("b")).await.unwrap_err();
        measured.assert_has(&[
            "parkhang_storage_requests_total{operation=put,result=ok} 1",
            "parkhang_storage_requests_total{operation=get,result=ok} 1",
            "parkhang_storage_requests_total{operation=get,result=not_found} 1",
            "parkhang_storage_requests_total{operation=get_range,result=ok} 1",
            "parkhang_storage_bytes_total{direction=written} 12",
            "parkhang_storage_bytes_total{direction=read} 17",
            "parkhang_storage_request_seconds{operation=get} 2",
        ]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_metered_folder_conforms() {
        let root = tempfile::tempdir().unwrap();
        let folder = LocalStore::open(root.path()).await.unwrap();
        conformance::suite(Arc::new(MeteredStore::new(Arc::new(folder)))).await;
    }
}
