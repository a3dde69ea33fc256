//! PAGE XML, as Transkribus, eScriptorium and `node export` write it.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use parkhang_models::page::geometry::Point;
use roxmltree::Node;

use super::{TranscribedLine, Transcription, child, descendant, is, pixels, size};

/// Reads the lines of a document from its root: in the order of its regions, if it has one, and else in that of the document.
///
/// # Errors
///
/// If a line has no valid outline.
pub(super) fn transcription(root: Node) -> Result<Transcription> {
    let order: HashMap<&str, usize> = root
        .descendants()
        .filter(|node| is(*node, "RegionRefIndexed") || is(*node, "RegionRef"))
        .filter_map(|node| node.attribute("regionRef"))
        .zip(0..)
        .collect();
    let place = |line: &Node| {
        let places = regions(*line).filter_map(|region| order.get(region.attribute("id")?).copied());
        places.min().unwrap_or(usize::MAX)
    };
    let mut lines: Vec<Node> = root.descendants().filter(|node| is(*node, "TextLine")).collect();
    lines.sort_by_cached_key(place);
    let page = descendant(root, "Page");
    let line = |line: Node| {
        Ok(TranscribedLine {
            polygon: outline_of(line)?,
            text: text_of(line).map(str::to_owned),
            marginal: is_marginal(line),
        })
    };
    Ok(Transcription {
        image: page
            .and_then(|page| page.attribute("imageFilename"))
            .map(str::to_owned),
        size: page.and_then(|page| size(page, "imageWidth", "imageHeight")),
        lines: lines.into_iter().map(line).collect::<Result<_>>()?,
    })
}

/// Types of regions that are beside the running text.
const MARGINAL: [&str; 8] = [
    "caption",
    "catch-word",
    "footer",
    "header",
    "marginalia",
    "other",
    "page-number",
    "signature-mark",
];

/// Regions that a line lies in, the innermost first.
fn regions<'a, 'input>(line: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    line.ancestors().filter(|node| is(*node, "TextRegion"))
}

