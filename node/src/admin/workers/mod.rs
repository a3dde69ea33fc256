//! Commands about worker nodes that the cluster starts and stops itself.
//!
//! They ask the launcher of the configuration for a number of workers and leave it to the launcher to reach it, as the autoscaler does.
//! While the autoscaler is on it decides that number alone, so the commands that change it are refused: two writers would undo
//! each other. The commands see workers as the launcher does; work and leases belong to `nodes` and `tasks`.

mod group;
mod list;
mod scale;
mod scaling;

pub use self::list::List;
pub use self::scale::{Launch, Scale};
pub use self::scaling::{Scaling, alarms, decisions};

use std::sync::Arc;

use parkhang_actors::launcher::{Launcher, LauncherError};

use super::{Admin, Refusal};
use crate::launcher::launcher;

async fn launcher_of(admin: &Admin) -> Result<Arc<dyn Launcher>, Refusal> {
    let launcher =
        launcher(&admin.loaded)
            .await
            .map_err(|error| match error.downcast::<LauncherError>() {
                Ok(error) => Refusal::from(error),
                Err(error) => Refusal::Internal(error),
            })?;
    launcher.ok_or_else(|| {
        Refusal::Conflict(
            "this cluster has no launcher: name one in launcher.kind, or start nodes with node --role, each on its machine"
                .to_owned(),
        )
    })
}

impl From<LauncherError> for Refusal {
    fn from(error: LauncherError) -> Self {
        match error {
            LauncherError::Unserved(_) | LauncherError::OverLimit { .. } => Self::Conflict(error.to_string()),
            LauncherError::Missing { .. } => Self::NotFound(error.to_string()),
            LauncherError::Credentials(_) | LauncherError::Remote { .. } => {
                Self::Unavailable(error.to_string())
            }
            LauncherError::Start { .. }
            | LauncherError::Stop { .. }
            | LauncherError::Record { .. }
            | LauncherError::Corrupt { .. } => Self::Internal(error.into()),
        }
    }
}
