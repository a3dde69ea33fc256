//! Query of a request for a picture: the region, or the line, and the width.

use parkhang_models::page::geometry::{Rect, bounding_rect};
use serde_json::{Value, json};

use super::answer::Denied;
use crate::admin::Refusal;
use crate::export::document::{LineDocument, PageDocument};
use crate::export::{LARGEST_SIDE, Region, View, ViewError};

const REGION: &str = "region";
const LINE: &str = "line";
const WIDTH: &str = "width";
/// Heights of a line to one of the margin that is shown above and below it.
const MARGIN: i32 = 5;

/// Parses the query of a request.
///
/// # Errors
///
/// 422 if a parameter is unknown, repeated or not valid.
pub fn view(query: &str) -> Result<Wanted, Denied> {
    let (mut view, mut line) = (View::default(), None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let invalid = |error: ViewError| Denied::invalid(error.to_string());
        // `replace` returns the value that was there before, so a second one is noticed and not silently
        // preferred.
        let is_repeated = match &*name {
            REGION => view.region.replace(value.parse().map_err(invalid)?).is_some(),
            WIDTH => view.width.replace(value.parse().map_err(invalid)?).is_some(),
            LINE => line.replace(number(&value)?).is_some(),
            _ => {
                return Err(Denied::invalid(format!(
                    "there is no parameter {name}; a picture takes {REGION}, {LINE} and {WIDTH}"
                )));
            }
        };
        if is_repeated {
            return Err(Denied::invalid(format!("{name} is given twice")));
        }
    }
    if line.is_some() && view.region.is_some() {
        return Err(Denied::invalid(format!(
            "a picture is of a {REGION} or of a {LINE}, not of both"
        )));
    }
    Ok(Wanted { view, line })
}

fn number(value: &str) -> Result<usize, Denied> {
    value
        .parse()
        .map_err(|_| Denied::invalid(format!("a {LINE} is a number, from 1; {value:?} is none")))
}

/// Part of a scan that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    view: View,
    /// Number of a line on the page, from 1.
    line: Option<usize>,
}

impl Wanted {
    /// Returns whether a line is wanted, whose place people may have corrected.
    pub const fn is_line(self) -> bool {
        self.line.is_some()
    }

    /// Returns the view of a page that shows what is wanted.
    ///
    /// # Errors
    ///
    /// 404 if the page has no such line.
    pub fn on(self, page: &PageDocument) -> Result<View, Denied> {
        let Some(number) = self.line else {
            return Ok(self.view);
        };
        let line = number.checked_sub(1).and_then(|index| page.lines.get(index));
        let region = line
            .and_then(|line| around(line, (page.width, page.height)))
            .ok_or_else(|| {
                let message = format!(
                    "page {} has no line {number}; it has {}",
                    page.image_name,
                    page.lines.len()
                );
                Refusal::NotFound(message)
            })?;
        Ok(View {
            region: Some(region),
            ..self.view
        })
    }
}

/// Region of a page with a line and a little of what is around it; `None` if the line has no place on the page.
fn around(line: &LineDocument, (width, height): (u32, u32)) -> Option<Region> {
    let Rect {
        x,
        y,
        width: wide,
        height: high,
    } = bounding_rect(&line.polygon);
    let margin = high / MARGIN;
    let within = |place: i32, end: u32| u32::try_from(place.max(0)).unwrap_or(0).min(end);
    let (left, top) = (within(x - margin, width), within(y - margin, height));
    let (right, bottom) = (
        within(x + wide + margin, width),
        within(y + high + margin, height),
    );
    (left < right && top < bottom).then(|| Region {
        x: left,
        y: top,
        width: right - left,
        height: bottom - top,
    })
}

/// Returns the parameters as OpenAPI describes them.
pub fn parameters() -> [Value; 3] {
    let parameter = |name, description: &str, schema| json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema });
    [
        parameter(
            REGION,
            "Region of the scan, as x,y,width,height in pixels. By default the whole scan.",
            json!({ "type": "string", "pattern": r"^[0-9]+,[0-9]+,[0-9]+,[0-9]+$" }),
        ),
        parameter(
            LINE,
            "Number of a line on the page, from 1: the part of the scan that has it.",
            json!({ "type": "integer", "minimum": 1 }),
        ),
        parameter(
            WIDTH,
            "Width of the picture, in pixels. Nothing is enlarged, and no side is longer than 6000 pixels; without a width none is longer than 1600.",
            json!({ "type": "integer", "minimum": 1, "maximum": LARGEST_SIDE }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use parkhang_models::page::geometry::Point;

    use super::*;
    use crate::export::scanned::Scanned;

    #[test]
    fn a_query_says_what_is_wanted_once() {
        assert_eq!(view("").unwrap().view, View::default());
        let part = view("width=600&region=10%2C20,30,40").unwrap().view;
        assert_eq!(part.region.unwrap().to_string(), "10,20,30,40");
        assert_eq!(part.width, "600".parse().ok());
        for (query, refusal) in [
            ("width=600&width=600", "width is given twice"),
            (
                "widht=600",
                "there is no parameter widht; a picture takes region, line and width",
            ),
            ("line=x", "a line is a number, from 1; \"x\" is none"),
            (
                "line=1&region=1,1,1,1",
                "a picture is of a region or of a line, not of both",
            ),
            (
                "width=6001",
                "a picture may be 1 to 6000 pixels wide, not \"6001\"",
            ),
        ] {
            assert_eq!(view(query).unwrap_err().message, refusal);
        }
    }

    #[test]
    fn a_line_is_shown_with_what_is_around_it() {
        let line = |left: i32, top: i32| LineDocument {
            guid: String::new(),
            polygon: [
                (left, top),
                (left + 99, top),
                (left + 99, top + 19),
                (left, top + 19),
            ]
            .map(|(x, y)| Point::new(x, y))
            .to_vec(),
            text: String::new(),
            encoding: "unicode".to_owned(),
            confidence: None,
            segments: Vec::new(),
            corrected: None,
        };
        let page = PageDocument {
            image_name: "p1".to_owned(),
            source_name: "p1.jpg".to_owned(),
            width: 150,
            height: 60,
            lines: vec![line(20, 20), line(60, 39)],
            regions: Vec::new(),
            error: None,
            scanned: Scanned::default(),
        };
        let region =
            |query: &str| Ok::<_, Denied>(view(query)?.on(&page)?.region.map(|region| region.to_string()));
        assert_eq!(region("").unwrap(), None);
        assert_eq!(region("line=1").unwrap().as_deref(), Some("16,16,108,28"));
        // Not beyond the page.
        assert_eq!(region("line=2").unwrap().as_deref(), Some("56,35,94,25"));
        for none in ["line=0", "line=3"] {
            assert!(region(none).unwrap_err().message.contains("page p1 has no line"));
        }
    }
}
