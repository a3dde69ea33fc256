//! Tokens of DocTags: tags of the format, and all else as text.

use crate::block::Role;

/// Tag that opens and closes a part of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    /// Part that holds others and is no block: a list, a form, the page itself.
    Group,
    Block(Role),
    /// Box of a form that is marked, or that is not.
    Checkbox {
        is_marked: bool,
    },
}

/// Tag of a place of a table's grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellTag {
    /// Cell of a header of columns.
    Header,
    Filled,
    Empty,
    /// Part of the cell to the left.
    Left,
    /// Part of the cell above.
    Above,
    /// Part of the cell to the left and above.
    Across,
    EndOfRow,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'t> {
    Open(&'t str, Element),
    Close(&'t str),
    /// Coordinate on the grid of the page.
    Location(u16),
    Cell(CellTag),
    PageBreak,
    Text(&'t str),
}

/// Groups. The first one is around a page.
const GROUPS: &[&str] = &[
    "doctag",
    "unordered_list",
    "ordered_list",
    "group",
    "inline",
    "form",
    "key_value_region",
];
/// Kinds of pictures, which models tell with a tag in the picture.
const PICTURES: &[&str] = &[
    "natural_image",
    "pie_chart",
    "bar_chart",
    "line_chart",
    "scatter_chart",
    "flow_chart",
    "stacked_bar_chart",
    "stratigraphic_chart",
    "heatmap",
    "box_plot",
    "table_of_chart",
    "map",
    "logo",
    "icon",
    "signature",
    "stamp",
    "screenshot",
    "qr_code",
    "bar_code",
    "cad_drawing",
    "electrical_diagram",
    "remote_sensing",
    "chemistry_molecular_structure",
    "chemistry_markush_structure",
    "other",
];
/// Longest name of a tag.
const NAME: usize = 40;

fn element(name: &str) -> Option<Element> {
    if GROUPS.contains(&name) {
        return Some(Element::Group);
    }
    let role = match name {
        "title" => Role::Title,
        "text" | "paragraph" | "code" => Role::Text,
        "list_item" => Role::ListItem,
        "otsl" | "document_index" => Role::Table,
        "picture" | "chart" => Role::Figure,
        "caption" => Role::Caption,
        "page_header" => Role::Header,
        "page_footer" => Role::Footer,
        "footnote" => Role::Footnote,
        "formula" => Role::Formula,
        "checkbox_selected" => return Some(Element::Checkbox { is_marked: true }),
        "checkbox_unselected" => return Some(Element::Checkbox { is_marked: false }),
        _ => {
            let level = name.strip_prefix("section_header")?;
            let level = level.strip_prefix("_level_").unwrap_or(level);
            return level
                .bytes()
                .all(|digit| digit.is_ascii_digit())
                .then_some(Element::Block(Role::Heading));
        }
    };
    Some(Element::Block(role))
}

fn cell(name: &str) -> Option<CellTag> {
    Some(match name {
        "ched" => CellTag::Header,
        "fcel" | "rhed" | "srow" => CellTag::Filled,
        "ecel" => CellTag::Empty,
        "lcel" => CellTag::Left,
        "ucel" => CellTag::Above,
        "xcel" => CellTag::Across,
        "nl" => CellTag::EndOfRow,
        _ => return None,
    })
}

/// The tag that a text begins with, and its length; `None` for what the format does not know.
fn tag(text: &str) -> Option<(Option<Token<'_>>, usize)> {
    let inner = text.strip_prefix('<')?;
    let end = inner.bytes().take(NAME).position(|byte| byte == b'>')?;
    let (name, length) = (&inner[..end], end + 2);
    if let Some(closed) = name.strip_prefix('/') {
        return element(closed).map(|_| (Some(Token::Close(closed)), length));
    }
    if PICTURES.contains(&name) {
        return Some((None, length));
    }
    let location = || name.strip_prefix("loc_")?.parse().ok().map(Token::Location);
    let token = (name == "page_break")
        .then_some(Token::PageBreak)
        .or_else(|| element(name).map(|element| Token::Open(name, element)))
        .or_else(|| cell(name).map(Token::Cell))
        .or_else(location)?;
    Some((Some(token), length))
}

/// The tokens of a text. What is no tag of the format is text, tags of others with it.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            if let Some((token, length)) = tag(rest) {
                rest = &rest[length..];
                match token {
                    Some(token) => return Some(token),
                    None => continue,
                }
            }
            let starts = rest.char_indices().skip(1).filter(|(_, sign)| *sign == '<');
            let end = starts
                .map(|(place, _)| place)
                .find(|&place| tag(&rest[place..]).is_some());
            let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
            rest = after;
            return Some(Token::Text(text));
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_format_does_not_know_is_text() {
        let found: Vec<Token<'_>> =
            tokens("<text><loc_7>a < b <i>x</i><marker></text><section_header_level_2>").collect();
        assert_eq!(
            found,
            [
                Token::Open("text", Element::Block(Role::Text)),
                Token::Location(7),
                Token::Text("a < b <i>x</i><marker>"),
                Token::Close("text"),
                Token::Open("section_header_level_2", Element::Block(Role::Heading)),
            ]
        );
        let kinds: Vec<Token<'_>> = tokens("<logo><loc_70000><fcel>").collect();
        assert_eq!(kinds, [Token::Text("<loc_70000>"), Token::Cell(CellTag::Filled)]);
    }
}
