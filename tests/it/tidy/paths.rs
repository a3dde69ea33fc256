//! The paths that a file names, written out: `use std::{fs, net}` names `std::fs` and `std::net`.

use super::tokens::{Kind, Token};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedPath {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
    /// Inline modules of the file in which it stands.
    pub(super) within: Vec<String>,
}

impl NamedPath {
    /// Whether `wanted` (`std::fs`) lies in the path; a segment of it that ends in `*` stands for all that begin so.
    pub(super) fn has(&self, wanted: &str) -> bool {
        let wanted: Vec<&str> = wanted.split("::").collect();
        self.segments.windows(wanted.len()).any(|window| {
            let mut pairs = window.iter().zip(&wanted);
            pairs.all(|(segment, part)| match part.strip_suffix('*') {
                Some(start) => segment.starts_with(start),
                None => segment == part,
            })
        })
    }
}

/// Every path, in macros and in the texts of attributes too (`#[serde(with = "crate::seconds")]`). A name alone is a path of one segment.
pub(super) fn paths(tokens: &[Token]) -> Vec<NamedPath> {
    let mut reader = Reader {
        tokens,
        at: 0,
        within: Vec::new(),
        found: Vec::new(),
    };
    reader.block();
    reader.found
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    within: Vec<String>,
    found: Vec<NamedPath>,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn next_is(&self, ahead: usize, text: &str) -> bool {
        self.peek(ahead).is_some_and(|token| token.is(text))
    }

    /// Reads to the brace that closes the block.
    fn block(&mut self) {
        while let Some(token) = self.peek(0).cloned() {
            if token.is("}") {
                return;
            }
            if token.is("mod") && self.next_is(2, "{") {
                self.within.push(self.tokens[self.at + 1].text.clone());
                self.at += 3;
                self.block();
                self.within.pop();
            } else if token.is("mod") && self.next_is(2, ";") {
                self.at += 2;
            } else if token.is("{") {
                self.at += 1;
                self.block();
            } else if token.is_word() {
                self.path(Vec::new());
                continue;
            } else if token.kind == Kind::Text {
                self.text(&token);
            }
            self.at += 1;
        }
    }

    /// Reads one path, or all that a group of `use` holds.
    fn path(&mut self, mut segments: Vec<String>) {
        let mut line = 0;
        while let Some(token) = self.peek(0) {
            line = token.line;
            if token.is("{") && !segments.is_empty() {
                self.group(&segments);
                return;
            }
            if !token.is_word() && !token.is("*") {
                break;
            }
            segments.push(token.text.clone());
            self.at += 1;
            if !self.next_is(0, "::") {
                break;
            }
            self.at += 1;
        }
        self.push(segments, line);
    }

    fn group(&mut self, prefix: &[String]) {
        self.at += 1;
        while let Some(token) = self.peek(0).cloned() {
            if token.is("}") {
                self.at += 1;
                return;
            }
            if token.is("as") {
                // The name that follows is one of this file.
                self.at += 2;
            } else if token.is_word() || token.is("*") {
                self.path(prefix.to_vec());
            } else {
                self.at += 1;
            }
        }
    }

    fn text(&mut self, token: &Token) {
        let is_path = |text: &str| {
            text.chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
        };
        let starts = ["crate::", "super::"];
        if starts.iter().any(|start| token.text.starts_with(start)) && is_path(&token.text) {
            let segments = token.text.split("::").map(str::to_owned).collect();
            self.push(segments, token.line);
        }
    }

    fn push(&mut self, segments: Vec<String>, line: usize) {
        self.found.push(NamedPath {
            segments,
            line,
            within: self.within.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tokens::tokens;

    fn read(source: &str) -> Vec<String> {
        paths(&tokens(source.parse().unwrap()))
            .into_iter()
            .filter(|path| path.segments.len() > 1)
            .map(|path| {
                let within: String = path.within.iter().map(|name| format!("{name}/")).collect();
                format!("{}:{within}{}", path.line, path.segments.join("::"))
            })
            .collect()
    }

    #[test]
    fn groups_of_a_use_are_written_out() {
        assert_eq!(
            read("use std::{fs,\n net::{self as n, TcpStream}, io::*};"),
            [
                "1:std::fs",
                "2:std::net::self",
                "2:std::net::TcpStream",
                "2:std::io::*"
            ]
        );
    }

    #[test]
    fn macros_generics_attributes_and_inline_modules_are_read() {
        let source = "#[serde(with = \"crate::seconds\")]\nfn f() -> Vec<super::A> { a!(b => { c::d() }) }
            mod inner { mod deep { use super::super::x; } }\nfn g() { match e { E::F { g } => h::<i::J>() } \"not::read\" }";
        assert_eq!(
            read(source),
            [
                "1:crate::seconds",
                "2:super::A",
                "2:c::d",
                "3:inner/deep/super::super::x",
                "4:E::F",
                "4:i::J"
            ]
        );
    }

    #[test]
    fn a_part_of_a_path_is_found_by_whole_segments() {
        let path = |text: &str| paths(&tokens(text.parse().unwrap())).remove(0);
        assert!(path("std::fs::read").has("std::fs"));
        assert!(path("std::fs::File::open").has("File::open"));
        assert!(!path("std::fsx::read").has("std::fs"));
        assert!(path("aws_sdk_s3::Client").has("aws_sdk*"));
        assert!(!path("fs").has("std::fs"));
    }
}
