//! What the launchers of AWS share.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::Duration;

use aws_config::meta::region::RegionProviderChain;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_ecs::config::{ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_ecs::error::ProvideErrorMetadata;

use super::LauncherError;
use crate::domain::Hardware;

/// For servers that have no regions and operators that named none.
const FALLBACK_REGION: &str = "us-east-1";
/// The client's own retries of a request included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Where the services or groups are. Credentials are no option: they come from the chain that every AWS tool follows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AwsOptions {
    /// URL of another service than AWS.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// The ECS service or the auto scaling group of each hardware.
    pub names: BTreeMap<Hardware, String>,
}

impl AwsOptions {
    pub(super) fn hardware(&self) -> BTreeSet<Hardware> {
        self.names.keys().copied().collect()
    }

    pub(super) fn name(&self, hardware: Hardware) -> Result<&str, LauncherError> {
        let name = self.names.get(&hardware);
        name.map(String::as_str).ok_or(LauncherError::Unserved(hardware))
    }
}

/// For servers of tests, which take any keys.
#[cfg(test)]
pub(super) fn keys(access_key: &str, secret_key: &str) -> SharedCredentialsProvider {
    SharedCredentialsProvider::new(aws_sdk_ecs::config::Credentials::new(
        access_key, secret_key, None, None, "given",
    ))
}

/// Region and credentials; `credentials` stand in for the SDK's chain.
pub(super) async fn shared_config(
    options: &AwsOptions,
    credentials: Option<SharedCredentialsProvider>,
) -> Result<SdkConfig, LauncherError> {
    let timeouts = TimeoutConfig::builder().operation_timeout(REQUEST_TIMEOUT);
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).timeout_config(timeouts.build());
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
        .ok_or_else(|| LauncherError::Credentials("there is no source of any".to_owned()))?;
    // Found now rather than by the first request, where it would look like a failing network.
    credentials
        .provide_credentials()
        .await
        .map_err(|error| LauncherError::Credentials(chain(&error)))?;
    Ok(shared)
}

/// A request about `name` that failed.
pub(super) fn failed<E>(action: &'static str, name: &str, error: E) -> LauncherError
where
    E: ProvideErrorMetadata + Error,
{
    let message = match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => chain(&error),
    };
    LauncherError::Remote {
        action,
        name: name.to_owned(),
        message,
    }
}

/// An error and what caused it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Counts of AWS are signed, and what is asked for is far from the end of either.
pub(super) fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

pub(super) fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
