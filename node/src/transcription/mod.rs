//! Transcriptions of pages by other programs or by people: lines with their outlines and texts, from PAGE XML and ALTO.
//!
//! They come from anywhere, so their size is bounded and a fault is named with its place. The room knows neither results nor corrections: what a
//! transcription is compared with, or put in the place of, is for others to say.

mod alto;
mod pagexml;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use parkhang_models::page::geometry::Point;
use roxmltree::{Document, Node, ParsingOptions};

/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Largest number of elements and texts of a document.
const MOST_NODES: u32 = 4_000_000;
/// Deepest nesting of elements. Lines are looked for in what surrounds them.
const DEEPEST: usize = 64;
/// Largest number of namespaces that a document declares, and of attributes of an element: the parser compares each with each.
const MOST_NAMESPACES: usize = 256;
const MOST_ATTRIBUTES: usize = 1000;

/// Root elements of the formats.
const PAGE_XML: &str = "PcGts";
const ALTO: &str = "alto";

/// Transcription of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transcription {
    /// Name of the file with the scan.
    pub image: Option<String>,
    /// Width and height of the scan, in pixels.
    pub size: Option<(u32, u32)>,
    /// Lines in reading order.
    pub lines: Vec<TranscribedLine>,
}

/// Line of a transcription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscribedLine {
    /// Outline on the scan.
    pub polygon: Vec<Point>,
    /// Text; `None` where only the outline was drawn.
    pub text: Option<String>,
    /// `true` for a line beside the running text: a page number, a title in the margin, a caption.
    pub marginal: bool,
}

impl Transcription {
    /// Returns whether a line has a text.
    pub fn has_text(&self) -> bool {
        self.lines.iter().any(|line| line.text.is_some())
    }
}

/// Reads the PAGE XML `NAME.page.xml` or else `NAME.xml` beside an image. `None` where there is none, for XML of another kind, and for pages without lines.
///
/// # Errors
///
/// If the file cannot be read, is not valid XML, or a line has no valid outline.
pub fn beside(image: &Path) -> Result<Option<Transcription>> {
    // `node export` writes the longer name, which is therefore tried first.
    let names = ["page.xml", "xml"].map(|extension| image.with_extension(extension));
    let Some(path) = names.iter().find(|path| path.is_file()) else {
        return Ok(None);
    };
    let found = read_root(path, &[PAGE_XML])?;
    Ok(found.filter(|transcription| !transcription.lines.is_empty()))
}

/// Reads a transcription; `None` for XML of another kind.
///
/// # Errors
///
/// If the file cannot be read, is too large, is not valid XML, or a line has no valid outline.
pub fn read(path: &Path) -> Result<Option<Transcription>> {
    read_root(path, &[PAGE_XML, ALTO])
}

/// Reads the text of a transcription; `None` for XML of another kind.
///
/// # Errors
///
/// If it is not valid XML, or a line has no valid outline.
pub fn of_text(text: &str) -> Result<Option<Transcription>> {
    parse(text, &[PAGE_XML, ALTO])
}

fn read_root(path: &Path, roots: &[&str]) -> Result<Option<Transcription>> {
    let unread = || format!("cannot read {}", path.display());
    let bytes = std::fs::metadata(path).with_context(unread)?.len();
    ensure!(
        bytes <= MOST_BYTES,
        "{} has {bytes} bytes; a transcription of a page has at most {MOST_BYTES}",
        path.display()
    );
    let text = std::fs::read_to_string(path).with_context(unread)?;
    parse(&text, roots).with_context(|| format!("cannot read the lines of {}", path.display()))
}

/// Reads a document whose root is one of these; `None` for another.
fn parse(text: &str, roots: &[&str]) -> Result<Option<Transcription>> {
    // Counted in the text, as the parser has no such limits. Texts may have some of the same signs.
    ensure!(
        text.matches("xmlns").count() <= MOST_NAMESPACES,
        "it declares more than {MOST_NAMESPACES} namespaces"
    );
    ensure!(
        text.split('<')
            .all(|element| element.matches('=').count() <= MOST_ATTRIBUTES),
        "an element has more than {MOST_ATTRIBUTES} attributes"
    );
    let options = ParsingOptions {
        nodes_limit: MOST_NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options)?;
    ensure!(
        !is_deep(&document),
        "its elements are nested more than {DEEPEST} deep"
    );
    let root = document.root_element();
    match root.tag_name().name() {
        name if !roots.contains(&name) => Ok(None),
        ALTO => alto::transcription(root).map(Some),
        _ => pagexml::transcription(root).map(Some),
    }
}

fn is_deep(document: &Document) -> bool {
    // Nodes are numbered in their order, in which parents are before their children.
    let mut depths: Vec<usize> = Vec::new();
    document.root().descendants().any(|node| {
        let parent = node
            .parent()
            .and_then(|parent| depths.get(parent.id().get_usize()));
        let depth = parent.map_or(0, |depth| depth + 1);
        depths.push(depth);
        depth > DEEPEST
    })
}

fn is(node: Node, name: &str) -> bool {
    // The namespace is ignored: every version of the schema has its own.
    node.is_element() && node.tag_name().name() == name
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| is(*child, name))
}

fn descendant<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.descendants().find(|child| is(*child, name))
}

/// Number of pixels; tools write fractions where the schema forbids them.
fn pixels(text: &str) -> Option<i32> {
    let number: f64 = text.trim().parse().ok()?;
    // Beyond this a place is on no scan, and sums of places would overflow.
    (number.abs() < 1e7).then(|| number.round() as i32)
}

/// Sizes of a page as two attributes of an element.
fn size(node: Node, width: &str, height: &str) -> Option<(u32, u32)> {
    let side = |name| u32::try_from(pixels(node.attribute(name)?)?).ok();
    Some((side(width)?, side(height)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_take_long_are_refused_at_once() {
        let refused = |content: &str| {
            let text = format!("<PcGts>{content}</PcGts>");
            format!("{:#}", of_text(&text).unwrap_err())
        };
        let nested = |count: usize, begin: &dyn Fn(usize) -> String, within: &str| {
            let begins: String = (0..count).map(begin).collect();
            format!("{begins}{within}{}", "</a>".repeat(count))
        };
        let lines = "<TextLine/>".repeat(190_000);
        assert!(refused(&nested(300_000, &|_| "<a>".to_owned(), &lines)).contains("64 deep"));
        let prefixes = nested(10_000, &|number| format!("<a xmlns:n{number}=\"urn:any\">"), "");
        assert!(refused(&prefixes).contains("256 namespaces"));
        let attributes: String = (0..300_000).map(|number| format!(" a{number}=''")).collect();
        assert!(refused(&format!("<a{attributes}/>")).contains("1000 attributes"));
    }

    #[test]
    fn what_is_usual_is_not_refused() {
        let text = "<PcGts xmlns=\"urn:any\" xmlns:xsi=\"urn:other\"><Page><TextRegion><TextLine><Coords points=\"0,0 4,0 4,2\"/>\
            <TextEquiv><Unicode>====</Unicode></TextEquiv></TextLine></TextRegion></Page></PcGts>";
        assert!(of_text(text).unwrap().unwrap().has_text());
    }
}
