//! `tail`: changes in a cluster, line by line.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::parse::{ParsedLine, parse};
use crate::session::{Given, Session};
use crate::terminal::shown;

/// Command that lists jobs.
const JOBS: &str = "job list";
const NODES: &str = "nodes list";
const DEEDS: &str = "audit list --limit 100";

/// State of the cluster at one time.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Picture {
    /// States of `job NAME` and `node NAME`.
    things: BTreeMap<String, String>,
    /// Entries of the audit log with their times, the oldest first.
    deeds: Vec<(DateTime<Utc>, String)>,
}

/// Shows the state once, and then its changes for ever.
pub async fn follow(session: &Session, every: Duration, mut show: impl AsyncFnMut(Vec<String>)) {
    let mut before: Option<Picture> = None;
    loop {
        match look(session).await {
            Ok(now) => {
                let lines = match &before {
                    None => beginning(&now),
                    Some(before) => changes(before, &now),
                };
                if !lines.is_empty() {
                    let lines = lines.iter().map(|line| shown(line).into_owned());
                    show(lines.collect()).await;
                }
                before = Some(now);
            }
            // The last picture is kept over an outage, so that what changed meanwhile is shown after it.
            Err(reason) => show(vec![reason]).await,
        }
        tokio::time::sleep(every).await;
    }
}

async fn look(session: &Session) -> Result<Picture, String> {
    let mut picture = Picture::default();
    let jobs = ask(session, JOBS).await?;
    for job in rows(&jobs, "jobs") {
        let [volumes, done, running, failed] = ["volumes", "done", "running", "failed"].map(|key| &job[key]);
        let state = format!(
            "{}, {done} of {volumes} done, {running} running, {failed} failed",
            text(&job["status"])
        );
        picture.things.insert(format!("job {}", text(&job["job"])), state);
    }
    let nodes = ask(session, NODES).await?;
    for node in rows(&nodes, "nodes") {
        let leads = if node["leads"] == Value::Bool(true) {
            ", leads"
        } else {
            ""
        };
        let state = format!("{}{leads}", text(&node["state"]));
        picture
            .things
            .insert(format!("node {}", text(&node["name"])), state);
    }
    let deeds = ask(session, DEEDS).await?;
    for deed in rows(&deeds, "entries") {
        let refused = deed["refusal"]
            .as_str()
            .map_or(String::new(), |refusal| format!(", refused: {refusal}"));
        let line = format!(
            "{} gave {} {} ({}){refused}",
            text(&deed["who"]),
            text(&deed["command"]),
            deed["arguments"],
            text(&deed["via"]),
        );
        // As a time and not as its text, which does not sort: zeros at the end of a second's fraction are left out.
        let at = text(&deed["at"]).parse();
        let at = at.map_err(|error| format!("{}: {error}", deed["at"]))?;
        picture.deeds.push((at, line));
    }
    // The audit log lists the newest first, and a terminal shows the newest last.
    picture.deeds.reverse();
    Ok(picture)
}

async fn ask(session: &Session, line: &str) -> Result<Value, String> {
    let ParsedLine::Give(given) = parse(line)? else {
        return Err(format!("{line} asks nothing"));
    };
    let shown = session.give(&Given { json: true, ..given }).await?;
    serde_json::from_str(&shown.text).map_err(|error| error.to_string())
}

fn rows<'a>(answer: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    answer[key].as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn beginning(now: &Picture) -> Vec<String> {
    let things = now.things.iter().map(|(name, state)| format!("{name}: {state}"));
    things.collect()
}

/// Deeds of `now` that were not seen before.
fn newer<'a>(before: &'a Picture, now: &'a Picture) -> impl Iterator<Item = &'a str> {
    let last = before.deeds.last().map(|(at, _)| *at);
    // Another deed may be of the same instant as the last one seen, and those of that instant are told apart by what they were.
    let mut seen: Vec<&str> = before
        .deeds
        .iter()
        .filter(|(at, _)| Some(*at) == last)
        .map(|(_, line)| line.as_str())
        .collect();
    let not_before = now
        .deeds
        .iter()
        .filter(move |(at, _)| last.is_none_or(|last| *at >= last));
    not_before.filter_map(move |(at, line)| {
        let known = seen.iter().position(|seen| Some(*at) == last && seen == line);
        match known {
            Some(place) => {
                seen.swap_remove(place);
                None
            }
            None => Some(line.as_str()),
        }
    })
}

fn changes(before: &Picture, now: &Picture) -> Vec<String> {
    let mut lines: Vec<String> = newer(before, now).map(str::to_owned).collect();
    for (name, state) in &now.things {
        if before.things.get(name) != Some(state) {
            lines.push(format!("{name}: {state}"));
        }
    }
    let gone = before
        .things
        .keys()
        .filter(|name| !now.things.contains_key(*name));
    lines.extend(gone.map(|name| format!("{name}: not listed any more")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(things: &[(&str, &str)], deeds: &[(&str, &str)]) -> Picture {
        Picture {
            things: things
                .iter()
                .map(|(name, state)| ((*name).to_owned(), (*state).to_owned()))
                .collect(),
            deeds: deeds
                .iter()
                .map(|(second, line)| (time(second), (*line).to_owned()))
                .collect(),
        }
    }

    fn time(second: &str) -> DateTime<Utc> {
        format!("2026-11-22T10:00:{second}Z").parse().unwrap()
    }

    #[test]
    fn deeds_are_told_once_each_and_by_their_times() {
        let before = picture(&[], &[("01.100", "eva paused a")]);
        // A server writes it as 01.1Z, and as a text that is later than 01.123Z.
        let later = ("01.123", "otto resumed a");
        let together = [
            ("01.100", "eva paused a"),
            ("01.100", "eva paused b"),
            ("01.100", "eva paused a"),
            later,
        ];
        assert_eq!(
            changes(&before, &picture(&[], &together)),
            ["eva paused b", "eva paused a", "otto resumed a"]
        );
        let now = picture(&[], &together);
        assert_eq!(changes(&now, &now), [""; 0]);
        // The oldest go from the list as others come.
        assert_eq!(changes(&now, &picture(&[], &[later])), [""; 0]);
    }

    #[test]
    fn only_what_changed_is_told() {
        let before = picture(
            &[("job a", "running"), ("job b", "running"), ("node n", "joined")],
            &[("01", "eva paused a")],
        );
        assert_eq!(changes(&before, &before), [""; 0]);
        let now = picture(
            &[("job a", "completed"), ("job b", "running"), ("job c", "running")],
            &[("01", "eva paused a"), ("02", "otto resumed a")],
        );
        let message = [
            "otto resumed a",
            "job a: completed",
            "job c: running",
            "node n: not listed any more",
        ];
        assert_eq!(changes(&before, &now), message);
        assert_eq!(beginning(&before).len(), 3);
    }
}
