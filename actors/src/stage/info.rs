use std::fmt;

use async_trait::async_trait;

use crate::inference::DeviceStanding;
use parkhang_core::domain::{Hardware, StageName, Unfit};
use parkhang_store::artifact::ModelRef;

/// What a stage is and what it runs on, apart from any volume.
#[async_trait]
pub trait StageInfo: Send + Sync + fmt::Debug {
    fn name(&self) -> StageName;

    fn hardware(&self) -> Hardware;

    /// The networks that the stage keeps loaded.
    fn models(&self) -> Vec<ModelRef> {
        Vec::new()
    }

    /// The thread that owns its network, if it has one.
    fn device(&self) -> Option<DeviceStanding> {
        None
    }

    /// Leaves a thread that hangs to itself and goes on with a fresh one. What was asked of the old one stays unanswered.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    fn renew(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Checks that the stage can work here at this moment: its device answers what it is known to answer, and its threads
    /// take work. Asked after a fault, of a stage that has been renewed; does not return while the device hangs.
    ///
    /// # Errors
    ///
    /// When it cannot, with what does not work.
    async fn check(&self) -> Result<(), Unfit> {
        Ok(())
    }
}
