//! The twin against the conformance suite. What speaks the protocol of SQS is tested in `sqs`.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use crate::conformance::{Deviation, Pace, Site, deeds, history, suite};
use crate::{MemoryServer, QueueKind};

const BOTH: &[QueueKind] = &[QueueKind::Standard, QueueKind::Fifo];

fn twin() -> Site {
    let deviations = &[Deviation::NoMoveTask];
    Site::new(Arc::new(MemoryServer::new()), BOTH, deviations, Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn the_twin_keeps_the_promises() {
    suite(&twin()).await;
}

/// Long enough waits for deduplication ids to be forgotten.
const PACE: Pace = Pace {
    deeds: 60,
    longest_wait: Duration::from_secs(400),
    longest_hold: 40,
};

fn run(kind: QueueKind, deeds: &[crate::conformance::Deed]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async { history(&twin(), 0, kind, deeds).await });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_histories_of_a_standard_queue(deeds in deeds(PACE)) {
        run(QueueKind::Standard, &deeds);
    }

    #[test]
    fn random_histories_of_a_fifo_queue(deeds in deeds(PACE)) {
        run(QueueKind::Fifo, &deeds);
    }
}
