use tokio::sync::watch;

/// Barrier in front of whatever waits for it, until a test opens it. Clones are the same barrier.
#[derive(Debug, Clone, Default)]
pub struct Latch(watch::Sender<bool>);

impl Latch {
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody pass, from now on.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Returns once the latch is open.
    pub async fn opened(&self) {
        // The sender lives as long as this latch.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}
