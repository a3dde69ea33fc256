//! The pages of the user guide: docs/SUMMARY.md names them all, their links lead somewhere, and the code that they name is there.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::tidy::{report, root, tracked};

const CONTENTS: &str = "docs/SUMMARY.md";

/// A link of a page: to a file, to a heading of it, or both.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    line: usize,
    file: String,
    heading: Option<String>,
}

fn text(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// Numbered lines outside blocks of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced && !line.starts_with("    ")).then_some((index + 1, line))
    })
}

/// Links within the repository.
fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (line, prose) in prose(text) {
        for target in prose
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = match target.split_once('#') {
                Some((file, heading)) => (file, Some(heading.to_owned())),
                None => (target, None),
            };
            let file = file.to_owned();
            found.push(Link { line, file, heading });
        }
    }
    found
}

/// Numbered words of a page in the type of code.
fn quoted(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text).flat_map(|(line, prose)| {
        let words = prose.split('`').skip(1).step_by(2);
        words.map(move |word| (line, word))
    })
}

/// True for a file or folder of this repository, `actors/src/stage`, that is no pattern for several.
fn is_path(word: &str) -> bool {
    let folders = [
        "actors",
        "deploy",
        "docs",
        "migrations",
        "models",
        "node",
        "scripts",
        "tests",
    ];
    let first = word.split('/').next().unwrap_or_default();
    word.contains('/')
        && folders.contains(&first)
        && !word.contains([' ', '{', '*', '<'])
        && !word.contains("NAME")
}

/// True for a function or module, `policy::placement::place`; types begin with a capital.
fn is_item(word: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.contains("::") && word.split("::").all(is_name)
}

/// Module of a file as a page names it: crate or folder first, as in `actors::source::sqs`.
fn module(file: &str) -> Option<String> {
    let module = file.strip_suffix(".rs")?.replace("/src/", "/");
    let module = module.strip_suffix("/mod").unwrap_or(&module);
    Some(module.replace('/', "::"))
}

/// True if the module is named by its last segments.
fn ends_with(module: &str, segments: &str) -> bool {
    module
        .strip_suffix(segments)
        .is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

/// A path of the repository as a page of it writes it.
fn resolved(page: &str, file: &str) -> Option<String> {
    if file.is_empty() {
        return Some(page.to_owned());
    }
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path.to_string_lossy().into_owned())
}

/// What a heading is called in links.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.trim())
    });
    let anchor = |heading: &str| {
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

fn pages() -> Vec<String> {
    let contents = links(&text(CONTENTS)).into_iter();
    let page = |link: Link| resolved(CONTENTS, &link.file).unwrap_or_else(|| panic!("{link:?}"));
    contents.map(page).collect()
}

#[test]
fn the_guide_has_every_page_once() {
    let pages = pages();
    let named: BTreeSet<&String> = pages.iter().collect();
    assert_eq!(named.len(), pages.len(), "a page stands twice in {CONTENTS}");
    let left_out = tracked()
        .into_iter()
        .filter(|path| path.starts_with("docs/") && path.ends_with(".md") && path != CONTENTS)
        .filter(|path| !named.contains(path));
    report("docs/SUMMARY.md names every page of docs", left_out.collect());
}

#[test]
fn links_of_the_guide_lead_somewhere() {
    let pages = pages();
    let mut broken = Vec::new();
    for page in &pages {
        for link in links(&text(page)) {
            let mut wrong = |why: &str| broken.push(format!("{page}:{}: {} {why}", link.line, link.file));
            let Some(target) = resolved(page, &link.file).filter(|target| root().join(target).exists())
            else {
                wrong("is not there");
                continue;
            };
            if !target.ends_with(".md") {
                continue;
            }
            if !pages.contains(&target) {
                wrong("is no page of the guide");
            }
            if link
                .heading
                .is_some_and(|heading| !anchors(&text(&target)).contains(&heading))
            {
                wrong("has no such heading");
            }
        }
    }
    report(
        "links of the guide lead to pages and headings that there are",
        broken,
    );
}

/// Readers look for code by these names.
#[test]
fn code_that_the_guide_names_is_there() {
    let files = tracked();
    let sources: Vec<(String, String)> = files
        .iter()
        .filter_map(|file| Some((module(file)?, text(file))))
        .collect();
    let is_there = |item: &str| {
        let Some((within, name)) = item.rsplit_once("::") else {
            return false;
        };
        let declares =
            |source: &str| source.contains(&format!("fn {name}(")) || source.contains(&format!("fn {name}<"));
        sources.iter().any(|(module, source)| {
            ends_with(module, item) || (ends_with(module, within) && declares(source))
        })
    };
    let mut missing = Vec::new();
    for page in pages() {
        for (line, word) in quoted(&text(&page)) {
            let there = match word {
                path if is_path(path) => root().join(path).exists(),
                item if is_item(item) => is_there(item),
                _ => true,
            };
            if !there {
                missing.push(format!("{page}:{line}: {word}"));
            }
        }
    }
    report("pages of the guide name code that there is", missing);
}

#[test]
fn names_of_code_are_recognised() {
    let words = "`actors/src/stage`, `policy::placement::place`, `StageVerdict::Interrupted`, `a/b`, `actors/src/NAME.rs`";
    let found: Vec<&str> = quoted(words).map(|(_, word)| word).collect();
    assert_eq!(found.len(), 5);
    assert_eq!(
        found.iter().filter(|word| is_path(word)).collect::<Vec<_>>(),
        [&"actors/src/stage"]
    );
    assert_eq!(
        found.iter().filter(|word| is_item(word)).collect::<Vec<_>>(),
        [&"policy::placement::place"]
    );
    let placement = module("actors/core/src/policy/placement/mod.rs").unwrap();
    assert!(ends_with(&placement, "policy::placement"));
    assert!(!ends_with(&placement, "y::placement"));
}

#[test]
fn links_and_headings_are_found() {
    let page =
        "# A cluster, made\n[one](../x.md#who-fails) `c` [two](https://a.example)\n\n    [code](no.md)\n";
    let link = Link {
        line: 2,
        file: "../x.md".to_owned(),
        heading: Some("who-fails".to_owned()),
    };
    assert_eq!(links(page), [link]);
    assert_eq!(anchors(page), BTreeSet::from(["a-cluster-made".to_owned()]));
    assert_eq!(resolved("docs/a.md", "../x.md").as_deref(), Some("x.md"));
    assert_eq!(resolved("docs/a.md", "../../x.md"), None);
}
