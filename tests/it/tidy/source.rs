//! The source of the workspace as the compiler finds it: from the root of each target along its `mod` declarations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, OnceLock};

use proc_macro2::TokenStream;
use serde::Deserialize;
use syn::{Item, ItemMod};

use super::paths::{NamedPath, paths};
use super::root;
use super::test_items::{is_for_tests, ranges};
use super::tokens::{Token, split, tokens};

/// Suites of tests that are public, so that the tests of other crates can run them.
pub(super) const SUITES: [&str; 1] = ["state/conformance"];

/// A member of the workspace.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// `dev` or `build`; none for one of the shipped code.
    pub(super) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Package {
    /// Its folder, from the root of the repository.
    pub(super) fn folder(&self) -> String {
        let folder = self.manifest_path.parent().expect("a manifest lies in a folder");
        relative(folder)
    }

    /// Whether it is on the way to a user: all packages but those of `tests`.
    pub(super) fn ships(&self) -> bool {
        let folder = self.folder();
        folder != "tests" && !folder.starts_with("tests/")
    }
}

/// A file of Rust that some target of the workspace is made of.
#[derive(Debug)]
pub(super) struct Source {
    /// From the root of the repository, with slashes.
    pub(super) path: String,
    /// Folder of its package.
    pub(super) folder: String,
    /// Name of the library or program that it belongs to; none for tests and benches.
    pub(super) program: Option<String>,
    /// Its module, from the root of the crate.
    pub(super) module: Vec<String>,
    pub(super) text: String,
    /// Everything but what is for tests only; empty where the whole file is.
    pub(super) shipped: Vec<Token>,
    pub(super) tests: Vec<Token>,
    named: OnceLock<Vec<NamedPath>>,
}

impl Source {
    /// Paths that its shipped code names.
    pub(super) fn named(&self) -> &[NamedPath] {
        self.named.get_or_init(|| paths(&self.shipped))
    }

    /// Reads one file, as the tests of the rules make them up.
    pub(super) fn made_up(path: &str, text: &str) -> Self {
        let place = Place {
            folder: "actors".to_owned(),
            program: Some("actors".to_owned()),
            module: modules_of(path),
            ships: true,
        };
        Self::read(path, &place, text, parsed(path, text))
    }

    fn read(path: &str, place: &Place, text: &str, (stream, file): (TokenStream, syn::File)) -> Self {
        let all = tokens(stream);
        let mut source = Self {
            path: path.to_owned(),
            folder: place.folder.clone(),
            program: place.program.clone(),
            module: place.module.clone(),
            text: text.to_owned(),
            shipped: Vec::new(),
            tests: Vec::new(),
            named: OnceLock::new(),
        };
        if place.ships && !SUITES.iter().any(|suite| source.is_in(suite)) {
            (source.tests, source.shipped) = split(all, &ranges(&file));
        } else {
            source.tests = all;
        }
        source
    }

    /// Whether it lies in a room, named from the source folder of a crate (`domain`) or from the folder of crates (`state/postgres`,
    /// also where `state` has become a crate). A room is a folder, a file or a part of a folder.
    pub(super) fn is_in(&self, room: &str) -> bool {
        let package = Path::new(&self.folder);
        let inside = Path::new(&self.path)
            .strip_prefix(package)
            .unwrap_or(Path::new(&self.path));
        let inside = inside.strip_prefix("src").unwrap_or(inside);
        let without_group = package.components().skip(1).collect::<PathBuf>().join(inside);
        [inside, &without_group].into_iter().any(|place| {
            let place = place.with_extension("");
            place.starts_with(room)
        })
    }
}

/// A file as tokens and as a tree, which share their positions.
fn parsed(path: &str, text: &str) -> (TokenStream, syn::File) {
    let stream: TokenStream = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    let file = syn::parse2(stream.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
    (stream, file)
}

fn modules_of(path: &str) -> Vec<String> {
    let inside = path
        .split_once("src/")
        .expect("below src")
        .1
        .trim_end_matches(".rs");
    let parts = inside
        .split('/')
        .filter(|part| !["mod", "lib", "main"].contains(part));
    parts.map(str::to_owned).collect()
}

/// Members of the workspace, from its Cargo.toml.
pub(super) static PACKAGES: LazyLock<Vec<Package>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {errors}");
    let metadata: Metadata = serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");
    metadata.packages
});

