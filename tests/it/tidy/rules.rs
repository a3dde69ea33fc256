//! What shipped code may name, and where: one row a rule.

use super::report;
use super::source::{SOURCES, SUITES, Source};
use super::sql::is_sql;
use super::tokens::{Kind, lines_of};

/// The code that a rule looks at.
enum Reach {
    Everything,
    /// These rooms alone.
    In(&'static [&'static str]),
    /// All rooms but these.
    Outside(&'static [&'static str]),
    /// All folders at the root of the repository but this one.
    OutsideFolder(&'static str),
    /// This folder at the root of the repository, but for these rooms.
    InFolder(&'static str, &'static [&'static str]),
}

impl Reach {
    fn rooms(&self) -> &'static [&'static str] {
        match self {
            Self::Everything | Self::OutsideFolder(_) => &[],
            Self::In(rooms) | Self::Outside(rooms) | Self::InFolder(_, rooms) => rooms,
        }
    }

    fn covers(&self, source: &Source) -> bool {
        let in_rooms = self.rooms().iter().any(|room| source.is_in(room));
        let in_folder = |folder: &str| source.path.split('/').next() == Some(folder);
        match self {
            Self::Everything => true,
            Self::In(_) => in_rooms,
            Self::Outside(_) => !in_rooms,
            Self::OutsideFolder(folder) => !in_folder(folder),
            Self::InFolder(folder, _) => in_folder(folder) && !in_rooms,
        }
    }
}

/// Something that a rule forbids.
enum Forbidden {
    /// A path, or a part of one; `*` at its end stands for any ending of its last name.
    Path(&'static str),
    /// Tokens with blanks between them.
    Code(&'static str),
    /// A text that is so.
    Text(fn(&str) -> bool),
}

struct Rule {
    says: &'static str,
    reach: Reach,
    forbids: &'static [Forbidden],
}

use Forbidden::{Code, Path, Text};

const UNWRAP: Rule = Rule {
    says: "no unwrap, todo or dbg outside tests",
    reach: Reach::Everything,
    forbids: &[
        Code(". unwrap ( )"),
        Code(":: unwrap"),
        Code("todo !"),
        Code("unimplemented !"),
        Code("dbg !"),
    ],
};

const SQL: Rule = Rule {
    says: "SQL lives in the Postgres store",
    reach: Reach::Outside(&["state/postgres", "state/embedded"]),
    forbids: &[Path("sqlx"), Text(is_sql)],
};

const KEYS: Rule = Rule {
    says: "artifact keys are built in artifact/layout alone",
    reach: Reach::Outside(&["artifact/layout"]),
    forbids: &[Text(is_key)],
};

const AWS: Rule = Rule {
    says: "only the stores, queues and launchers of AWS name its SDK",
    reach: Reach::Outside(&[
        "storage/s3",
        "queue/sqs",
        "launcher/aws",
        "launcher/ecs",
        "launcher/asg",
    ]),
    forbids: &[
        Path("aws_sdk*"),
        Path("aws_config"),
        Path("aws_runtime"),
        Path("aws_smithy*"),
        Path("aws_types"),
    ],
};

const BURN: Rule = Rule {
    says: "tensors stay inside models",
    reach: Reach::OutsideFolder("models"),
    forbids: &[Path("burn")],
};

const BINCODE: Rule = Rule {
    says: "bincode is named in wire/codec alone",
    reach: Reach::Outside(&["wire/codec"]),
    forbids: &[Path("bincode")],
};

const PURE: Rule = Rule {
    says: "domain and policy neither read clocks nor do I/O",
    reach: Reach::In(&["domain", "policy"]),
    forbids: &[
        Path("tokio*"),
        Path("std::fs"),
        Path("std::env"),
        Path("std::net"),
        Path("std::process"),
        Path("std::thread"),
        Path("Utc::now"),
        Path("Local::now"),
        Path("Instant::now"),
        Path("SystemTime"),
        Path("rand"),
        Code("async"),
    ],
};

const MODELS: Rule = Rule {
    says: "models take bytes and give data",
    reach: Reach::InFolder("models", &["weights", "checkpoint"]),
    forbids: &[
        Path("tokio*"),
        Path("std::fs"),
        Path("File::open"),
        Path("File::create"),
        Path("std::net"),
    ],
};

const RULES: [&Rule; 8] = [&UNWRAP, &SQL, &KEYS, &AWS, &BURN, &BINCODE, &PURE, &MODELS];

/// Whether a text is a key of an artifact, or the beginning or end of one.
fn is_key(text: &str) -> bool {
    let is_media_type = text.starts_with("application/");
    text.starts_with("jobs/") || text.contains("/parts/") || (text.ends_with(".parquet") && !is_media_type)
}

/// Lines of a file that break a rule.
fn broken(rule: &Rule, source: &Source) -> Vec<String> {
    let mut lines: Vec<usize> = Vec::new();
    for forbidden in rule.forbids {
        match forbidden {
            Path(path) => {
                let found = source.named().iter().filter(|named| named.has(path));
                lines.extend(found.map(|named| named.line));
            }
            Code(code) => lines.extend(lines_of(&source.shipped, code)),
            Text(is_such) => {
                let texts = source.shipped.iter().filter(|token| token.kind == Kind::Text);
                lines.extend(texts.filter(|token| is_such(&token.text)).map(|token| token.line));
            }
        }
    }
    lines.sort_unstable();
    lines.dedup();
    let shown = |line: usize| source.text.lines().nth(line - 1).unwrap_or_default().trim();
    lines
        .into_iter()
        .map(|line| format!("{}:{line}: {}", source.path, shown(line)))
        .collect()
}

fn hold(rule: &Rule) {
    let sources = SOURCES.iter().filter(|source| rule.reach.covers(source));
    let broken = sources.flat_map(|source| broken(rule, source));
    report(rule.says, broken.collect());
}

#[test]
fn shipped_code_does_not_unwrap() {
    hold(&UNWRAP);
}

#[test]
fn only_the_postgres_store_speaks_sql() {
    hold(&SQL);
}

#[test]
fn only_the_layout_builds_keys() {
    hold(&KEYS);
}

#[test]
fn the_aws_sdk_stays_behind_its_traits() {
    hold(&AWS);
}

#[test]
fn only_models_names_burn() {
    hold(&BURN);
}

#[test]
fn bincode_stays_in_its_codec() {
    hold(&BINCODE);
}

#[test]
fn domain_and_policy_are_pure() {
    hold(&PURE);
}

#[test]
fn models_do_no_io_but_reading_weights() {
    hold(&MODELS);
}

/// A room that has moved must not leave its rule behind unseen.
#[test]
fn the_rooms_of_the_rules_are_there() {
    let rooms = RULES.iter().flat_map(|rule| rule.reach.rooms());
    let missing = rooms.chain(&SUITES).filter(|room| {
        let mut sources = SOURCES.iter().filter(|source| source.program.is_some());
        !sources.any(|source| source.is_in(room))
    });
    let missing = missing.map(|room| format!("{room} is nowhere"));
    report("each room that a rule names exists", missing.collect());
}

#[test]
fn a_rule_sees_through_groups_lines_and_strings() {
    let seen = |rule: &Rule, path: &str, text: &str| broken(rule, &Source::made_up(path, text)).len();
    let path = "actors/src/domain/job.rs";
    assert_eq!(seen(&UNWRAP, path, "fn f() { x\n.unwrap() }"), 1);
    assert_eq!(seen(&UNWRAP, path, "fn f() { \".unwrap()\"; x.unwrap_or(1) }"), 0);
    assert_eq!(seen(&PURE, path, "use std::{fmt, fs};"), 1);
    assert_eq!(
        seen(&PURE, path, "use std::time::{Instant}; fn f() { Instant::now() }"),
        1
    );
    assert_eq!(
        seen(&SQL, path, "const Q: &str = \"select 1 as one\n from jobs\";"),
        1
    );
    assert_eq!(seen(&KEYS, path, "fn f() { format!(\"{volume}/parts/1\") }"), 1);
    assert_eq!(seen(&BURN, path, "use burn as b;"), 1);
}
