//! hOCR 1.2 as XHTML, one document per page, in pixels of the original scan.

use parkhang_models::page::geometry::Point;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::document::{LineDocument, PageDocument};
use super::xml;

const DOCTYPE: &str = "html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\" \
    \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\"";
const CAPABILITIES: &str = "ocr_page ocr_carea ocr_line ocrx_word ocrp_wconf ocrp_poly ocrp_lang";

/// Returns the document of a page, the `number`th of its volume.
pub fn hocr(page: &PageDocument, number: usize) -> std::io::Result<Vec<u8>> {
    let language = page.language().tag();
    // Without indentation, since white space within a line is text.
    let mut writer = Writer::new(Vec::new());
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    break_line(&mut writer)?;
    writer.write_event(Event::DocType(BytesText::from_escaped(DOCTYPE)))?;
    break_line(&mut writer)?;
    writer
        .create_element("html")
        .with_attributes([
            ("xmlns", "http://www.w3.org/1999/xhtml"),
            ("xml:lang", language),
            ("lang", language),
        ])
        .write_inner_content(|html| {
            break_line(html)?;
            html.create_element("head")
                .write_inner_content(|head| write_head(head, page))?;
            break_line(html)?;
            html.create_element("body")
                .write_inner_content(|body| write_page(body, page, number))?;
            break_line(html)
        })?;
    break_line(&mut writer)?;
    Ok(writer.into_inner())
}

fn write_head(writer: &mut Writer<Vec<u8>>, page: &PageDocument) -> std::io::Result<()> {
    break_line(writer)?;
    writer
        .create_element("title")
        .write_text_content(xml::text(&page.image_name))?;
    break_line(writer)?;
    writer
        .create_element("meta")
        .with_attributes([
            ("http-equiv", "Content-Type"),
            ("content", "text/html; charset=utf-8"),
        ])
        .write_empty()?;
    let language = page.language();
    for (name, content) in [
        ("ocr-system", concat!("parkhang ", env!("CARGO_PKG_VERSION"))),
        ("ocr-capabilities", CAPABILITIES),
        ("ocr-number-of-pages", "1"),
        ("ocr-langs", language.tag()),
        ("ocr-scripts", language.script()),
    ] {
        break_line(writer)?;
        writer
            .create_element("meta")
            .with_attributes([("name", name), ("content", content)])
            .write_empty()?;
    }
    break_line(writer)
}

fn write_page(writer: &mut Writer<Vec<u8>>, page: &PageDocument, number: usize) -> std::io::Result<()> {
    let title = format!(
        "image {}; bbox 0 0 {} {}; ppageno {}",
        quoted(&page.source_name),
        page.width,
        page.height,
        // `ppageno` counts from 0.
        number.saturating_sub(1)
    );
    break_line(writer)?;
    writer
        .create_element("div")
        .with_attributes([
            xml::attribute("class", "ocr_page"),
            xml::attribute("id", &format!("page_{number}")),
            xml::attribute("title", &title),
        ])
        .write_inner_content(|element| {
            break_line(element)?;
            if let Some(unread) = page.unread() {
                element
                    .create_element("p")
                    .with_attribute(xml::attribute("class", "x_unread"))
                    .write_text_content(xml::text(&unread))?;
                return break_line(element);
            }
            if page.lines.is_empty() {
                return Ok(());
            }
            element
                .create_element("div")
                .with_attributes([
                    xml::attribute("class", "ocr_carea"),
                    xml::attribute("id", &format!("block_{number}_1")),
                    xml::attribute("title", &bbox(page, &page.bounds_of(&page.lines))),
                ])
                .write_inner_content(|area| {
                    break_line(area)?;
                    for (index, line) in page.lines.iter().enumerate() {
                        write_line(area, &format!("{number}_1_{}", index + 1), line, page)?;
                        break_line(area)?;
                    }
                    Ok(())
                })?;
            break_line(element)
        })?;
    break_line(writer)
}

fn write_line(
    writer: &mut Writer<Vec<u8>>,
    place: &str,
    line: &LineDocument,
    page: &PageDocument,
) -> std::io::Result<()> {
    let outline: Vec<String> = page
        .on_page(&line.polygon)
        .iter()
        .map(|p| format!("{} {}", p.x, p.y))
        .collect();
    let title = format!(
        "{}; poly {}{}",
        bbox(page, &line.polygon),
        outline.join(" "),
        confidence(line.confidence)
    );
    writer
        .create_element("span")
        .with_attributes([
            xml::attribute("class", "ocr_line"),
            xml::attribute("id", &format!("line_{place}")),
            xml::attribute("title", &title),
        ])
        .write_inner_content(|element| {
            for (index, word) in line.words().into_iter().enumerate() {
                let title = format!("{}{}", bbox(page, word.polygon), confidence(word.confidence));
                element
                    .create_element("span")
                    .with_attributes([
                        xml::attribute("class", "ocrx_word"),
                        xml::attribute("id", &format!("word_{place}_{}", index + 1)),
                        xml::attribute("title", &title),
                    ])
                    .write_text_content(xml::text(word.text))?;
            }
            Ok(())
        })?;
    Ok(())
}

fn break_line(writer: &mut Writer<Vec<u8>>) -> std::io::Result<()> {
    writer.write_event(Event::Text(BytesText::from_escaped("\n")))
}

/// Formats a box with corners between pixels: the right and the lower edge are one past the last pixel.
fn bbox(page: &PageDocument, polygon: &[Point]) -> String {
    let bounds = page.bounds(polygon);
    let (right, bottom) = (bounds.x + bounds.width, bounds.y + bounds.height);
    format!("bbox {} {} {right} {bottom}", bounds.x, bounds.y)
}

/// Formats a confidence from 0 to 1 in per cent.
/// Property of a confidence, behind others.
fn confidence(of_one: Option<f32>) -> String {
    of_one.map_or_else(String::new, |of_one| {
        format!("; x_wconf {:.2}", 100.0 * of_one.clamp(0.0, 1.0))
    })
}

/// Quotes a string for the grammar of properties.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
