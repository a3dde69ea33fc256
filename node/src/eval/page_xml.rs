//! Reader of the lines of a PAGE XML document, as Transkribus, eScriptorium and `node export` write it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use parkhang_models::page::geometry::Point;
use roxmltree::{Document, Node};

/// Lines of a page in the order of the document.
#[derive(Debug, PartialEq, Eq)]
pub struct TrueLines {
    /// Text with a line for each line of writing; `None` if the document has outlines only.
    pub text: Option<String>,
    pub outlines: Vec<Vec<Point>>,
}

/// Reads `NAME.page.xml` or else `NAME.xml` beside an image. `None` for XML of another kind, such as ALTO, and pages without lines.
///
/// # Errors
///
/// If the file cannot be read, is not valid XML, or a line has no valid outline.
pub fn beside(image: &Path) -> Result<Option<TrueLines>> {
    // `node export` writes the longer name, which is therefore tried first.
    let names = ["page.xml", "xml"].map(|extension| image.with_extension(extension));
    let Some(path) = names.iter().find(|path| path.is_file()) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("cannot read the lines of {}", path.display()))
}

fn parse(text: &str) -> Result<Option<TrueLines>> {
    let document = Document::parse(text)?;
    if document.root_element().tag_name().name() != "PcGts" {
        return Ok(None);
    }
    let lines: Vec<Node> = document
        .descendants()
        .filter(|node| is(*node, "TextLine"))
        .collect();
    if lines.is_empty() {
        return Ok(None);
    }
    let texts: Vec<Option<&str>> = lines.iter().map(|line| text_of(*line)).collect();
    // A document whose lines have no text at all has outlines only; one with some may have empty lines among
    // them.
    let text = texts.iter().any(Option::is_some).then(|| {
        texts
            .iter()
            .map(|text| text.unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n")
    });
    let outlines = lines.into_iter().map(outline_of).collect::<Result<_>>()?;
    Ok(Some(TrueLines { text, outlines }))
}

fn is(node: Node, name: &str) -> bool {
    // The namespace is ignored: every version of the schema has its own.
    node.is_element() && node.tag_name().name() == name
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| is(*child, name))
}

/// Returns the text of the line itself, not of its words. Empty text, which tools write if only outlines were drawn, is `None`.
fn text_of<'a>(line: Node<'a, '_>) -> Option<&'a str> {
    let unicode = child(child(line, "TextEquiv")?, "Unicode")?;
    unicode.text().filter(|text| !text.trim().is_empty())
}

fn outline_of(line: Node) -> Result<Vec<Point>> {
    let name = line.attribute("id").unwrap_or("without id");
    let points = child(line, "Coords")
        .and_then(|coords| coords.attribute("points"))
        .with_context(|| format!("line {name} has no coordinates"))?;
    points
        .split_whitespace()
        .map(|pair| {
            match pair
                .split_once(',')
                .map(|(x, y)| (x.parse::<f64>(), y.parse::<f64>()))
            {
                // Some tools write fractions, which the schema forbids.
                Some((Ok(x), Ok(y))) => Ok(Point::new(x.round() as i32, y.round() as i32)),
                _ => bail!("line {name}: {pair:?} is no point, expected x,y"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;
    use crate::export::{page_xml, tests::page};

    #[test]
    fn what_the_program_exports_is_truth_again() {
        let page = page();
        let written = page_xml(&page, Utc::now()).unwrap();
        let lines = parse(std::str::from_utf8(&written).unwrap()).unwrap().unwrap();
        let texts: Vec<&str> = page.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(lines.text.as_deref(), Some(texts.join("\n").as_str()));
        let outlines: Vec<_> = page
            .lines
            .iter()
            .map(|line| page.on_page(&line.polygon))
            .collect();
        assert_eq!(lines.outlines, outlines);
    }

    fn of_lines(lines: &str) -> String {
        format!("<PcGts xmlns=\"urn:any\"><Page><TextRegion>{lines}</TextRegion></Page></PcGts>")
    }

    #[test]
    fn words_do_not_repeat_the_text_of_their_line() {
        let text = "<TextEquiv><Unicode>ཀ</Unicode></TextEquiv>";
        let line =
            format!("<TextLine><Word>{text}</Word><Coords points=\"0,0 4,0 4,2.6\"/>{text}</TextLine>");
        let lines = parse(&of_lines(&line)).unwrap().unwrap();
        assert_eq!(lines.text.as_deref(), Some("ཀ"));
        assert_eq!(
            lines.outlines,
            [[Point::new(0, 0), Point::new(4, 0), Point::new(4, 3)]]
        );
    }

    #[test]
    fn outlines_without_text_are_truth_too() {
        for text in ["", "<TextEquiv><Unicode/></TextEquiv>"] {
            let lines = parse(&of_lines(&format!(
                "<TextLine><Coords points=\"0,0 4,0 4,2\"/>{text}</TextLine>"
            )));
            assert_eq!(lines.unwrap().unwrap().text, None);
        }
    }

    #[test]
    fn alto_and_pages_without_lines_are_no_truth() {
        assert_eq!(parse("<alto><Layout/></alto>").unwrap(), None);
        assert_eq!(parse(&of_lines("")).unwrap(), None);
    }

    #[test]
    fn bad_points_are_named_with_their_line_and_file() {
        let folder = tempfile::tempdir().unwrap();
        let line = "<TextLine id=\"line_3\"><Coords points=\"0,0 4;0\"/></TextLine>";
        std::fs::write(folder.path().join("a.page.xml"), of_lines(line)).unwrap();
        let error = format!("{:#}", beside(&folder.path().join("a.jpg")).unwrap_err());
        assert!(
            error.contains("a.page.xml") && error.contains("line_3") && error.contains("4;0"),
            "{error}"
        );
    }
}
