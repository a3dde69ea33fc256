use std::sync::{Mutex, PoisonError};

use hyper::Method;

/// What happens to a request instead of its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Nothing is done; the answer is this status and error code.
    Refuse(u16, &'static str),
    /// Nothing is done and no answer comes.
    Silence,
    /// The request is carried out, then the connection closes without an answer.
    LoseAnswer,
    /// The connection closes after so many bytes of the body.
    CutBody(usize),
    /// After so many bytes of the body no more come.
    StallBody(usize),
}

struct Planned {
    method: Method,
    /// Part of the path and query.
    within: &'static str,
    fault: Fault,
    remaining: usize,
}

/// The faults to come and the requests that came.
#[derive(Default)]
pub(crate) struct Faults {
    planned: Mutex<Vec<Planned>>,
    requests: Mutex<Vec<(Method, String)>>,
}

impl Faults {
    /// Does `fault` to the next `times` requests of a method whose path and query hold `within`.
    pub(crate) fn plan(&self, method: Method, within: &'static str, times: usize, fault: Fault) {
        let planned = Planned {
            method,
            within,
            fault,
            remaining: times,
        };
        self.planned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(planned);
    }

    /// How many requests of a method came whose path and query hold `within`.
    pub(crate) fn requests(&self, method: &Method, within: &str) -> usize {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests
            .iter()
            .filter(|(sent, target)| sent == method && target.contains(within))
            .count()
    }

    pub(super) fn strike(&self, method: &Method, target: &str) -> Option<Fault> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((method.clone(), target.to_owned()));
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let due = planned.iter_mut().find(|planned| {
            planned.remaining > 0 && planned.method == *method && target.contains(planned.within)
        })?;
        due.remaining -= 1;
        Some(due.fault)
    }
}
