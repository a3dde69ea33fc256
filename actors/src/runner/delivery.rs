use std::sync::Arc;

use tokio::sync::mpsc;

use super::hooks::call_hook;
use super::{ItemOutcome, ManifestRecord, ManifestSink, OutputSink, RunContext, StageHooks, WorkItem};
use parkhang_core::domain::StageError;

/// An outcome whose turn it is to be delivered.
pub(super) struct FinishedItem<T> {
    pub(super) item: Arc<WorkItem>,
    pub(super) outcome: ItemOutcome<T>,
}

/// Passes outcomes to the sink, the manifest and the hooks, one at a time and in the order they come in, while the kernel
/// goes on.
pub(super) struct Delivery<T> {
    pub(super) context: RunContext,
    pub(super) hooks: Arc<dyn StageHooks>,
    pub(super) manifest: Option<ManifestSink>,
    /// Outcomes from the kernel, which bounds them by counting those that are not acknowledged. A bounded channel would make the
    /// kernel wait for the sink, and it must not wait for anything.
    pub(super) inbox: mpsc::UnboundedReceiver<FinishedItem<T>>,
    pub(super) delivered: mpsc::UnboundedSender<()>,
}

impl<T: Send + 'static> Delivery<T> {
    /// Delivers until the kernel has nothing more.
    ///
    /// # Errors
    ///
    /// When the sink or the manifest cannot take an outcome.
    pub(super) async fn run(mut self, sink: &mut dyn OutputSink<T>) -> Result<(), StageError> {
        while let Some(FinishedItem { item, outcome }) = self.inbox.recv().await {
            let report = outcome.report.clone();
            // The sink goes first: what the manifest calls done has been kept.
            sink.deliver(&item, outcome).await?;
            if let Some(manifest) = &self.manifest {
                let record = ManifestRecord::new(&self.context.stage, &item, &report);
                manifest.append(record).await?;
            }
            call_hook("after_item", &self.context, |context| {
                self.hooks.after_item(&item, &report, context);
            });
            // The kernel may have finished, and nobody counts any more.
            let _ = self.delivered.send(());
        }
        Ok(())
    }
}
