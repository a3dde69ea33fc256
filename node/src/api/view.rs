//! Query of a request for a picture: the region and the width.

use serde_json::{Value, json};

use super::answer::Denied;
use crate::export::{LARGEST_SIDE, View, ViewError};

const REGION: &str = "region";
const WIDTH: &str = "width";

/// Parses the query of a request.
///
/// # Errors
///
/// 422 if a parameter is unknown, repeated or not valid.
pub fn view(query: &str) -> Result<View, Denied> {
    let mut view = View::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let invalid = |error: ViewError| Denied::invalid(error.to_string());
        // `replace` returns the value that was there before, so a second one is noticed and not silently
        // preferred.
        let is_repeated = match &*name {
            REGION => view.region.replace(value.parse().map_err(invalid)?).is_some(),
            WIDTH => view.width.replace(value.parse().map_err(invalid)?).is_some(),
            _ => {
                return Err(Denied::invalid(format!(
                    "there is no parameter {name}; a picture takes {REGION} and {WIDTH}"
                )));
            }
        };
        if is_repeated {
            return Err(Denied::invalid(format!("{name} is given twice")));
        }
    }
    Ok(view)
}

/// Returns the parameters as OpenAPI describes them.
pub fn parameters() -> [Value; 2] {
    let parameter = |name, description: &str, schema| json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema });
    [
        parameter(
            REGION,
            "Region of the scan, as x,y,width,height in pixels. By default the whole scan.",
            json!({ "type": "string", "pattern": r"^[0-9]+,[0-9]+,[0-9]+,[0-9]+$" }),
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
    use super::*;

    #[test]
    fn a_query_says_what_is_wanted_once() {
        assert_eq!(view("").unwrap(), View::default());
        let part = view("width=600&region=10%2C20,30,40").unwrap();
        assert_eq!(part.region.unwrap().to_string(), "10,20,30,40");
        assert_eq!(part.width, "600".parse().ok());
        for (query, refusal) in [
            ("width=600&width=600", "width is given twice"),
            (
                "widht=600",
                "there is no parameter widht; a picture takes region and width",
            ),
            (
                "width=6001",
                "a picture may be 1 to 6000 pixels wide, not \"6001\"",
            ),
        ] {
            assert_eq!(view(query).unwrap_err().message, refusal);
        }
    }
}
