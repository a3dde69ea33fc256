//! Care for the workers that a launcher starts and stops: of the leading orchestrator, and of the role autoscaler.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use parkhang_actors::launcher::{Autoscaler, Demand, Launcher, StoreDemand};
use parkhang_state::PostgresStore;
use tokio::time::MissedTickBehavior;
use tracing::{debug, warn};

use crate::config::Loaded;
use crate::launcher::{autoscaler, launcher};

/// Replaces workers that ended by themselves and runs the autoscaler, at each interval, for ever. `store` is fenced by the leader's epoch.
pub async fn tend(loaded: &Loaded, store: &PostgresStore) {
    let interval = loaded.config.launcher.interval;
    let tended = loop {
        match Tended::open(loaded, Arc::new(StoreDemand(Arc::new(store.clone())))).await {
            Ok(Some(tended)) => break tended,
            Ok(None) => return std::future::pending().await,
            // Credentials and endpoints may come later, so it is opened again after the interval.
            Err(error) => warn!(error = format!("{error:#}"), "the launcher cannot be opened now"),
        }
        tokio::time::sleep(interval).await;
    };
    tended.look_after_for_ever(interval).await;
}

/// Workers that are tended.
pub struct Tended {
    launcher: Arc<dyn Launcher>,
    autoscaler: Option<Autoscaler>,
}

impl Tended {
    /// Opens the launcher of the configuration, if it names one; its autoscaler, if it is on, goes by `demand`.
    ///
    /// # Errors
    ///
    /// If the launcher cannot be opened.
    pub async fn open(loaded: &Loaded, demand: Arc<dyn Demand>) -> Result<Option<Self>> {
        let Some(launcher) = launcher(loaded).await? else {
            return Ok(None);
        };
        let autoscaler = autoscaler(loaded).map(|config| Autoscaler::new(demand, launcher.clone(), config));
        Ok(Some(Self { launcher, autoscaler }))
    }

    /// Looks after the workers at each interval.
    pub async fn look_after_for_ever(&self, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        // Requests to AWS may take longer than the interval; missed ticks must not follow as a burst of them.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look_after().await;
        }
    }

    async fn look_after(&self) {
        for hardware in self.launcher.hardware() {
            if let Err(error) = self.launcher.tend(hardware).await {
                warn!(%error, hardware = hardware.as_str(), "cannot check the workers now");
            }
        }
        if let Some(autoscaler) = &self.autoscaler
            && let Err(error) = autoscaler.pass().await
        {
            // The autoscaler fails with the database, which others report; the next pass decides anew from
            // the state.
            debug!(%error, "cannot decide the number of workers now");
        }
    }
}
