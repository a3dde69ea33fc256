use std::time::Duration;

use super::super::ArtifactKey;

/// Smallest part of an upload that S3 takes, except for the last one, in bytes.
const MIN_PART_BYTES: u64 = 5 << 20;
/// Largest number of parts of an upload.
const MAX_PARTS: u64 = 10_000;

/// Place of the objects of an [`S3Store`](super::S3Store), and its limits of time and number.
///
/// Credentials are no option: they come from the chain that every AWS tool follows (environment, shared files, a
/// credential process, container and instance roles). So do settings that are not here, such as the region or
/// `AWS_REQUEST_CHECKSUM_CALCULATION=when_required` for servers that know no checksum trailers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Options {
    pub bucket: String,
    /// Folder of the bucket that holds every key; the top of the bucket if there is none.
    pub prefix: Option<ArtifactKey>,
    /// URL of another server than AWS's own.
    pub endpoint: Option<String>,
    /// Region of the bucket.
    pub region: Option<String>,
    /// True if the bucket is the first part of the path and not of the host name, as most other servers want it.
    pub path_style: bool,
    /// Length in bytes above which an object is uploaded in parts of at least this length; never below S3's own 5 MiB.
    pub part_bytes: u64,
    /// Number of parts of one object that travel at once.
    pub part_concurrency: usize,
    /// Number of tries of a request, including the first one.
    pub attempts: u32,
    /// Mean delay before the second try; each further one is twice as long, up to [`MAX_BACKOFF`](super::MAX_BACKOFF).
    pub backoff: Duration,
    /// Longest time until a connection is made.
    pub connect_timeout: Duration,
    /// Longest time of a request until its answer begins, including the upload of a part.
    pub answer_timeout: Duration,
    /// Longest time in which the body of an answer may make no progress.
    pub stall_timeout: Duration,
}

impl S3Options {
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            prefix: None,
            endpoint: None,
            region: None,
            path_style: false,
            part_bytes: 16 << 20,
            part_concurrency: 4,
            attempts: 6,
            backoff: Duration::from_millis(200),
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(20),
        }
    }

    pub fn with_prefix(mut self, prefix: ArtifactKey) -> Self {
        self.prefix = Some(prefix);
        self
    }

    /// The same options for a server that is not AWS's, with the bucket in the path.
    pub fn with_endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self.path_style = true;
        self
    }

    /// Length of the parts of an object; `None` if it is uploaded whole.
    pub(super) fn part_length(&self, size: u64) -> Option<u64> {
        let part = self.part_bytes.max(MIN_PART_BYTES);
        (size > part).then(|| part.max(size.div_ceil(MAX_PARTS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_at_most_ten_thousand_parts_of_the_least_length() {
        let mut options = S3Options::new("bucket");
        options.part_bytes = 1;
        assert_eq!(options.part_length(MIN_PART_BYTES), None);
        assert_eq!(options.part_length(MIN_PART_BYTES + 1), Some(MIN_PART_BYTES));
        let huge = 5 << 40;
        let part = options.part_length(huge).unwrap();
        assert!(huge.div_ceil(part) <= MAX_PARTS);
    }
}
