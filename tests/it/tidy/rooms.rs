//! The rooms of a crate, its top-level modules, never import in a circle: each can be read, tested and moved into a crate of its own
//! after those that it stands on.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::NamedPath;
use super::report;
use super::source::{SOURCES, Source};

/// The root of a crate: what stands in lib.rs or main.rs itself.
const ROOT: &str = "(root)";

/// One place where a room names another.
type Place = (String, usize);

/// From one room to another, with every place that makes the arrow.
type Arrows = BTreeMap<(String, String), BTreeSet<Place>>;

/// The rooms of one library or program, and the arrows between them.
struct Crate<'a> {
    sources: Vec<&'a Source>,
    rooms: BTreeSet<&'a str>,
    /// Names that the root of the crate takes from its rooms, with the room of each.
    reexports: BTreeMap<String, String>,
}

impl<'a> Crate<'a> {
    fn new(sources: Vec<&'a Source>) -> Self {
        let mut rooms = BTreeSet::new();
        let mut in_root = Vec::new();
        for source in &sources {
            rooms.extend(source.module.first().map(String::as_str));
            if source.module.is_empty() {
                in_root.extend(source.named());
            }
        }
        rooms.extend(
            in_root
                .iter()
                .filter_map(|path| path.within.first())
                .map(String::as_str),
        );
        let mut reexports = BTreeMap::new();
        for path in in_root {
            let segments = match path.segments.as_slice() {
                [first, rest @ ..] if first == "crate" || first == "self" => rest,
                all => all,
            };
            if let [room, .., name] = segments
                && rooms.contains(room.as_str())
                && !rooms.contains(name.as_str())
            {
                reexports.insert(name.clone(), room.clone());
            }
        }
        Self {
            sources,
            rooms,
            reexports,
        }
    }

    /// The room that a path leads to; none where it stays in its own or leaves the crate.
    fn target(&self, source: &Source, path: &NamedPath) -> Option<String> {
        let mut module: Vec<&String> = source.module.iter().chain(&path.within).collect();
        let is_root = module.is_empty();
        let mut segments = path.segments.iter();
        let mut first = segments.next()?;
        match first.as_str() {
            "crate" => {
                module.clear();
                first = segments.next()?;
            }
            "super" => {
                while first == "super" {
                    module.pop();
                    first = segments.next()?;
                }
            }
            // A name by itself means the room only in the root of the crate.
            name if is_root && self.rooms.contains(name) => {}
            _ => return None,
        }
        let name = module.first().copied().unwrap_or(first);
        let target = match self.rooms.get(name.as_str()) {
            Some(room) => room,
            None => self.reexports.get(name).map_or(ROOT, String::as_str),
        };
        (target != room_of(source, path)).then(|| target.to_owned())
    }

    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for source in &self.sources {
            for path in source.named() {
                if let Some(room) = self.target(source, path) {
                    let places = arrows
                        .entry((room_of(source, path).to_owned(), room))
                        .or_default();
                    places.insert((source.path.clone(), path.line));
                }
            }
        }
        arrows
    }
}

/// The room in which a path stands.
fn room_of<'a>(source: &'a Source, path: &'a NamedPath) -> &'a str {
    let mut modules = source.module.iter().chain(&path.within);
    modules.next().map_or(ROOT, String::as_str)
}

/// Sets of rooms that reach each other, the smallest first.
fn knots(arrows: &Arrows) -> Vec<BTreeSet<&str>> {
    let mut reach: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, _) in arrows.keys() {
        reach.entry(from).or_insert_with(|| reached(arrows, from));
    }
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (room, reached) in &reach {
        let comes_back = |other: &&str| reach.get(other).is_some_and(|rooms| rooms.contains(room));
        let knot: BTreeSet<&str> = reached.iter().copied().filter(comes_back).collect();
        if !knot.is_empty() && !found.contains(&knot) {
            found.push(knot);
        }
    }
    found.sort_by_key(BTreeSet::len);
    found
}

