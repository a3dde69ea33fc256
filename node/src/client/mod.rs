//! Requests to orchestrators from another process, over HTTP: which orchestrators there are, the token that is shown to them, and one
//! exchange with one of them.
//!
//! Each request has a connection of its own. An orchestrator closes an idle one whenever it likes, and only on a new connection it is
//! certain that a request which failed early was not carried out. The room knows no commands: it is given a method, a path and a body.

mod arguments;
mod exchange;
mod orchestrators;
mod registry;
mod tls;
mod token;
mod url;

pub use self::arguments::ServerArgs;
pub use self::exchange::{Call, CallError, Exchanged, Method};
pub use self::orchestrators::{Met, Orchestrators, Survey};
pub use self::registry::Registration;

/// Path below which the interface is.
pub const ROOT: &str = "/api/v1";
/// Below [`ROOT`]: the name of the orchestrator that answers, and of the one that leads.
pub const ORCHESTRATOR: &str = "/orchestrator";
/// Media type of an answer with its text for people, which a command line shows: `{"data": ..., "text": ..., "failed": ...}`.
pub const REPLY: &str = "application/vnd.parkhang.reply+json";
