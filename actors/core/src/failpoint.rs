//! Named places between two side effects, where the chaos suite ends or holds up the process to see that nothing is lost.
//! Without the feature `failpoints`, which builds for tests have alone, passing one is nothing at all.
//!
//! The feature's process reads `FAILPOINTS`, `NAME=ACTION;NAME=ACTION`, with the actions of the crate `fail` and
//! `return(abort)`, which ends the process on the spot, `return(stop)`, which stops it there until it gets a SIGCONT, and
//! `return(hang)`, which holds up the thread for ever. Each of the three is told on standard error.
//! `NAME@VOLUME/STAGE` is the place as one volume passes it in one stage.

use std::fmt;

use crate::domain::{StageName, VolumeId};

macro_rules! failpoints {
    ($($(#[$documentation:meta])* $point:ident = $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Failpoint {
            $($(#[$documentation])* $point,)*
        }

        impl Failpoint {
            pub const ALL: &'static [Self] = &[$(Self::$point,)*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)*
                }
            }
        }
    };
}

failpoints! {
    /// The lock of the leadership is held; no epoch has begun.
    LeadershipTaken = "leadership.taken",
    /// The epoch has begun; nobody orchestrates yet.
    EpochBegun = "leadership.epoch_begun",
    /// A pass has decided; nothing is written.
    PassDecided = "pass.decided",
    /// Leases are written; their assignments have not been sent.
    LeasesWritten = "pass.leases_written",
    /// What a pass decided is done; jobs that ended with it are not settled.
    JobsUnsettled = "pass.jobs_unsettled",
    /// A pool has taken an assignment; the orchestrator does not know.
    AssignmentTaken = "assign.taken",
    /// A report has arrived; nothing is written.
    ReportReceived = "report.received",
    /// The statements of a transaction have been carried out; it is not committed.
    ChangesWritten = "commit.written",
    /// The transaction is committed; nobody has been told.
    ChangesCommitted = "commit.done",
    /// What a report says is committed; its pool has no answer.
    ReportCommitted = "report.committed",

    /// Messages are intended; none is sent.
    PublicationIntended = "outbox.intended",
    /// Messages are sent; nothing says so.
    MessagesSent = "outbox.sent",
    /// The lease under a message is written; no pool knows of it.
    MessageClaimed = "message.claimed",
    /// The end of a lease is recorded; its message is still in the queue.
    ResultCommitted = "message.result_committed",
    /// Requests for volumes are committed; their messages are still in the queue.
    RequestsTaken = "inbox.taken",

    /// A submit is intended; nothing is sent.
    SubmitIntended = "service.intended",
    /// A service has taken work; its job is not recorded.
    JobSubmitted = "service.submitted",
    /// A service has said how a job stands; nothing is written.
    JobLooked = "service.looked",
    /// A webhook has come; nothing is written.
    WebhookCame = "service.webhook_came",
    /// The effect of a webhook is written; its sender has no answer.
    WebhookWritten = "service.webhook_written",
    /// The result of a job is an artifact; its lease has not ended.
    ResultWritten = "service.result_written",
    /// Rows are claimed; none is submitted.
    RowsClaimed = "entity.claimed",
    /// The statements of a step of a row have been carried out; it is not committed.
    StepWritten = "entity.step_written",
    /// The end of a job of a row is committed; nobody is told that the next stage waits.
    StepCommitted = "entity.step_committed",

    /// A pool has started the stage's actor; the orchestrator has no answer.
    AssignAccepted = "assign.accepted",
    /// The stage begins.
    StageStarted = "stage.started",
    /// A page's images are written; no row names them.
    PageDone = "page.done",
    /// The images of a checkpoint are on disk; the part that names them is not.
    PartImagesFlushed = "part.images_flushed",
    /// A part is written; the stage goes on.
    PartWritten = "part.written",
    /// All images are on disk; no final table names them.
    ImagesFlushed = "publish.images_flushed",
    /// The table of errors is written; the final table is not.
    ErrorsWritten = "publish.errors_written",
    /// The final table is written; the parts are still there.
    TableWritten = "publish.table_written",
    /// One part of several is deleted.
    PartDeleted = "publish.part_deleted",
    /// The index of a volume is written; the stage goes on.
    IndexWritten = "index.written",
    /// The stage is over; nobody knows.
    StageEnded = "stage.ended",
    /// The orchestrator has recorded a report; the pool still holds the slot.
    ReportAnswered = "report.answered",

    /// A device thread has taken a batch. For holding it up.
    DevicePass = "device.pass",
    /// A file is about to be written. For refusing it, with `return(full)`.
    StoreWrite = "store.write",
}

impl Failpoint {
    /// Does what `FAILPOINTS` says of this place.
    #[inline(always)]
    pub fn pass(self) {
        #[cfg(feature = "failpoints")]
        armed::act(self.name());
    }

    /// As [`Failpoint::pass`], also under the name of the volume in its stage.
    #[inline(always)]
    pub fn hit_in(self, volume: &VolumeId, stage: &StageName) {
        self.pass();
        #[cfg(feature = "failpoints")]
        armed::act(&format!("{self}@{volume}/{stage}"));
        #[cfg(not(feature = "failpoints"))]
        let _ = (volume, stage);
    }

    /// Whether `FAILPOINTS` says `return(full)`: the disk has no room.
    #[inline(always)]
    pub fn is_full(self) -> bool {
        #[cfg(feature = "failpoints")]
        return armed::action(self.name()).as_deref() == Some("full");
        #[cfg(not(feature = "failpoints"))]
        false
    }
}

impl fmt::Display for Failpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Actions that `FAILPOINTS` names, in force for as long as the value lives.
#[derive(Debug)]
#[must_use]
pub struct Armed {
    #[cfg(feature = "failpoints")]
    _scenario: fail::FailScenario<'static>,
}

/// Reads `FAILPOINTS`.
pub fn arm() -> Armed {
    Armed {
        #[cfg(feature = "failpoints")]
        _scenario: fail::FailScenario::setup(),
    }
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::process::{Command, abort, id};
    use std::thread::park;

    pub(super) fn act(name: &str) {
        let action = action(name);
        let Some(action @ ("abort" | "hang" | "stop")) = action.as_deref() else {
            return;
        };
        eprintln!("failpoint {name}");
        if action == "hang" {
            loop {
                park();
            }
        }
        // The standard library raises no signals.
        let stop = || Command::new("kill").arg("-STOP").arg(id().to_string()).status();
        if action == "abort" || !stop().is_ok_and(|status| status.success()) {
            abort();
        }
    }

    pub(super) fn action(name: &str) -> Option<String> {
        fail::fail_point!(name, |argument| argument);
        None
    }
}
