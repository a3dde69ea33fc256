//! `workers list`.

use async_trait::async_trait;
use clap::Args;

use super::group::LaunchedWorkers;
use super::launcher_of;
use crate::admin::command::{Access, Command, Verb};
use crate::admin::{Admin, Refusal};

/// List the desired number of workers, the number that the launcher reports, and the nodes that have joined, by hardware.
#[derive(Debug, Args)]
pub struct List {}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["workers", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/workers";
    type Answer = LaunchedWorkers;

    async fn run(self, admin: &Admin) -> Result<LaunchedWorkers, Refusal> {
        let launcher = launcher_of(admin).await?;
        LaunchedWorkers::of(admin, &*launcher, &launcher.hardware()).await
    }
}
