//! State of jobs and tasks: the one store that a cluster agrees on, with its history.
//!
//! Postgres is the truth and the only place with SQL. Its memory twin passes the same conformance suite and serves unit tests
//! and the simulation. Neither of them decides anything: a store finds and locks the rows that a change names, asks the pure
//! functions of [`parkhang_core::policy`] what becomes of them, and writes the answer together with everything that must become visible
//! with it. So the two stores cannot differ in a rule, only in how they find, lock and keep rows, which is what the suite
//! compares.
//!
//! [`StateStore`] holds what the orchestrator, the nodes and the reconciler pass need: creating and steering jobs, claiming,
//! renewing and committing leases, and the reads that those decide by. Callers get it as a trait object, since tests put a memory
//! store or one with faults in its place. The reads of operators are methods of [`PostgresStore`] alone: nothing is decided by
//! them, and what they promise is that a page costs what it shows however many tasks there are, which only an index and a total
//! kept by the database can hold and only a test against a server can show. A twin of them in memory would be tested in their
//! stead. The private server ([`EmbeddedPostgres`]) belongs to the room because it exists only to give the store a database.

mod backlog;
mod browse;
mod change;
mod claim;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod corrections;
mod embedded;
mod error;
mod inbox;
mod memory;
mod nodes;
mod outbox;
mod postgres;
mod rerun;
mod services;
mod statistics;
mod store;
mod verdict;
mod volumes;

pub use backlog::{Leases, Ready};
pub use browse::{
    AtStage, AuditEntry, AuditQuery, ErrorGroup, FailedPages, ListedPhase, Newest, Pace, QualityClass,
    QualityIndex, RecentRuns, ServiceWork, SlowVolume, TaskListing, TaskQuery, VolumeQuality,
    VolumeWithFailedPages,
};
pub use change::{Change, Expected, Outcome, apply};
pub use corrections::{EditOutcome, EditQuery, NewEdit};
pub use embedded::{EmbeddedError, EmbeddedPostgres, data_folder};
pub use error::StateError;
pub use inbox::{Inbox, OpenRequests, Settled, Taken, VolumeRequest};
pub use memory::MemoryStore;
pub use nodes::NodeSnapshot;
pub use outbox::{Outbox, Outgoing};
#[cfg(any(test, feature = "testing"))]
pub use postgres::testing::with_clock_ahead;
pub use postgres::{
    ClaimedEntity, CommandChanges, EntityCounts, EntityDatabase, EntityError, EntityLack, EntityOutcome,
    EntityTable, FilingsError, FilingsTable, Finding, FolderDatabases, JobChanges, Leadership,
    LeadershipTimings, PostgresStore, QueuedRows, StageCounts, StuckEntities, SubmittedJob, UnfitEntity,
    UnfitFilings, WorkChanges,
};
pub use rerun::{RerunPreview, RerunResult, Sample};
pub use services::ServiceStore;
pub use statistics::{DURATION_BOUNDS_S, JobTaskCount, Paces, StageStatistics};
pub use store::{ClaimRequest, StateStore};
pub use verdict::{ReportContext, change_for, change_of};
pub use volumes::{
    ImportOutcome, ListRecord, Readers, VolumeImport, VolumeListing, VolumeQuery, VolumeRecord, VolumeWork,
};
