use std::fmt;

use async_trait::async_trait;

use crate::inference::DeviceStatus;
use parkhang_core::domain::{Hardware, StageName, Unfit};
use parkhang_store::artifact::ModelRef;

/// Properties of a stage on this node, independent of any volume: its name, its hardware, its models, whether it works.
#[async_trait]
pub trait StageInfo: Send + Sync + fmt::Debug {
    /// The name under which pipelines know the stage.
    fn name(&self) -> StageName;

    /// The hardware that the stage is made for.
    fn hardware(&self) -> Hardware;

    /// The networks that the stage keeps loaded.
    fn models(&self) -> Vec<ModelRef> {
        Vec::new()
    }

    /// State of the thread that owns the network of the stage, if it has one.
    fn device(&self) -> Option<DeviceStatus> {
        None
    }

    /// Leaves a thread that hangs behind and goes on with a new one. Requests to the old one stay unanswered.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    fn renew(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Checks that the stage can work here at this moment: its device answers what it is known to answer, and its threads
    /// take work. Called after a fault, on a stage that has been renewed; does not return while the device hangs.
    ///
    /// # Errors
    ///
    /// When it cannot, with what does not work.
    async fn check(&self) -> Result<(), Unfit> {
        Ok(())
    }
}
