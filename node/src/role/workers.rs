//! Care of the leading orchestrator for the workers that a launcher starts and stops.

use std::sync::Arc;

use anyhow::Result;
use parkhang_actors::launcher::{Autoscaler, Launcher};
use parkhang_state::PostgresStore;
use tokio::time::MissedTickBehavior;
use tracing::{debug, warn};

use crate::config::Loaded;
use crate::launcher::{autoscaler, launcher};

/// Replaces workers that ended by themselves and runs the autoscaler, at each interval, for ever. `store` is fenced by the leader's epoch.
pub async fn tend(loaded: &Loaded, store: &PostgresStore) {
    let mut ticks = tokio::time::interval(loaded.config.launcher.interval);
    // Requests to AWS may take longer than the interval; missed ticks must not follow as a burst of them.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tended: Option<Tended> = None;
    loop {
        ticks.tick().await;
        let tended = match &tended {
            Some(tended) => tended,
            None => match Tended::open(loaded, store).await {
                Ok(Some(opened)) => &*tended.insert(opened),
                Ok(None) => return std::future::pending().await,
                // Credentials and endpoints may come later, so it is opened again with the next tick.
                Err(error) => {
                    warn!(error = format!("{error:#}"), "the launcher cannot be opened now");
                    continue;
                }
            },
        };
        tended.look_after().await;
    }
}

struct Tended {
    launcher: Arc<dyn Launcher>,
    autoscaler: Option<Autoscaler>,
}

impl Tended {
    async fn open(loaded: &Loaded, store: &PostgresStore) -> Result<Option<Self>> {
        let Some(launcher) = launcher(loaded).await? else {
            return Ok(None);
        };
        let autoscaler = autoscaler(loaded)
            .map(|config| Autoscaler::new(Arc::new(store.clone()), launcher.clone(), config));
        Ok(Some(Self { launcher, autoscaler }))
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
