//! Texts that are SQL: recognised by how a statement is built, not by how its words are written.

/// Words in this order, with anything between them where `..` stands.
const STATEMENTS: [&str; 22] = [
    "select .. from",
    "insert into",
    "update .. set",
    "delete from",
    "with .. as (",
    "merge into",
    "truncate table",
    "create table",
    "create unique index",
    "create index",
    "create function",
    "create or replace",
    "create trigger",
    "create role",
    "create database",
    "create schema",
    "create temporary",
    "alter table",
    "alter role",
    "drop table",
    "drop database",
    "lock table",
];

/// Pieces that a statement is put together from.
const PIECES: [&str; 9] = [
    "for update",
    "on conflict",
    "returning id",
    "order by",
    "group by",
    "= any($",
    "= $1",
    "pg_notify(",
    "pg_advisory",
];

/// Whether a text is a statement of SQL or a piece of one.
pub(super) fn is_sql(text: &str) -> bool {
    let text = text.to_lowercase();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let begins = |statement: &str| match statement.split_once(" .. ") {
        None => follows(&text, statement).is_some(),
        Some((start, then)) => follows(&text, start).is_some_and(|rest| {
            rest.match_indices(then)
                .any(|(at, _)| is_edge(&rest[..at]) && ends_word(&rest[at + then.len()..], then))
        }),
    };
    STATEMENTS.iter().any(|statement| begins(statement)) || PIECES.iter().any(|piece| text.contains(piece))
}

/// What follows a word at the beginning of a text.
fn follows<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.strip_prefix(word).filter(|rest| ends_word(rest, word))
}

fn ends_word(rest: &str, word: &str) -> bool {
    word.ends_with('(') || rest.is_empty() || rest.starts_with(' ')
}

fn is_edge(before: &str) -> bool {
    before.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::is_sql;

    #[test]
    fn statements_are_recognised_in_any_case() {
        for text in [
            "select id from jobs",
            "SELECT\n    count(*)\nFROM tasks",
            "  Insert Into tasks (id) values ($1)",
            "update tasks\nset status = 'ready'",
            "delete from tasks",
            "with open as (select 1) ",
            " where job = $1 for update skip locked",
            "create unique index jobs_key on jobs (key)",
        ] {
            assert!(is_sql(text), "{text}");
        }
    }

    #[test]
    fn prose_is_no_sql() {
        for text in [
            "select a volume",
            "updates the settings of a job",
            "with tables as they are",
            "delete the job",
            "inserted into a tray",
            "create a job",
        ] {
            assert!(!is_sql(text), "{text}");
        }
    }
}
