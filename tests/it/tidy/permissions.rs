//! docs/permissions.md: the requests that shipped code makes of AWS, and the policies that allow them.

use std::collections::{BTreeMap, BTreeSet};

use parkhang_actors::stage::StageTable;
use parkhang_core::domain::Hardware;
use serde::Deserialize;

use super::source::{SOURCES, Source};
use super::tokens::Token;
use super::{report, root};

const PAGE: &str = "docs/permissions.md";

/// Rooms that hold a client of AWS, with the name of the service.
const CLIENTS: [(&str, &str); 4] = [
    ("queue/sqs", "sqs"),
    ("storage/s3", "s3"),
    ("launcher/ecs", "ecs"),
    ("launcher/asg", "autoscaling"),
];

/// Methods of a client that send nothing.
const SILENT: [&str; 1] = ["clone"];

/// A request in the words of the page, such as `sqs receive_message`.
type Request = String;

/// A row of the table.
#[derive(Debug)]
struct Row {
    request: Request,
    action: String,
    roles: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Policy {
    version: String,
    statement: Vec<Statement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Statement {
    sid: String,
    effect: String,
    action: OneOrMore,
    resource: OneOrMore,
}

/// Text or list of texts, as IAM takes either.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn all(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::More(texts) => texts,
        }
    }
}

/// Methods that code calls on something named `client`.
fn calls(tokens: &[Token]) -> BTreeSet<&str> {
    let called = tokens.windows(4).filter(|window| {
        window[0].is("client") && window[1].is(".") && window[2].is_word() && window[3].is("(")
    });
    let names = called.map(|window| window[2].text.as_str());
    names.filter(|name| !SILENT.contains(name)).collect()
}

fn requests_of(source: &Source) -> impl Iterator<Item = Request> {
    let rooms = CLIENTS.iter().filter(|(room, _)| source.is_in(room));
    rooms.flat_map(|(_, service)| {
        let calls = calls(&source.shipped).into_iter();
        calls.map(move |call| format!("{service} {call}"))
    })
}

fn page() -> String {
    std::fs::read_to_string(root().join(PAGE)).unwrap()
}

/// Rows of the table, whose header names the roles from the third column on.
fn rows(page: &str) -> Vec<Row> {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim_matches('|').split('|');
        line.map(|cell| cell.trim().replace('`', "")).collect()
    };
    let mut lines = page.lines().filter(|line| line.starts_with('|'));
    let header = cells(lines.next().unwrap());
    let row = |line: &str| {
        let cells = cells(line);
        assert_eq!(cells.len(), header.len(), "{line}");
        let marked = header
            .iter()
            .zip(&cells)
            .skip(2)
            .filter(|(_, cell)| *cell == "yes");
        let roles = marked.flat_map(|(role, _)| role.split(", ").map(str::to_owned));
        Row {
            request: cells[0].clone(),
            action: cells[1].clone(),
            roles: roles.collect(),
        }
    };
    lines.skip(1).map(row).collect()
}

/// Policies of the page, each under a heading with the name of its role.
fn policies(page: &str) -> BTreeMap<&str, Policy> {
    let sections = page.split("\n## ").skip(1);
    let parsed = sections.map(|section| {
        let (role, text) = section.split_once('\n').unwrap();
        let (_, json) = text
            .split_once("```json\n")
            .unwrap_or_else(|| panic!("{role} has no policy"));
        let json = json.split("```").next().unwrap();
        (
            role,
            serde_json::from_str(json).unwrap_or_else(|error| panic!("{role}: {error}")),
        )
    });
    parsed.collect()
}

/// Names of the queues that a statement is about.
fn queues(statement: &Statement) -> BTreeSet<&str> {
    let resources = statement.resource.all().iter();
    resources
        .filter_map(|resource| resource.strip_prefix("arn:aws:sqs:"))
        .filter_map(|place| place.rsplit(':').next())
        .collect()
}

#[test]
fn the_documented_requests_are_those_of_the_code() {
    let made: BTreeSet<Request> = SOURCES.iter().flat_map(requests_of).collect();
    for (_, service) in CLIENTS {
        let prefix = format!("{service} ");
        assert!(
            made.iter().any(|request| request.starts_with(&prefix)),
            "no request to {service} was found"
        );
    }
    let documented: BTreeSet<Request> = rows(&page()).into_iter().map(|row| row.request).collect();
    let differing = made.symmetric_difference(&documented).cloned().collect();
    report(
        "docs/permissions.md has each request that the code makes of AWS, and no other",
        differing,
    );
}

/// Rows: 147.
#[test]
fn a_policy_allows_what_its_role_asks_for_and_nothing_else() {
    let page = page();
    let rows = rows(&page);
    let policies = policies(&page);
    let roles: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| row.roles.iter().map(String::as_str))
        .collect();
    assert_eq!(
        roles,
        policies.keys().copied().collect(),
        "each role of the table has a policy"
    );
    for (role, policy) in &policies {
        let needed = rows.iter().filter(|row| row.roles.contains(*role));
        let needed: BTreeSet<&str> = needed.map(|row| row.action.as_str()).collect();
        let statements = policy.statement.iter();
        let allowed: BTreeSet<&str> = statements
            .flat_map(|it| it.action.all().iter().map(String::as_str))
            .collect();
        assert_eq!(allowed, needed, "{role}");
        assert_eq!(policy.version, "2012-10-17", "{role}");
        for Statement {
            sid,
            effect,
            action,
            resource,
        } in &policy.statement
        {
            assert_eq!(effect, "Allow", "{role} {sid}");
            for resource in resource.all() {
                let service = resource.split(':').nth(2);
                let is_meant = |action: &String| action.split(':').next() == service;
                // AWS knows no resource for it.
                let is_free = |action: &String| action == "autoscaling:DescribeAutoScalingGroups";
                let fits = if resource == "*" {
                    action.all().iter().all(is_free)
                } else {
                    action.all().iter().all(is_meant)
                };
                assert!(fits, "{role} {sid}: {resource}");
            }
        }
    }
}

/// Rows: 147.
#[test]
fn a_worker_has_rights_to_the_queues_of_its_stages_alone() {
    let page = page();
    let policies = policies(&page);
    let table = StageTable::built_in();
    for (role, hardware) in [("gpu", Hardware::Gpu), ("cpu", Hardware::Cpu)] {
        let stages = table.stages().iter().filter(|stage| stage.hardware == hardware);
        let names: BTreeSet<String> = stages.map(|stage| stage.name.replace('_', "-")).collect();
        let named = |ending: &str| -> BTreeSet<String> {
            names.iter().map(|name| format!("ocr-{name}{ending}")).collect()
        };
        let of = |action: &str| -> BTreeSet<String> {
            let statements = policies[role].statement.iter();
            let meant = statements.filter(|it| it.action.all().iter().any(|allowed| allowed == action));
            meant.flat_map(queues).map(str::to_owned).collect()
        };
        assert_eq!(of("sqs:ReceiveMessage"), named(".fifo"), "{role}");
        assert_eq!(of("sqs:DeleteMessage"), named(".fifo"), "{role}");
        assert_eq!(of("sqs:SendMessage"), named("-dlq.fifo"), "{role}");
    }
}

#[test]
fn requests_are_found_wherever_a_client_makes_them() {
    let code = "fn f(&self) { self.link.client.purge_queue().queue_url(u); client\n.head_object(); self.client.clone(); fn client() {} }";
    let source = Source::made_up("actors/src/queue/sqs/x.rs", code);
    assert_eq!(
        calls(&source.shipped),
        BTreeSet::from(["head_object", "purge_queue"])
    );
}
