//! PAGE XML, schema 2013-07-15, one document per page. Coordinates are pixels of the original scan, clamped to it, since the schema
//! allows no negative ones. Lines that lie in a region beside the text, such as a page number, stand in that region.

use chrono::{DateTime, SecondsFormat, Utc};
use parkhang_models::page::geometry::Point;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, Event};

use super::document::{LineDocument, PageDocument, RegionDocument, text_of};
use super::xml;

const NAMESPACE: &str = "http://schema.primaresearch.org/PAGE/gts/pagecontent/2013-07-15";
const LOCATION: &str = "http://schema.primaresearch.org/PAGE/gts/pagecontent/2013-07-15 \
    http://schema.primaresearch.org/PAGE/gts/pagecontent/2013-07-15/pagecontent.xsd";
const REGION: &str = "region_main";

/// A line with its number on the page.
type Numbered<'a> = (usize, &'a LineDocument);

/// Returns the document of a page, with `created` in its metadata.
pub fn page_xml(page: &PageDocument, created: DateTime<Utc>) -> std::io::Result<Vec<u8>> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let created = created.to_rfc3339_opts(SecondsFormat::Secs, true);
    let created = created.trim_end_matches('Z');
    writer
        .create_element("PcGts")
        .with_attributes([
            ("xmlns", NAMESPACE),
            ("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"),
            ("xsi:schemaLocation", LOCATION),
        ])
        .write_inner_content(|root| {
            root.create_element("Metadata").write_inner_content(|metadata| {
                for (name, text) in [
                    ("Creator", "Parkhang"),
                    ("Created", created),
                    ("LastChange", created),
                ] {
                    metadata
                        .create_element(name)
                        .write_text_content(xml::text(text))?;
                }
                if let Some(unread) = page.unread() {
                    metadata
                        .create_element("Comments")
                        .write_text_content(xml::text(&unread))?;
                }
                Ok(())
            })?;
            root.create_element("Page")
                .with_attributes([
                    xml::attribute("imageFilename", &page.source_name),
                    xml::attribute("imageWidth", &page.width.to_string()),
                    xml::attribute("imageHeight", &page.height.to_string()),
                ])
                .write_inner_content(|element| {
                    let regions: Vec<_> = page.lines.iter().map(|line| page.region_of(line)).collect();
                    let within = |region: Option<usize>| {
                        let lines = page.lines.iter().enumerate().zip(&regions);
                        lines
                            .filter(|(_, of)| **of == region)
                            .map(|(line, _)| line)
                            .collect::<Vec<_>>()
                    };
                    write_text_region(element, &within(None), page)?;
                    let mut regions = page.regions.iter().enumerate();
                    regions.try_for_each(|(index, region)| {
                        write_region(element, index, region, &within(Some(index)), page)
                    })
                })?;
            Ok(())
        })?;
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    Ok(bytes)
}

fn write_text_region(
    writer: &mut Writer<Vec<u8>>,
    lines: &[Numbered<'_>],
    page: &PageDocument,
) -> std::io::Result<()> {
    // A reading order without regions is not valid.
    if lines.is_empty() {
        return Ok(());
    }
    writer
        .create_element("ReadingOrder")
        .write_inner_content(|order| {
            order
                .create_element("OrderedGroup")
                .with_attribute(("id", "reading_order"))
                .write_inner_content(|group| {
                    group
                        .create_element("RegionRefIndexed")
                        .with_attributes([("index", "0"), ("regionRef", REGION)])
                        .write_empty()?;
                    Ok(())
                })?;
            Ok(())
        })?;
    writer
        .create_element("TextRegion")
        .with_attributes([
            ("id", REGION),
            ("type", "paragraph"),
            ("custom", "readingOrder {index:0;}"),
        ])
        .write_inner_content(|region| {
            let bounds = page.bounds_of(lines.iter().map(|(_, line)| *line));
            write_coords(region, &bounds, page)?;
            write_lines(region, lines, page)
        })?;
    Ok(())
}

/// Writes lines of a region, and their text together.
fn write_lines(
    writer: &mut Writer<Vec<u8>>,
    lines: &[Numbered<'_>],
    page: &PageDocument,
) -> std::io::Result<()> {
    for (index, line) in lines {
        write_line(writer, *index, line, page)?;
    }
    let text = text_of(lines.iter().map(|(_, line)| *line));
    writer
        .create_element("TextEquiv")
        .write_inner_content(|equivalent| {
            equivalent
                .create_element("Unicode")
                .write_text_content(xml::text(text.trim_end_matches('\n')))?;
            Ok(())
        })?;
    Ok(())
}

/// Writes a region beside the text; it is not part of the reading order.
fn write_region(
    writer: &mut Writer<Vec<u8>>,
    index: usize,
    region: &RegionDocument,
    lines: &[Numbered<'_>],
    page: &PageDocument,
) -> std::io::Result<()> {
    let (element, text_type) = match region.kind.as_str() {
        "margin" => ("TextRegion", Some("marginalia")),
        "caption" => ("TextRegion", Some("caption")),
        "page_number" => ("TextRegion", Some("page-number")),
        "note" => ("TextRegion", Some("floating")),
        _ => ("ImageRegion", None),
    };
    writer
        .create_element(element)
        .with_attribute(("id", format!("region_{index}").as_str()))
        .with_attributes(text_type.map(|text_type| ("type", text_type)))
        .write_inner_content(|inner| {
            write_coords(inner, &region.polygon, page)?;
            if lines.is_empty() {
                return Ok(());
            }
            write_lines(inner, lines, page)
        })?;
    Ok(())
}

fn write_line(
    writer: &mut Writer<Vec<u8>>,
    index: usize,
    line: &LineDocument,
    page: &PageDocument,
) -> std::io::Result<()> {
    let conf = line
        .confidence
        .map(|confidence| format!("{:.4}", confidence.clamp(0.0, 1.0)));
    writer
        .create_element("TextLine")
        .with_attributes([
            ("id", format!("line_{index}").as_str()),
            ("custom", format!("readingOrder {{index:{index};}}").as_str()),
        ])
        .write_inner_content(|element| {
            write_coords(element, &line.polygon, page)?;
            element
                .create_element("TextEquiv")
                .with_attributes(conf.as_deref().map(|conf| ("conf", conf)))
                .write_inner_content(|equivalent| {
                    equivalent
                        .create_element("Unicode")
                        .write_text_content(xml::text(&line.text))?;
                    Ok(())
                })?;
            Ok(())
        })?;
    Ok(())
}

fn write_coords(writer: &mut Writer<Vec<u8>>, polygon: &[Point], page: &PageDocument) -> std::io::Result<()> {
    let mut polygon = page.on_page(polygon);
    // The schema requires at least two points.
    if let [point] = polygon[..] {
        polygon.push(point);
    }
    writer
        .create_element("Coords")
        .with_attribute(("points", xml::points(&polygon).as_str()))
        .write_empty()?;
    Ok(())
}
