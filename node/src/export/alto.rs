//! ALTO 4.4, one document per page. Lengths are pixels of the original scan. There are no baselines, as the results do not have the
//! head line from which Tibetan letters hang, and no dates, so that two exports of the same results are identical.

use parkhang_models::page::geometry::Point;
use quick_xml::Writer;
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesDecl, Event};

use super::document::{LineDocument, PageDocument, Word};
use super::xml;

const NAMESPACE: &str = "http://www.loc.gov/standards/alto/ns-v4#";
const LOCATION: &str = "http://www.loc.gov/standards/alto/ns-v4# \
    http://www.loc.gov/standards/alto/v4/alto-4-4.xsd";

/// Returns the document of a page, the `number`th of its volume.
pub fn alto(page: &PageDocument, number: usize) -> std::io::Result<Vec<u8>> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    writer
        .create_element("alto")
        .with_attributes([
            ("xmlns", NAMESPACE),
            ("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"),
            ("xsi:schemaLocation", LOCATION),
            ("SCHEMAVERSION", "4.4"),
        ])
        .write_inner_content(|root| {
            root.create_element("Description")
                .write_inner_content(|description| write_description(description, page))?;
            root.create_element("Layout")
                .write_inner_content(|layout| write_page(layout, page, number))?;
            Ok(())
        })?;
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    Ok(bytes)
}

fn write_description(writer: &mut Writer<Vec<u8>>, page: &PageDocument) -> std::io::Result<()> {
    let leaf = |writer: &mut Writer<Vec<u8>>, name: &str, text: &str| {
        writer
            .create_element(name)
            .write_text_content(xml::text(text))
            .map(drop)
    };
    leaf(writer, "MeasurementUnit", "pixel")?;
    writer
        .create_element("sourceImageInformation")
        .write_inner_content(|image| leaf(image, "fileName", &page.source_name))?;
    writer
        .create_element("Processing")
        .with_attribute(("ID", "processing_1"))
        .write_inner_content(|processing| {
            leaf(processing, "processingCategory", "contentGeneration")?;
            let unread = page.unread();
            leaf(
                processing,
                "processingStepDescription",
                unread.as_deref().unwrap_or("line detection and text recognition"),
            )?;
            processing
                .create_element("processingSoftware")
                .write_inner_content(|software| {
                    leaf(software, "softwareName", "Parkhang")?;
                    leaf(software, "softwareVersion", env!("CARGO_PKG_VERSION"))
                })?;
            Ok(())
        })?;
    Ok(())
}

fn write_page(writer: &mut Writer<Vec<u8>>, page: &PageDocument, number: usize) -> std::io::Result<()> {
    let [top_left, _, bottom_right, _] = page.bounds_of(&page.lines);
    // Two opposite corners have the same bounding box as all four.
    let region = [top_left, bottom_right];
    writer
        .create_element("Page")
        .with_attributes([
            xml::attribute("ID", &format!("page_{number}")),
            xml::attribute("PHYSICAL_IMG_NR", &number.to_string()),
            xml::attribute("WIDTH", &page.width.to_string()),
            xml::attribute("HEIGHT", &page.height.to_string()),
            xml::attribute("PROCESSINGREFS", "processing_1"),
        ])
        .write_inner_content(|element| {
            // A page that was not read has no print space: an empty one would say that it has no text.
            if page.error.is_some() {
                return Ok(());
            }
            let space = element
                .create_element("PrintSpace")
                .with_attributes(box_of(page, &region));
            if page.lines.is_empty() {
                space.write_empty()?;
                return Ok(());
            }
            space.write_inner_content(|space| {
                space
                    .create_element("TextBlock")
                    .with_attribute(xml::attribute("ID", &format!("block_{number}_1")))
                    .with_attributes(box_of(page, &region))
                    .with_attribute(("LANG", page.language().tag()))
                    .write_inner_content(|block| {
                        for (index, line) in page.lines.iter().enumerate() {
                            write_line(block, &format!("{number}_1_{}", index + 1), line, page)?;
                        }
                        Ok(())
                    })?;
                Ok(())
            })?;
            Ok(())
        })?;
    Ok(())
}

fn write_line(
    writer: &mut Writer<Vec<u8>>,
    place: &str,
    line: &LineDocument,
    page: &PageDocument,
) -> std::io::Result<()> {
    writer
        .create_element("TextLine")
        .with_attribute(xml::attribute("ID", &format!("line_{place}")))
        .with_attributes(box_of(page, &line.polygon))
        .write_inner_content(|element| {
            write_shape(element, &line.polygon, page)?;
            for (index, word) in line.words().into_iter().enumerate() {
                write_word(element, &format!("{place}_{}", index + 1), word, page)?;
            }
            Ok(())
        })?;
    Ok(())
}

/// Writes a word; a space at its end becomes an element of its own.
fn write_word(
    writer: &mut Writer<Vec<u8>>,
    place: &str,
    word: Word<'_>,
    page: &PageDocument,
) -> std::io::Result<()> {
    let confidence = word
        .confidence
        .map(|confidence| format!("{:.4}", confidence.clamp(0.0, 1.0)));
    // A word that is a space alone stays one, as nothing would be left of it otherwise.
    let before_space = word.text.strip_suffix(' ').filter(|text| !text.is_empty());
    writer
        .create_element("String")
        .with_attribute(xml::attribute("ID", &format!("string_{place}")))
        .with_attributes(box_of(page, word.polygon))
        .with_attribute(xml::attribute("CONTENT", before_space.unwrap_or(word.text)))
        .with_attributes(
            confidence
                .as_deref()
                .map(|confidence| xml::attribute("WC", confidence)),
        )
        .write_inner_content(|string| write_shape(string, word.polygon, page))?;
    if before_space.is_some() {
        writer.create_element("SP").write_empty()?;
    }
    Ok(())
}

fn write_shape(writer: &mut Writer<Vec<u8>>, polygon: &[Point], page: &PageDocument) -> std::io::Result<()> {
    writer.create_element("Shape").write_inner_content(|shape| {
        shape
            .create_element("Polygon")
            .with_attribute(("POINTS", xml::points(&page.on_page(polygon)).as_str()))
            .write_empty()?;
        Ok(())
    })?;
    Ok(())
}

fn box_of(page: &PageDocument, polygon: &[Point]) -> [Attribute<'static>; 4] {
    let bounds = page.bounds(polygon);
    [
        xml::attribute("HPOS", &bounds.x.to_string()),
        xml::attribute("VPOS", &bounds.y.to_string()),
        xml::attribute("WIDTH", &bounds.width.to_string()),
        xml::attribute("HEIGHT", &bounds.height.to_string()),
    ]
}