/// Every file of every target, once; one that both ships and is part of a test ships.
pub(super) static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let mut walk = Walk::default();
    for package in PACKAGES.iter() {
        let mut targets: Vec<&Target> = package.targets.iter().collect();
        targets.sort_by_key(|target| !target.is_product());
        for target in targets {
            let path = relative(&target.src_path);
            let place = Place {
                folder: package.folder(),
                program: target
                    .is_product()
                    .then(|| format!("{} {}", package.name, target.kind[0])),
                module: Vec::new(),
                ships: target.is_product() && package.ships(),
            };
            walk.file(&path, parent(&path), &place);
        }
    }
    walk.found.into_values().collect()
});

impl Target {
    /// A library, a program, or what builds them: no test, bench or example.
    fn is_product(&self) -> bool {
        let others = ["test", "bench", "example"];
        !self.kind.iter().any(|kind| others.contains(&kind.as_str()))
    }
}

fn relative(path: &Path) -> String {
    let relative = path
        .strip_prefix(root())
        .expect("below the root of the repository");
    relative.to_str().expect("paths are UTF-8").to_owned()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Position of a file in the workspace.
#[derive(Debug, Clone)]
struct Place {
    folder: String,
    program: Option<String>,
    module: Vec<String>,
    ships: bool,
}

#[derive(Default)]
struct Walk {
    found: BTreeMap<String, Source>,
}

impl Walk {
    /// Reads a file and those that it declares, which lie in `below`.
    fn file(&mut self, path: &str, below: &str, place: &Place) {
        if self.found.contains_key(path) {
            return;
        }
        let text =
            std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let (stream, file) = parsed(path, &text);
        let place = Place {
            ships: place.ships && !is_for_tests(&file.attrs),
            ..place.clone()
        };
        self.items(path, below, &file.items, &place);
        let source = Source::read(path, &place, &text, (stream, file));
        self.found.insert(path.to_owned(), source);
    }

    fn items(&mut self, path: &str, below: &str, items: &[Item], place: &Place) {
        for item in items {
            let Item::Mod(module) = item else {
                continue;
            };
            let name = module.ident.to_string();
            let mut inner = place.clone();
            inner.module.push(name.clone());
            inner.ships &= !is_for_tests(&module.attrs);
            if let Some((_, items)) = &module.content {
                self.items(path, &format!("{below}/{name}"), items, &inner);
                continue;
            }
            if let Some(named) = path_attribute(module) {
                let file = joined(parent(path), &named);
                self.file(&file, parent(&file), &inner);
                continue;
            }
            let folder = format!("{below}/{name}");
            let candidates = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
            let file = candidates.iter().find(|file| root().join(file).is_file());
            let file = file.unwrap_or_else(|| panic!("{path} declares `{name}`, of which there is no file"));
            self.file(file, &folder, &inner);
        }
    }
}

fn path_attribute(module: &ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(path),
                ..
            }) if pair.path.is_ident("path") => Some(path.value()),
            _ => None,
        }
    })
}

/// `named`, seen from `folder`, without `..`.
fn joined(folder: &str, named: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in named.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tracked;

    #[test]
    fn every_file_of_rust_is_part_of_a_target() {
        let read: Vec<&str> = SOURCES.iter().map(|source| source.path.as_str()).collect();
        let forgotten = tracked()
            .into_iter()
            .filter(|path| path.ends_with(".rs") && !read.contains(&path.as_str()));
        crate::tidy::report(
            "a file that nobody compiles is deleted or declared",
            forgotten.collect(),
        );
    }

    #[test]
    fn a_room_is_found_in_a_crate_and_as_a_crate() {
        let at = |path: &str, folder: &str, room: &str| {
            let source = Source {
                folder: folder.to_owned(),
                ..Source::made_up(path, "")
            };
            source.is_in(room)
        };
        assert!(at("actors/src/domain/job.rs", "actors", "domain"));
        assert!(at("actors/src/domain.rs", "actors", "domain"));
        assert!(at("actors/core/src/domain/job.rs", "actors/core", "domain"));
        assert!(at("actors/src/state/postgres/x.rs", "actors", "state/postgres"));
        assert!(at(
            "actors/state/src/postgres/x.rs",
            "actors/state",
            "state/postgres"
        ));
        assert!(!at("actors/src/state/domain/x.rs", "actors", "domain"));
        assert!(!at("actors/src/domains.rs", "actors", "domain"));
    }

    #[test]
    fn a_path_attribute_leads_out_of_its_folder() {
        assert_eq!(
            joined("node/tests/chaos", "../it/support.rs"),
            "node/tests/it/support.rs"
        );
    }
}
