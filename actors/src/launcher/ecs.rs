//! Launcher of tasks of ECS services, one service for each kind of hardware.

use std::collections::BTreeSet;

use async_trait::async_trait;
use aws_sdk_ecs::Client;
use aws_sdk_ecs::config::{Builder, SharedCredentialsProvider};

use super::aws::{AwsOptions, count, failed, shared_config, signed};
use super::{Launcher, LauncherError, Workers};
use parkhang_core::domain::Hardware;

/// Status of a service that was deleted.
const DELETED: &str = "INACTIVE";

/// Launcher that sets the desired count of services. ECS chooses which tasks go.
#[derive(Debug, Clone)]
pub struct EcsLauncher {
    client: Client,
    options: AwsOptions,
    /// ECS cluster of the services; `None` for the account's default one.
    cluster: Option<String>,
}

impl EcsLauncher {
    /// Finds region and credentials. Nothing is asked of ECS yet.
    ///
    /// # Errors
    ///
    /// [`LauncherError::Credentials`] when there are no credentials or no region.
    pub async fn open(options: AwsOptions, cluster: Option<String>) -> Result<Self, LauncherError> {
        Self::connect(options, cluster, None).await
    }

    pub(super) async fn connect(
        options: AwsOptions,
        cluster: Option<String>,
        credentials: Option<SharedCredentialsProvider>,
    ) -> Result<Self, LauncherError> {
        let mut config = Builder::from(&shared_config(&options, credentials).await?);
        if let Some(endpoint) = &options.endpoint {
            config = config.endpoint_url(endpoint);
        }
        Ok(Self {
            client: Client::from_conf(config.build()),
            options,
            cluster,
        })
    }

    #[cfg(test)]
    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}

#[async_trait]
impl Launcher for EcsLauncher {
    fn hardware(&self) -> BTreeSet<Hardware> {
        self.options.hardware()
    }

    async fn workers(&self, hardware: Hardware) -> Result<Workers, LauncherError> {
        let name = self.options.name(hardware)?;
        let answer = self
            .client
            .describe_services()
            .set_cluster(self.cluster.clone())
            .services(name)
            .send()
            .await
            .map_err(|error| failed("look at the ECS service", name, error))?;
        // ECS goes on describing a deleted service for a while.
        let service = answer
            .services()
            .iter()
            .find(|service| service.status() != Some(DELETED))
            .ok_or_else(|| LauncherError::Missing {
                kind: "ECS service",
                name: name.to_owned(),
            })?;
        let (desired, there) = (count(service.desired_count()), count(service.running_count()));
        // ECS has no count of tasks that are stopping, so those that run beyond the desired number are taken for them.
        Ok(Workers {
            desired,
            running: there.min(desired),
            starting: count(service.pending_count()),
            stopping: there.saturating_sub(desired),
            limit: None,
            names: None,
        })
    }

    async fn set_desired(
        &self,
        hardware: Hardware,
        count: u32,
        _: &BTreeSet<String>,
    ) -> Result<(), LauncherError> {
        let name = self.options.name(hardware)?;
        self.client
            .update_service()
            .set_cluster(self.cluster.clone())
            .service(name)
            .desired_count(signed(count))
            .send()
            .await
            .map_err(|error| failed("set the desired count of the ECS service", name, error))?;
        Ok(())
    }
}
