use aws_config::BehaviorVersion;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    Builder, RequestChecksumCalculation, SharedCredentialsProvider, StalledStreamProtectionConfig,
};
use aws_sdk_s3::types::ChecksumAlgorithm;

use super::super::StorageError;
use super::S3Options;
use super::account::{AccountError, account};

pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) part_checksum: Option<ChecksumAlgorithm>,
}

/// Client for the bucket of `options`. `credentials` take the place of the SDK's chain.
pub(super) async fn connect(
    options: &S3Options,
    credentials: Option<SharedCredentialsProvider>,
) -> Result<Connection, StorageError> {
    let refused = |message: String| StorageError::OpenBucket {
        bucket: options.bucket.clone(),
        message,
    };
    let loader = aws_config::defaults(BehaviorVersion::latest());
    let shared = account(loader, options.region.as_deref(), credentials).await;
    let shared = shared.map_err(|error| match error {
        AccountError::NoSource => refused("no source of credentials".to_owned()),
        AccountError::Refused(message) => refused(message),
    })?;

    let timeouts = TimeoutConfig::builder().connect_timeout(options.connect_timeout);
    // The SDK's retries and its detection of stalls are off, as this store has its own and the two would
    // multiply.
    let mut config = Builder::from(&shared)
        .force_path_style(options.path_style)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts.build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    if let Some(endpoint) = &options.endpoint {
        config = config.endpoint_url(endpoint);
    }
    // Who asks for no checksums has a server that knows no trailers; it would refuse those of parts as well.
    let bare = shared.request_checksum_calculation() == Some(RequestChecksumCalculation::WhenRequired);
    Ok(Connection {
        client: Client::from_conf(config.build()),
        part_checksum: (!bare).then_some(ChecksumAlgorithm::Crc32),
    })
}
