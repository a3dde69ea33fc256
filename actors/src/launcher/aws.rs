//! Parts that the launchers of AWS share: options, credentials, calls, errors.

mod client;
mod endpoint;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use super::LauncherError;
pub(super) use client::{Call, Client};
pub(super) use endpoint::Service;
use parkhang_core::domain::Hardware;
use parkhang_store::storage::s3::{AccountError, account, chain};

/// Time limit of a request, the client's own retries included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Place of the services or groups. Credentials are no option: they come from the chain that every AWS tool follows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AwsOptions {
    /// URL of a service that stands in for AWS.
    pub endpoint: Option<String>,
    /// Region; `None` takes that of the SDK's chain.
    pub region: Option<String>,
    /// The ECS service or the auto scaling group of each hardware.
    pub names: BTreeMap<Hardware, String>,
}

impl AwsOptions {
    pub(super) fn hardware(&self) -> BTreeSet<Hardware> {
        self.names.keys().copied().collect()
    }

    pub(super) fn name(&self, hardware: Hardware) -> Result<&str, LauncherError> {
        self.names
            .get(&hardware)
            .map(String::as_str)
            .ok_or(LauncherError::Unserved(hardware))
    }
}

/// Finds region and credentials; `credentials` stand in for the SDK's chain.
pub(super) async fn shared_config(
    options: &AwsOptions,
    credentials: Option<SharedCredentialsProvider>,
) -> Result<SdkConfig, LauncherError> {
    let timeouts = TimeoutConfig::builder().operation_timeout(REQUEST_TIMEOUT);
    let loader = aws_config::defaults(BehaviorVersion::latest()).timeout_config(timeouts.build());
    let shared = account(loader, options.region.as_deref(), credentials).await;
    shared.map_err(|error| {
        LauncherError::Credentials(match error {
            AccountError::NoSource => "there is no source of any".to_owned(),
            AccountError::Refused(message) => message,
        })
    })
}

/// The error of a failed request about `name`.
pub(super) fn failed(action: &'static str, name: &str, error: client::CallError) -> LauncherError {
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

/// The error of an answer about `name` that has another form.
pub(super) fn unreadable(action: &'static str, name: &str, error: impl Error) -> LauncherError {
    LauncherError::Remote {
        action,
        name: name.to_owned(),
        message: format!("the answer cannot be read: {error}"),
    }
}
