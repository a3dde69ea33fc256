//! Tests wait through the helper of `tests/support`, which pauses between looks, gives up in the end and says what it last saw.

use super::paths::paths;
use super::report;
use super::source::{SOURCES, Source};
use super::tokens::{Token, lines_of};

/// The crate whose helper sleeps for all others.
const HELPER: &str = "tests/support";
/// Folder of what goes on for a time, and waits for nothing.
const FUZZ: &str = "tests/fuzz";

/// Paths that hold up a test for a time, whatever happens.
const SLEEPS: [&str; 2] = ["thread::sleep", "time::sleep"];

/// Signs of a loop that waits by itself without a pause.
const SPINS: [&str; 3] = ["yield_now", "spin_loop", "recv_timeout"];

/// Signs of a loop with a deadline of its own.
const DEADLINES: [&str; 3] = ["Instant :: now", "SystemTime :: now", ". elapsed ("];

/// Waits of unit tests of actors that are still to be turned over to the helper; the aim is none.
const LEFT_IN_ACTORS: usize = 9;

/// Lines at which a file waits by itself. On paused time neither a sleep nor a look at the clock is a wait.
fn waits(source: &Source, on_paused_time: bool) -> Vec<usize> {
    let named = paths(&source.tests);
    let sleeps = named.iter().filter(|path| {
        let mut sleeps = SLEEPS.iter();
        sleeps.any(|sleep| path.has(sleep) && !(on_paused_time && *sleep == "time::sleep"))
    });
    let mut lines: Vec<usize> = sleeps.map(|path| path.line).collect();
    for body in loops(&source.tests) {
        let deadlines = DEADLINES.iter().filter(|_| !on_paused_time);
        for sign in SPINS.iter().chain(deadlines) {
            lines.extend(lines_of(body, sign));
        }
    }
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Conditions and bodies of `loop` and `while`.
fn loops(tokens: &[Token]) -> Vec<&[Token]> {
    let heads = (0..tokens.len()).filter(|at| tokens[*at].is("loop") || tokens[*at].is("while"));
    let ends = heads.filter_map(|at| Some((at, end_of_block(&tokens[at..])?)));
    ends.map(|(at, length)| &tokens[at..at + length]).collect()
}

/// Length of what goes to the end of the first block that stands in no other bracket.
fn end_of_block(tokens: &[Token]) -> Option<usize> {
    let mut open: Vec<&str> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match ["(", "[", "{", ")", "]", "}"]
            .into_iter()
            .find(|bracket| token.is(bracket))
        {
            Some(bracket @ ("(" | "[" | "{")) => open.push(bracket),
            Some(_) => {
                let opened = open.pop()?;
                if opened == "{" && open.is_empty() {
                    return Some(index + 1);
                }
            }
            None => {}
        }
    }
    None
}

#[test]
fn tests_wait_through_the_helper_only() {
    // One binary, one folder: its helpers sleep on the clock that its tests have paused.
    let folder = |source: &'static Source| source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let paused: Vec<&str> = SOURCES
        .iter()
        .filter(|source| !lines_of(&source.tests, "start_paused = true").is_empty())
        .map(folder)
        .collect();
    let mut broken = Vec::new();
    for source in SOURCES
        .iter()
        .filter(|source| source.folder != HELPER && source.folder != FUZZ)
    {
        let on_paused_time = paused.iter().any(|folder| source.path.starts_with(folder));
        let lines = waits(source, on_paused_time).into_iter();
        broken.extend(lines.map(|line| format!("{}:{line}", source.path)));
    }
    let (left, broken): (Vec<_>, Vec<_>) = broken
        .into_iter()
        .partition(|place| place.starts_with("actors/") && place.contains("/src/"));
    if left.len() > LEFT_IN_ACTORS {
        report("more unit tests of actors wait by themselves", left);
    }
    report("tests wait on events, paused time or the helper", broken);
}

#[test]
fn a_sleep_and_a_spinning_loop_are_seen() {
    let lines = |text: &str, paused: bool| {
        let text = format!("#[cfg(test)]\nmod tests {{\n{text}\n}}");
        waits(&Source::made_up("actors/src/a.rs", &text), paused)
    };
    assert_eq!(lines("fn f() { std::thread::sleep(x) }", true), [3]);
    assert_eq!(lines("use tokio::time::{self, sleep};", false), [3]);
    assert!(lines("use tokio::time::{self, sleep};", true).is_empty());
    let spins = "async fn f() { while a(|b| { c }) {\n yield_now().await; } }";
    assert_eq!(lines(spins, true), [4]);
    let deadline = "fn f() { while !a() {\n assert!(Instant::now() < end); } }";
    assert_eq!(lines(deadline, false), [4]);
    assert!(lines(deadline, true).is_empty());
    assert!(lines("async fn f() { yield_now().await; while a { b } }", false).is_empty());
}
