use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;

/// What happens to a request instead of its answer.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
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

#[derive(Debug)]
struct Planned {
    method: Method,
    /// Part of the path and query.
    within: &'static str,
    fault: Fault,
    remaining: usize,
}

/// Faults that come round for as long as the server lives.
#[derive(Debug)]
struct Weather {
    period: usize,
    faults: Vec<Fault>,
    requests: usize,
}

impl Weather {
    fn strike(&mut self, method: &Method) -> Option<Fault> {
        self.requests += 1;
        if !self.requests.is_multiple_of(self.period) {
            return None;
        }
        let fault = self.faults[self.requests / self.period % self.faults.len()];
        match fault {
            Fault::CutBody(_) | Fault::StallBody(_) if *method != Method::GET => None,
            fault => Some(fault),
        }
    }
}

/// The faults to come and the requests that came.
#[derive(Debug, Default)]
pub struct Faults {
    planned: Mutex<Vec<Planned>>,
    latency: Mutex<Option<(Method, Duration)>>,
    weather: Mutex<Option<Weather>>,
    requests: Mutex<Vec<(Method, String)>>,
}

impl Faults {
    /// Does `fault` to the next `times` requests of a method whose path and query hold `within`.
    pub fn plan(&self, method: Method, within: &'static str, times: usize, fault: Fault) {
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

    /// From now on, one request in `period` meets one of `faults` in turn; those of bodies strike reads only.
    pub fn come_round(&self, period: usize, faults: Vec<Fault>) {
        let weather = Weather {
            period,
            faults,
            requests: 0,
        };
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner) = Some(weather);
    }

    /// From now on, requests of a method are answered so much later, as by a server that is far away.
    pub fn delay(&self, method: Method, latency: Duration) {
        *self.latency.lock().unwrap_or_else(PoisonError::into_inner) = Some((method, latency));
    }

    pub(crate) fn latency(&self, of: &Method) -> Option<Duration> {
        let latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let own = latency.as_ref().filter(|(method, _)| method == of);
        own.map(|(_, latency)| *latency)
    }

    /// How many requests of a method came whose path and query hold `within`.
    pub fn requests(&self, method: &Method, within: &str) -> usize {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests
            .iter()
            .filter(|(sent, target)| sent == method && target.contains(within))
            .count()
    }

    pub(crate) fn strike(&self, method: &Method, target: &str) -> Option<Fault> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((method.clone(), target.to_owned()));
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let due = planned.iter_mut().find(|planned| {
            planned.remaining > 0 && planned.method == *method && target.contains(planned.within)
        });
        if let Some(due) = due {
            due.remaining -= 1;
            return Some(due.fault);
        }
        let mut weather = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        weather.as_mut()?.strike(method)
    }
}
