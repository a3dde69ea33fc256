use aws_config::meta::region::RegionProviderChain;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    Builder, Credentials, ProvideCredentials, RequestChecksumCalculation, SharedCredentialsProvider,
    StalledStreamProtectionConfig,
};
use aws_sdk_s3::types::ChecksumAlgorithm;

use super::super::StorageError;
use super::S3Options;
use super::failure::chain;

/// For servers that have no regions and operators that named none.
const FALLBACK_REGION: &str = "us-east-1";

pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) part_checksum: Option<ChecksumAlgorithm>,
}

pub(super) fn keys(access_key: &str, secret_key: &str) -> SharedCredentialsProvider {
    SharedCredentialsProvider::new(Credentials::new(access_key, secret_key, None, None, "given"))
}

/// A client for the bucket of `options`. `credentials` stand in for the SDK's chain.
pub(super) async fn connect(
    options: &S3Options,
    credentials: Option<SharedCredentialsProvider>,
) -> Result<Connection, StorageError> {
    let refused = |message: String| StorageError::OpenBucket {
        bucket: options.bucket.clone(),
        message,
    };
    let mut loader = aws_config::defaults(BehaviorVersion::latest());
    if let Some(credentials) = credentials {
        loader = loader.credentials_provider(credentials);
    }
    loader = match options.region.clone() {
        Some(region) => loader.region(Region::new(region)),
        None => loader.region(RegionProviderChain::default_provider().or_else(FALLBACK_REGION)),
    };
    let shared = loader.load().await;

    let credentials = shared
        .credentials_provider()
        .ok_or_else(|| refused("no source of credentials".to_owned()))?;
    // Found now rather than by the first request, where it would look like a failing network.
    credentials
        .provide_credentials()
        .await
        .map_err(|error| refused(chain(&error)))?;

    let timeouts = TimeoutConfig::builder().connect_timeout(options.connect_timeout);
    let mut config = Builder::from(&shared)
        .force_path_style(options.path_style)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts.build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    if let Some(endpoint) = &options.endpoint {
        config = config.endpoint_url(endpoint);
    }
    let bare = shared.request_checksum_calculation() == Some(RequestChecksumCalculation::WhenRequired);
    Ok(Connection {
        client: Client::from_conf(config.build()),
        part_checksum: (!bare).then_some(ChecksumAlgorithm::Crc32),
    })
}
