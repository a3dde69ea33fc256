use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Lines of each process that a failing test shows.
const SHOWN: usize = 60;

/// What all processes of a cluster have said, as they said it.
#[derive(Clone)]
pub(crate) struct Journal {
    lines: Arc<Mutex<Vec<Line>>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) process: String,
    pub(crate) text: String,
    pub(crate) at: Instant,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self {
            lines: Arc::default(),
        }
    }

    pub(crate) fn push(&self, process: &str, text: String) {
        self.lines.lock().unwrap().push(Line {
            process: process.to_owned(),
            text,
            at: Instant::now(),
        });
    }

    /// Where the next line will be.
    pub(crate) fn end(&self) -> usize {
        self.lines.lock().unwrap().len()
    }

    /// The first line from `start` on that holds `part`.
    pub(crate) fn find(&self, start: usize, part: &str) -> Option<Line> {
        let lines = self.lines.lock().unwrap();
        lines[start..]
            .iter()
            .find(|line| line.text.contains(part))
            .cloned()
    }

    /// As [`Journal::find`], in the words of one process.
    pub(crate) fn find_of(&self, process: &str, start: usize, part: &str) -> Option<Line> {
        let lines = self.lines.lock().unwrap();
        let mut own = lines[start..].iter().filter(|line| line.process == process);
        own.find(|line| line.text.contains(part)).cloned()
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines.lock().unwrap();
        let mut processes: Vec<&str> = lines.iter().map(|line| line.process.as_str()).collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes {
            writeln!(f, "--- {process}")?;
            let own: Vec<&Line> = lines.iter().filter(|line| line.process == process).collect();
            for line in &own[own.len().saturating_sub(SHOWN)..] {
                writeln!(f, "{}", line.text)?;
            }
        }
        Ok(())
    }
}