fn is_marginal(line: Node) -> bool {
    let kind = regions(line).find_map(|region| region.attribute("type"));
    kind.is_some_and(|kind| MARGINAL.contains(&kind))
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
            let (x, y) = pair.split_once(',').map(|(x, y)| (pixels(x), pixels(y))).unzip();
            match (x.flatten(), y.flatten()) {
                (Some(x), Some(y)) => Ok(Point::new(x, y)),
                _ => bail!("line {name}: {pair:?} is no point, expected x,y"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::super::{PAGE_XML, beside, parse};
    use super::*;
    use crate::export::{page_xml, tests::page};

    #[test]
    fn what_the_program_exports_is_read_again() {
        let page = page();
        let written = page_xml(&page, Utc::now()).unwrap();
        let read = parse(std::str::from_utf8(&written).unwrap(), &[PAGE_XML])
            .unwrap()
            .unwrap();
        let texts: Vec<&str> = page.lines.iter().map(|line| line.text.as_str()).collect();
        let found: Vec<&str> = read
            .lines
            .iter()
            .filter_map(|line| line.text.as_deref())
            .collect();
        assert_eq!(found, texts);
        for (line, read) in page.lines.iter().zip(&read.lines) {
            assert_eq!(read.polygon, page.on_page(&line.polygon));
        }
        assert_eq!(read.image.as_deref(), Some(page.source_name.as_str()));
        assert_eq!(read.size, Some((page.width, page.height)));
    }

    fn of_lines(lines: &str) -> String {
        format!("<PcGts xmlns=\"urn:any\"><Page><TextRegion>{lines}</TextRegion></Page></PcGts>")
    }

    fn line(text: &str) -> String {
        format!(
            "<TextLine><Coords points=\"0,0 4,0 4,2\"/><TextEquiv><Unicode>{text}</Unicode></TextEquiv></TextLine>"
        )
    }

    #[test]
    fn words_do_not_repeat_the_text_of_their_line() {
        let text = "<TextEquiv><Unicode>ཀ</Unicode></TextEquiv>";
        let line =
            format!("<TextLine><Word>{text}</Word><Coords points=\"0,0 4,0 4,2.6\"/>{text}</TextLine>");
        let read = parse(&of_lines(&line), &[PAGE_XML]).unwrap().unwrap();
        let expected = TranscribedLine {
            polygon: vec![Point::new(0, 0), Point::new(4, 0), Point::new(4, 3)],
            text: Some("ཀ".to_owned()),
            marginal: false,
        };
        assert_eq!(read.lines, [expected]);
    }

    #[test]
    fn lines_beside_the_text_are_told_by_their_region() {
        let line = "<TextLine><Coords points=\"0,0 4,0 4,2\"/></TextLine>";
        let kinds = [
            "",
            " type=\"paragraph\"",
            " type=\"floating\"",
            " type=\"page-number\"",
        ];
        let regions = kinds.map(|kind| format!("<TextRegion{kind}>{line}</TextRegion>"));
        let text = format!(
            "<PcGts xmlns=\"urn:any\"><Page>{}</Page></PcGts>",
            regions.concat()
        );
        let read = parse(&text, &[PAGE_XML]).unwrap().unwrap();
        let marginal: Vec<bool> = read.lines.iter().map(|line| line.marginal).collect();
        assert_eq!(marginal, [false, false, false, true]);
    }

    #[test]
    fn outlines_without_text_are_lines_too() {
        for text in ["", "<TextEquiv><Unicode/></TextEquiv>"] {
            let read = parse(
                &of_lines(&format!(
                    "<TextLine><Coords points=\"0,0 4,0 4,2\"/>{text}</TextLine>"
                )),
                &[PAGE_XML],
            );
            let read = read.unwrap().unwrap();
            assert!(read.lines.len() == 1 && !read.has_text());
        }
    }

    #[test]
    fn regions_are_read_in_their_order() {
        let text = format!(
            "<PcGts><Page><ReadingOrder><OrderedGroup><RegionRefIndexed index=\"0\" regionRef=\"b\"/>\
             <RegionRefIndexed index=\"1\" regionRef=\"a\"/></OrderedGroup></ReadingOrder>\
             <TextRegion id=\"a\">{}{}</TextRegion><TextRegion id=\"b\">{}</TextRegion></Page></PcGts>",
            line("2"),
            line("3"),
            line("1")
        );
        let read = parse(&text, &[PAGE_XML]).unwrap().unwrap();
        let texts: Vec<&str> = read
            .lines
            .iter()
            .filter_map(|line| line.text.as_deref())
            .collect();
        assert_eq!(texts, ["1", "2", "3"]);
    }

    #[test]
    fn bad_points_are_named_with_their_line_and_file() {
        let folder = tempfile::tempdir().unwrap();
        for points in ["0,0 4;0", "0,0 1e99,0", "0,0 x,1"] {
            let line = format!("<TextLine id=\"line_3\"><Coords points=\"{points}\"/></TextLine>");
            std::fs::write(folder.path().join("a.page.xml"), of_lines(&line)).unwrap();
            let error = format!("{:#}", beside(&folder.path().join("a.jpg")).unwrap_err());
            let bad = points.split(' ').next_back().unwrap();
            assert!(
                error.contains("a.page.xml") && error.contains("line_3") && error.contains(bad),
                "{error}"
            );
        }
    }

    #[test]
    fn what_has_no_lines_is_no_transcription() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["<alto><Layout/></alto>", "<html/>", &of_lines("")] {
            std::fs::write(folder.path().join("a.xml"), text).unwrap();
            assert_eq!(beside(&folder.path().join("a.jpg")).unwrap(), None, "{text}");
        }
        assert_eq!(beside(&folder.path().join("b.jpg")).unwrap(), None);
    }
}