fn reached<'a>(arrows: &'a Arrows, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(room) = open.pop() {
        for (_, next) in arrows.keys().filter(|(start, _)| start == room) {
            if reached.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    reached
}

/// The shortest way from a room of a knot back to it.
fn circle(arrows: &Arrows, knot: &BTreeSet<&str>) -> Vec<String> {
    let mut best: Vec<String> = Vec::new();
    for start in knot {
        let mut ways = vec![vec![(*start).to_owned()]];
        let mut seen = BTreeSet::new();
        'search: while !ways.is_empty() {
            let mut longer = Vec::new();
            for way in ways {
                let last = way.last().cloned().unwrap_or_default();
                for (_, next) in arrows.keys().filter(|(from, _)| *from == last) {
                    let mut way = way.clone();
                    way.push(next.clone());
                    if next == start {
                        if best.is_empty() || way.len() < best.len() {
                            best = way;
                        }
                        break 'search;
                    }
                    if seen.insert(next.clone()) {
                        longer.push(way);
                    }
                }
            }
            ways = longer;
        }
    }
    best
}

/// What is wrong with the rooms of a crate: for each knot a shortest circle, and every arrow that ties it.
fn circles(name: &str, sources: Vec<&Source>) -> Vec<String> {
    let arrows = Crate::new(sources).arrows();
    let mut found = Vec::new();
    for knot in knots(&arrows) {
        let way = circle(&arrows, &knot).join(" -> ");
        found.push(format!("{name}: {way}; {} rooms hang together:", knot.len()));
        let inside = |room: &String| knot.contains(room.as_str());
        for ((from, to), places) in arrows.iter().filter(|((from, to), _)| inside(from) && inside(to)) {
            let places: Vec<String> = places
                .iter()
                .map(|(path, line)| format!("{path}:{line}"))
                .collect();
            found.push(format!("    {from} -> {to}: {}", places.join(" ")));
        }
    }
    found
}

#[test]
fn rooms_do_not_import_in_a_circle() {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in SOURCES.iter() {
        if let Some(program) = &source.program {
            crates.entry(program).or_default().push(source);
        }
    }
    let mut found = Vec::new();
    for (name, sources) in crates {
        found.extend(circles(name, sources));
    }
    report("rooms never import in a circle", found);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::made_up(&format!("actors/src/{path}"), text))
            .collect();
        circles("actors", sources.iter().collect())
    }

    #[test]
    fn a_circle_is_named_with_the_line_of_each_arrow() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a/mod.rs", "\nuse crate::{b::B, d};"),
            ("b.rs", "fn f() -> u8 {\n    crate::c::seven()\n}"),
            ("c/deep.rs", "use super::super::a::A;"),
            ("c/mod.rs", "pub mod deep;"),
            ("d.rs", ""),
        ];
        assert_eq!(
            found(&files),
            [
                "actors: a -> b -> c -> a; 3 rooms hang together:",
                "    a -> b: actors/src/a/mod.rs:2",
                "    b -> c: actors/src/b.rs:2",
                "    c -> a: actors/src/c/deep.rs:1",
            ]
        );
    }

    #[test]
    fn what_tests_import_ties_no_knot() {
        let files = [
            ("a.rs", "use crate::b::B;"),
            (
                "b.rs",
                "#[cfg(test)]\nuse crate::a::A;\n#[cfg(test)]\nmod tests { use crate::a::A; }",
            ),
        ];
        assert!(found(&files).is_empty());
        let files = [files[0], ("b.rs", "#[cfg(test)]\nmod tests {}\nuse crate::a::A;")];
        assert_eq!(found(&files).len(), 3);
    }

    #[test]
    fn an_arrow_through_the_root_is_one_to_the_room_behind_it() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use crate::b::{B, C};"),
            ("a.rs", "use crate::B;"),
            ("b/mod.rs", "mod inner { use super::super::A; }"),
        ];
        assert_eq!(found(&files).len(), 3);
    }

    #[test]
    fn a_room_takes_nothing_that_stands_in_the_root() {
        let files = [
            ("main.rs", "mod a;\nconst B: u8 = 1;\nfn main() { a::run() }"),
            ("a.rs", "fn run() { crate::B }"),
        ];
        assert_eq!(
            found(&files),
            [
                "actors: (root) -> a -> (root); 2 rooms hang together:",
                "    (root) -> a: actors/src/main.rs:3",
                "    a -> (root): actors/src/a.rs:1",
            ]
        );
    }

    #[test]
    fn super_and_self_stay_in_the_room() {
        let files = [
            (
                "a/mod.rs",
                "mod b; use self::b::B; mod inner { use super::b::B; }",
            ),
            ("a/b.rs", "use super::A; use crate::b::B;"),
            ("b.rs", ""),
        ];
        assert!(found(&files).is_empty());
    }
}
