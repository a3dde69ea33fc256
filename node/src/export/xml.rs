//! Escaping for the XML formats: a parser returns texts and attributes as they were.

use std::borrow::Cow;

use parkhang_models::page::geometry::Point;
use quick_xml::events::BytesText;
use quick_xml::events::attributes::Attribute;
use quick_xml::name::QName;

/// Text of an element. Characters that XML 1.0 does not allow become U+FFFD.
pub(super) fn text(raw: &str) -> BytesText<'static> {
    BytesText::from_escaped(escaped(raw, false))
}

/// Attribute that keeps tabs and line breaks. Characters that XML 1.0 does not allow become U+FFFD.
pub(super) fn attribute<'a>(name: &'a str, value: &str) -> Attribute<'a> {
    Attribute {
        key: QName(name.as_bytes()),
        value: Cow::Owned(escaped(value, true).into_bytes()),
    }
}

/// Formats a polygon as `x,y` pairs, separated by spaces.
pub(super) fn points(polygon: &[Point]) -> String {
    let pairs: Vec<String> = polygon.iter().map(|p| format!("{},{}", p.x, p.y)).collect();
    pairs.join(" ")
}

fn escaped(raw: &str, in_attribute: bool) -> String {
    let mut escaped = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Parsers would turn it into a line feed.
            '\r' => escaped.push_str("&#13;"),
            // Parsers would turn these into spaces in attributes.
            '\t' if in_attribute => escaped.push_str("&#9;"),
            '\n' if in_attribute => escaped.push_str("&#10;"),
            '\t' | '\n' | '\u{20}'..='\u{fffd}' | '\u{10000}'.. => escaped.push(c),
            _ => escaped.push(char::REPLACEMENT_CHARACTER),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quick_xml::Writer;
    use roxmltree::Document;

    use super::*;

    fn holds(c: char) -> bool {
        !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
    }

    proptest! {
        #[test]
        fn any_text_comes_back(raw in any::<String>(), value in "[\\x00-\\x40\u{fffc}-\u{10001}\u{f00}-\u{fff}]{0,20}") {
            let mut writer = Writer::new(Vec::new());
            let element = writer.create_element("element").with_attribute(attribute("name", &value));
            element.write_text_content(text(&raw)).unwrap();
            let written = String::from_utf8(writer.into_inner()).unwrap();
            let document = Document::parse(&written).unwrap();
            let replaced = |text: &str| -> String {
                text.chars().map(|c| if holds(c) { c } else { '\u{fffd}' }).collect()
            };
            let root = document.root_element();
            prop_assert_eq!(root.text().unwrap_or_default(), replaced(&raw));
            prop_assert_eq!(root.attribute("name").map(str::to_owned), Some(replaced(&value)));
        }
    }
}
