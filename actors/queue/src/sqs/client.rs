use aws_config::BehaviorVersion;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::{Builder, SharedCredentialsProvider};
use parkhang_store::storage::s3::{AccountError, account};

use super::SqsOptions;
use super::retry::Retry;
use crate::QueueError;
use crate::checks::check_name;

/// Connection to a server, with what the requests of all its queues have in common.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) retry: Retry,
}

impl Link {
    /// Connection for `options`. `credentials` take the place of the SDK's chain.
    pub(super) async fn open(
        options: &SqsOptions,
        credentials: Option<SharedCredentialsProvider>,
    ) -> Result<Self, QueueError> {
        let loader = aws_config::defaults(BehaviorVersion::latest());
        let shared = account(loader, options.region.as_deref(), credentials).await;
        let shared = shared.map_err(|error| QueueError::Account {
            message: match error {
                AccountError::NoSource => "no source of credentials".to_owned(),
                AccountError::Refused(message) => message,
            },
        })?;
        let timeouts = TimeoutConfig::builder().connect_timeout(options.connect_timeout);
        let mut config = Builder::from(&shared)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts.build());
        if let Some(endpoint) = &options.endpoint {
            config = config.endpoint_url(endpoint);
        }
        Ok(Self {
            client: Client::from_conf(config.build()),
            retry: Retry {
                patience: options.patience,
                backoff: options.backoff,
                answer_timeout: options.answer_timeout,
            },
        })
    }

    /// Address of the queue of a name.
    pub(super) async fn find(&self, name: &str) -> Result<String, QueueError> {
        check_name(name)?;
        let found = self.retry.run(|| async {
            let request = self.client.get_queue_url().queue_name(name);
            Ok(request.send().await?.queue_url.unwrap_or_default())
        });
        found.await.map_err(|refusal| refusal.into_error("find", name))
    }
}
