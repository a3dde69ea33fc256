//! Conformance suite that every [`Launcher`] passes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Launcher, LauncherError, Workers};
use parkhang_core::domain::Hardware;

/// Between two looks at the workers.
const ASKED_AGAIN: Duration = Duration::from_millis(200);

const NOBODY: BTreeSet<String> = BTreeSet::new();

/// `launcher` has room for three workers with a gpu and three without, and has none yet; `other` is a second one of the same
/// workers. Leaves none.
pub(super) async fn suite(launcher: &dyn Launcher, other: &dyn Launcher) {
    assert_eq!(launcher.hardware(), BTreeSet::from(Hardware::ALL));
    for hardware in Hardware::ALL {
        assert_eq!(counts(&converged(launcher, hardware).await.unwrap()), (0, 0));
    }
    there_come_to_be_as_many_as_desired(launcher, other).await;
    more_than_allowed_are_refused(launcher).await;
}

/// Waits, for ever if need be, until there are as many workers as there are to be.
pub(super) async fn converged(launcher: &dyn Launcher, hardware: Hardware) -> Result<Workers, LauncherError> {
    loop {
        launcher.tend(hardware).await?;
        let workers = launcher.workers(hardware).await?;
        if workers.have_converged() {
            return Ok(workers);
        }
        tokio::time::sleep(ASKED_AGAIN).await;
    }
}

fn counts(workers: &Workers) -> (u32, u32) {
    (workers.desired, workers.running)
}

async fn there_come_to_be_as_many_as_desired(launcher: &dyn Launcher, other: &dyn Launcher) {
    for desired in [3, 3, 1, 2, 0, 0] {
        launcher
            .set_desired(Hardware::Gpu, desired, &NOBODY)
            .await
            .unwrap();
        let workers = launcher.workers(Hardware::Gpu).await.unwrap();
        assert_eq!(workers.desired, desired, "known at once");
        let workers = converged(launcher, Hardware::Gpu).await.unwrap();
        assert_eq!(counts(&workers), (desired, desired));
        if let Some(names) = &workers.names {
            assert_eq!(names.len(), desired as usize);
        }
        assert_eq!(other.workers(Hardware::Gpu).await.unwrap(), workers);
        let apart = launcher.workers(Hardware::Cpu).await.unwrap();
        assert_eq!(counts(&apart), (0, 0), "the others stay as they are");
    }
    for (launcher, desired) in [(launcher, 2), (other, 0)] {
        launcher
            .set_desired(Hardware::Cpu, desired, &NOBODY)
            .await
            .unwrap();
        let workers = converged(launcher, Hardware::Cpu).await.unwrap();
        assert_eq!(counts(&workers), (desired, desired));
    }
}

async fn more_than_allowed_are_refused(launcher: &dyn Launcher) {
    let Some(limit) = launcher.workers(Hardware::Gpu).await.unwrap().limit else {
        return;
    };
    let refused = launcher.set_desired(Hardware::Gpu, limit + 1, &NOBODY).await;
    let is_named = |error: &LauncherError| {
        matches!(error, LauncherError::OverLimit { hardware: Hardware::Gpu, count, limit: named }
            if (*count, *named) == (limit + 1, limit))
    };
    assert!(refused.as_ref().is_err_and(is_named), "{refused:?}");
    let workers = launcher.workers(Hardware::Gpu).await.unwrap();
    assert_eq!(counts(&workers), (0, 0));
}

/// `launcher` has no workers of this hardware.
pub(super) async fn refuses(launcher: &dyn Launcher, hardware: Hardware) {
    assert!(!launcher.hardware().contains(&hardware));
    for refused in [
        launcher.workers(hardware).await.map(|_| ()),
        launcher.set_desired(hardware, 1, &NOBODY).await,
    ] {
        assert!(
            matches!(refused, Err(LauncherError::Unserved(named)) if named == hardware),
            "{refused:?}"
        );
    }
}
