//! Launcher of instances of EC2 auto scaling groups, one group for each kind of hardware.

mod client;

use std::collections::BTreeSet;

use async_trait::async_trait;
use aws_credential_types::provider::SharedCredentialsProvider;

use super::aws::{AwsOptions, shared_config};
use super::{Launcher, LauncherError, Workers, within};
use client::{Client, Group};
use parkhang_core::domain::Hardware;

/// Launcher that sets the desired capacity of groups. A group chooses itself which instances go, and keeps its own bounds.
#[derive(Debug, Clone)]
pub struct AsgLauncher {
    client: Client,
    options: AwsOptions,
}

impl AsgLauncher {
    /// Finds region and credentials. Nothing is asked of the groups yet.
    ///
    /// # Errors
    ///
    /// [`LauncherError::Credentials`] when there are no credentials or no region.
    pub async fn open(options: AwsOptions) -> Result<Self, LauncherError> {
        Self::connect(options, None).await
    }

    pub(super) async fn connect(
        options: AwsOptions,
        credentials: Option<SharedCredentialsProvider>,
    ) -> Result<Self, LauncherError> {
        let shared = shared_config(&options, credentials).await?;
        Ok(Self {
            client: Client::new(&shared, options.endpoint.as_deref())?,
            options,
        })
    }

    async fn group(&self, name: &str) -> Result<Group, LauncherError> {
        let group = self.client.describe_auto_scaling_groups(name).await?;
        group.ok_or_else(|| LauncherError::Missing {
            kind: "auto scaling group",
            name: name.to_owned(),
        })
    }
}

#[async_trait]
impl Launcher for AsgLauncher {
    fn hardware(&self) -> BTreeSet<Hardware> {
        self.options.hardware()
    }

    async fn workers(&self, hardware: Hardware) -> Result<Workers, LauncherError> {
        let group = self.group(self.options.name(hardware)?).await?;
        let instances = |state: &str| {
            // The first word of compound states such as "Pending:Wait" counts.
            let is_in_state = |named: &&String| named.split(':').next() == Some(state);
            u32::try_from(group.states.iter().filter(is_in_state).count()).unwrap_or(u32::MAX)
        };
        Ok(Workers {
            desired: group.desired,
            running: instances("InService"),
            starting: instances("Pending"),
            stopping: instances("Terminating"),
            limit: group.limit,
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
        let limit = self.group(name).await?.limit;
        within(limit, hardware, count)?;
        self.client.set_desired_capacity(name, count).await
    }
}
