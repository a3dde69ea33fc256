//! Launcher of instances of EC2 auto scaling groups, one group for each kind of hardware.

use std::collections::BTreeSet;

use async_trait::async_trait;
use aws_sdk_autoscaling::Client;
use aws_sdk_autoscaling::config::{Builder, SharedCredentialsProvider};
use aws_sdk_autoscaling::types::{AutoScalingGroup, Instance, LifecycleState};

use super::aws::{AwsOptions, count, failed, shared_config, signed};
use super::{Launcher, LauncherError, Workers, within};
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
        let mut config = Builder::from(&shared_config(&options, credentials).await?);
        if let Some(endpoint) = &options.endpoint {
            config = config.endpoint_url(endpoint);
        }
        Ok(Self {
            client: Client::from_conf(config.build()),
            options,
        })
    }

    #[cfg(test)]
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    async fn group(&self, name: &str) -> Result<AutoScalingGroup, LauncherError> {
        let answer = self
            .client
            .describe_auto_scaling_groups()
            .auto_scaling_group_names(name)
            .send()
            .await
            .map_err(|error| failed("look at the auto scaling group", name, error))?;
        answer
            .auto_scaling_groups
            .unwrap_or_default()
            .into_iter()
            .next()
            .ok_or_else(|| LauncherError::Missing {
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
            let is_in_state = |instance: &&Instance| {
                // Of compound states such as "Pending:Wait" the first word counts.
                instance
                    .lifecycle_state()
                    .map(LifecycleState::as_str)
                    .and_then(|named| named.split(':').next())
                    == Some(state)
            };
            u32::try_from(group.instances().iter().filter(is_in_state).count()).unwrap_or(u32::MAX)
        };
        Ok(Workers {
            desired: count(group.desired_capacity().unwrap_or(0)),
            running: instances("InService"),
            starting: instances("Pending"),
            stopping: instances("Terminating"),
            limit: group.max_size().map(count),
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
        let limit = self.group(name).await?.max_size().map(super::aws::count);
        within(limit, hardware, count)?;
        self.client
            .set_desired_capacity()
            .auto_scaling_group_name(name)
            .desired_capacity(signed(count))
            // The autoscaler has delays of its own, which the group's would come on top of.
            .honor_cooldown(false)
            .send()
            .await
            .map_err(|error| failed("set the desired capacity of the auto scaling group", name, error))?;
        Ok(())
    }
}
