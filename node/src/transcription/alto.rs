//! ALTO, as eScriptorium and `node export` write it.

use anyhow::{Context, Result, bail};
use parkhang_models::page::geometry::Point;
use roxmltree::Node;

use super::{TranscribedLine, Transcription, child, descendant, is, pixels, size};

/// Reads the lines of a document from its root, in the order of the document.
///
/// # Errors
///
/// If lengths are in another unit than pixels, or a line has no valid outline.
pub(super) fn transcription(root: Node) -> Result<Transcription> {
    let text = |name| descendant(root, name).and_then(|node| node.text()).map(str::trim);
    if let Some(unit) = text("MeasurementUnit").filter(|unit| *unit != "pixel") {
        bail!("its lengths are in {unit}; only pixels say where a line is on its scan");
    }
    let lines = root.descendants().filter(|node| is(*node, "TextLine"));
    let line = |line: Node| {
        Ok(TranscribedLine {
            polygon: outline_of(line)?,
            text: text_of(line),
            marginal: false,
        })
    };
    Ok(Transcription {
        image: text("fileName").map(str::to_owned),
        size: descendant(root, "Page").and_then(|page| size(page, "WIDTH", "HEIGHT")),
        lines: lines.map(line).collect::<Result<_>>()?,
    })
}

/// Returns the text of a line: its strings, with a space for each space between them. A line without any letter has none.
fn text_of(line: Node) -> Option<String> {
    let mut text = String::new();
    for part in line.children() {
        if is(part, "String") {
            text.push_str(part.attribute("CONTENT").unwrap_or_default());
        } else if is(part, "SP") {
            text.push(' ');
        } else if is(part, "HYP") {
            text.push_str(part.attribute("CONTENT").unwrap_or("-"));
        }
    }
    (!text.trim().is_empty()).then_some(text)
}

/// Returns the outline of a line: its shape, or else its box.
fn outline_of(line: Node) -> Result<Vec<Point>> {
    let name = line.attribute("ID").unwrap_or("without id");
    let shape = child(line, "Shape").and_then(|shape| child(shape, "Polygon"));
    if let Some(points) = shape.and_then(|polygon| polygon.attribute("POINTS")) {
        // Pairs are written with a comma, or with spaces only.
        let numbers: Option<Vec<i32>> = points
            .split([',', ' ', '\n', '\t'])
            .filter(|number| !number.is_empty())
            .map(pixels)
            .collect();
        let numbers = numbers.filter(|numbers| numbers.len() % 2 == 0);
        let numbers = numbers.with_context(|| format!("line {name}: {points:?} are no points"))?;
        return Ok(numbers
            .chunks_exact(2)
            .map(|pair| Point::new(pair[0], pair[1]))
            .collect());
    }
    let side = |side: &str| {
        let number = line.attribute(side).and_then(pixels);
        number.with_context(|| format!("line {name} has neither a shape nor {side}"))
    };
    let (left, top) = (side("HPOS")?, side("VPOS")?);
    let (right, bottom) = (left + side("WIDTH")?, top + side("HEIGHT")?);
    Ok([(left, top), (right, top), (right, bottom), (left, bottom)]
        .map(|(x, y)| Point::new(x, y))
        .to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::{ALTO, parse};
    use super::*;
    use crate::export::{alto, tests::page};

    #[test]
    fn what_the_program_exports_is_read_again() {
        let page = page();
        let written = alto(&page, 1).unwrap();
        let read = parse(std::str::from_utf8(&written).unwrap(), &[ALTO])
            .unwrap()
            .unwrap();
        let texts: Vec<&str> = page.lines.iter().map(|line| line.text.trim()).collect();
        let found: Vec<&str> = read
            .lines
            .iter()
            .filter_map(|line| line.text.as_deref())
            .map(str::trim)
            .collect();
        assert_eq!(found, texts);
        for (line, read) in page.lines.iter().zip(&read.lines) {
            assert_eq!(read.polygon, page.on_page(&line.polygon));
        }
        assert_eq!(read.image.as_deref(), Some(page.source_name.as_str()));
        assert_eq!(read.size, Some((page.width, page.height)));
    }

    #[test]
    fn a_line_may_have_a_box_only() {
        let text = "<alto><Layout><Page WIDTH=\"9\" HEIGHT=\"9\"><TextLine HPOS=\"1\" VPOS=\"2\" WIDTH=\"3\" HEIGHT=\"4\">\
            <String CONTENT=\"ka\"/><SP/><String CONTENT=\"kha\"/></TextLine></Page></Layout></alto>";
        let read = parse(text, &[ALTO]).unwrap().unwrap();
        let corners = [(1, 2), (4, 2), (4, 6), (1, 6)].map(|(x, y)| Point::new(x, y));
        assert_eq!(read.lines[0].polygon, corners);
        assert_eq!(read.lines[0].text.as_deref(), Some("ka kha"));
    }

    #[test]
    fn other_units_and_bad_points_are_refused() {
        let refused = |text: &str| format!("{:#}", parse(text, &[ALTO]).unwrap_err());
        let inches = "<alto><Description><MeasurementUnit>inch1200</MeasurementUnit></Description></alto>";
        assert!(refused(inches).contains("inch1200"));
        for bad in [
            "<TextLine ID=\"l1\"/>",
            "<TextLine ID=\"l1\"><Shape><Polygon POINTS=\"1,2 3\"/></Shape></TextLine>",
        ] {
            assert!(refused(&format!("<alto>{bad}</alto>")).contains("line l1"));
        }
    }

    #[test]
    fn fuzz_transcriptions() {
        let alto = concat!(
            r#"<alto><Description><sourceImageInformation><fileName>a.jpg</fileName></sourceImageInformation></Description>"#,
            r#"<Layout><Page WIDTH="200" HEIGHT="100"><TextLine HPOS="1" VPOS="2" WIDTH="90" HEIGHT="10">"#,
            r#"<Shape><Polygon POINTS="1,2 91,2 91,12"/></Shape><String CONTENT="ཀ་"/><SP/><String CONTENT="ཁ"/></TextLine></Page></Layout></alto>"#
        );
        let page = concat!(
            r#"<PcGts><Page imageFilename="a.jpg" imageWidth="200" imageHeight="100"><ReadingOrder><OrderedGroup>"#,
            r#"<RegionRefIndexed index="0" regionRef="r"/></OrderedGroup></ReadingOrder><TextRegion id="r">"#,
            r#"<TextLine id="l"><Coords points="0,0 9,0 9,4"/><TextEquiv><Unicode>ཁ &amp; ག</Unicode></TextEquiv></TextLine></TextRegion></Page></PcGts>"#
        );
        parkhang_fuzz::Fuzz::of_texts("transcriptions", [alto, page]).feeds_texts(|text| {
            if let Ok(Some(read)) = crate::transcription::of_text(text) {
                let mut points = read.lines.iter().flat_map(|line| &line.polygon);
                assert!(
                    points.all(|point| point.x.abs() <= 20_000_000 && point.y.abs() <= 20_000_000),
                    "{read:?}"
                );
            }
        });
    }
}
