//! `tail`: changes in a cluster, line by line.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::parse::{ParsedLine, parse};
use crate::session::{Given, Session};

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
    deeds: Vec<(String, String)>,
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
                    show(lines).await;
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
    let deeds = rows(&deeds, "entries").map(|deed| {
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
        (text(&deed["at"]), line)
    });
    picture.deeds = deeds.collect();
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

fn changes(before: &Picture, now: &Picture) -> Vec<String> {
    let last = before.deeds.last();
    let newer = now
        .deeds
        .iter()
        .filter(|deed| last.is_none_or(|last| deed.0 > last.0));
    let mut lines: Vec<String> = newer.map(|(_, line)| line.clone()).collect();
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
        let owned = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
        Picture {
            things: things.iter().map(owned).collect(),
            deeds: deeds.iter().map(owned).collect(),
        }
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
