//! Region and credentials, as every client of AWS finds them.

use aws_config::meta::region::RegionProviderChain;
use aws_config::{ConfigLoader, Region, SdkConfig};
use aws_sdk_s3::config::{Credentials, ProvideCredentials, SharedCredentialsProvider};
use futures::future::BoxFuture;

use super::failure::chain;

/// Region for servers that have no regions and operators that named none.
const FALLBACK_REGION: &str = "us-east-1";

/// Reason for which there are no credentials.
#[derive(Debug)]
pub enum AccountError {
    /// No source of credentials is configured.
    NoSource,
    /// Message of their source.
    Refused(String),
}

/// Keys for a server that keeps them elsewhere than the AWS tools look.
pub fn keys(access_key: &str, secret_key: &str) -> SharedCredentialsProvider {
    SharedCredentialsProvider::new(Credentials::new(access_key, secret_key, None, None, "given"))
}

/// Configuration that `loader` finds, with the region and the credentials in the place of the SDK's chains if they are given.
///
/// # Errors
///
/// [`AccountError`] if no credentials are found, or their source refuses them.
pub fn account(
    mut loader: ConfigLoader,
    region: Option<&str>,
    credentials: Option<SharedCredentialsProvider>,
) -> BoxFuture<'_, Result<SdkConfig, AccountError>> {
    Box::pin(async move {
        if let Some(credentials) = credentials {
            loader = loader.credentials_provider(credentials);
        }
        loader = match region {
            Some(region) => loader.region(Region::new(region.to_owned())),
            None => loader.region(RegionProviderChain::default_provider().or_else(FALLBACK_REGION)),
        };
        let found = loader.load().await;
        let credentials = found.credentials_provider().ok_or(AccountError::NoSource)?;
        // Found now rather than by the first request, where it would look like a failing network.
        credentials
            .provide_credentials()
            .await
            .map_err(|error| AccountError::Refused(chain(&error)))?;
        Ok(found)
    })
}
