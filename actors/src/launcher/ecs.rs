//! Launcher of tasks of ECS services, one service for each kind of hardware.

mod client;

use std::collections::BTreeSet;

use async_trait::async_trait;
use aws_credential_types::provider::SharedCredentialsProvider;

use super::aws::{AwsOptions, shared_config};
use super::{Launcher, LauncherError, Workers, within};
use client::Client;
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
    /// Largest number of tasks of a service: beyond it only the account has a limit, which is no protection from a slip.
    limit: u32,
}

impl EcsLauncher {
    /// Finds region and credentials. Nothing is asked of ECS yet.
    ///
    /// # Errors
    ///
    /// [`LauncherError::Credentials`] when there are no credentials or no region.
    pub async fn open(
        options: AwsOptions,
        cluster: Option<String>,
        limit: u32,
    ) -> Result<Self, LauncherError> {
        Self::connect(options, (cluster, limit), None).await
    }

    pub(super) async fn connect(
        options: AwsOptions,
        (cluster, limit): (Option<String>, u32),
        credentials: Option<SharedCredentialsProvider>,
    ) -> Result<Self, LauncherError> {
        let shared = shared_config(&options, credentials).await?;
        Ok(Self {
            client: Client::new(&shared, options.endpoint.as_deref())?,
            options,
            cluster,
            limit,
        })
    }
}

#[async_trait]
impl Launcher for EcsLauncher {
    fn hardware(&self) -> BTreeSet<Hardware> {
        self.options.hardware()
    }

    async fn workers(&self, hardware: Hardware) -> Result<Workers, LauncherError> {
        let name = self.options.name(hardware)?;
        let services = self.client.describe_services(self.cluster.as_deref(), name);
        // ECS goes on describing a deleted service for a while.
        let service = services
            .await?
            .into_iter()
            .find(|service| service.status.as_deref() != Some(DELETED))
            .ok_or_else(|| LauncherError::Missing {
                kind: "ECS service",
                name: name.to_owned(),
            })?;
        let (desired, there) = (service.desired_count, service.running_count);
        // ECS has no count of tasks that are stopping, so those that run beyond the desired number are taken for them.
        Ok(Workers {
            desired,
            running: there.min(desired),
            starting: service.pending_count,
            stopping: there.saturating_sub(desired),
            limit: Some(self.limit),
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
        within(Some(self.limit), hardware, count)?;
        let cluster = self.cluster.as_deref();
        self.client.update_service(cluster, name, count).await
    }
}
