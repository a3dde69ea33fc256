//! URLs of exported files, which are also their ids.

use std::fmt::{self, Display};
use std::str::FromStr;

use axum::http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use thiserror::Error;

use crate::export::document::{PageDocument, VolumeDocument};

/// Characters to be encoded: all but letters, digits and the unreserved ones of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

#[derive(Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    #[error("not a URL such as https://example.org/iiif")]
    NoUrl,
    #[error("has a query, so no path can be appended to it")]
    Query,
    #[error("{{image}} is missing, but every scan has its own service")]
    NoImage,
}

/// http or https URL below which files are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(String);

impl FromStr for BaseUrl {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let uri: Uri = text.parse().map_err(|_| AddressError::NoUrl)?;
        let web = matches!(uri.scheme_str(), Some("http" | "https"));
        // A template with braces or a character that is not encoded would make ids that are no valid URLs.
        let plain = text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"{}\"<>\\^`|#".contains(&b));
        if !web || !plain || uri.host().is_none_or(str::is_empty) {
            return Err(AddressError::NoUrl);
        }
        if uri.query().is_some() {
            return Err(AddressError::Query);
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

impl Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Template of the base URL of a scan's Image API service, with placeholders for ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageService(String);

impl ImageService {
    /// Returns the service of a scan.
    pub fn of(&self, volume: &VolumeDocument, page: &PageDocument) -> String {
        self.filled(&volume.w_id, &volume.i_id, &page.source_name)
    }

    fn filled(&self, w_id: &str, i_id: &str, image: &str) -> String {
        self.0
            .replace("{w}", &encoded(w_id))
            .replace("{i}", &encoded(i_id))
            .replace("{image}", &encoded(image))
    }
}

impl FromStr for ImageService {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if !text.contains("{image}") {
            return Err(AddressError::NoImage);
        }
        let template = Self(text.trim_end_matches('/').to_owned());
        // A template is checked as one of its addresses, since braces are not valid in a URL.
        BaseUrl::from_str(&template.filled("W", "I", "image"))?;
        Ok(template)
    }
}

/// URL of a volume, from which those of its files are derived.
#[derive(Debug)]
pub struct VolumeAddress(String);

impl VolumeAddress {
    pub fn new(base: &BaseUrl, volume: &VolumeDocument) -> Self {
        let name = format!("{}-{}", volume.w_id, volume.i_id);
        Self(format!("{base}/{}", encoded(&name)))
    }

    pub fn manifest(&self) -> String {
        format!("{}/manifest.json", self.0)
    }

    /// Returns the id of a canvas. Nothing is served there: canvases are described in the manifest.
    pub fn canvas(&self, image_name: &str) -> String {
        format!("{}/canvas/{}", self.0, encoded(image_name))
    }

    pub fn image(&self, image_name: &str) -> String {
        format!("{}/images/{}.jpg", self.0, encoded(image_name))
    }

    pub fn annotations(&self, image_name: &str) -> String {
        format!("{}/annotations/{}.json", self.0, encoded(image_name))
    }
}

fn encoded(segment: &str) -> String {
    utf8_percent_encode(segment, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_a_url_that_others_can_lie_below() {
        for good in [
            "http://localhost:8000",
            "https://example.org/a/b/",
            "https://[::1]/x",
        ] {
            let base: BaseUrl = good.parse().unwrap();
            assert_eq!(base.to_string(), good.trim_end_matches('/'));
        }
        for bad in [
            "",
            "/iiif",
            "ftp://example.org",
            "https://",
            "example.org/x",
            "https://a b/",
            "https://a/{i}",
            "https://a/#b",
        ] {
            assert_eq!(bad.parse::<BaseUrl>(), Err(AddressError::NoUrl), "{bad}");
        }
        assert_eq!("https://a/?b=c".parse::<BaseUrl>(), Err(AddressError::Query));
    }

    #[test]
    fn a_service_is_filled_with_encoded_ids() {
        let service: ImageService = "https://iiif.example.org/bdr:{i}::{image}".parse().unwrap();
        assert_eq!(
            service.filled("W1", "I1", "པོ a/b.jpg"),
            "https://iiif.example.org/bdr:I1::%E0%BD%94%E0%BD%BC%20a%2Fb.jpg"
        );
        let refused = |text: &str| text.parse::<ImageService>().unwrap_err();
        assert_eq!(refused("https://example.org/{i}"), AddressError::NoImage);
        assert_eq!(
            refused("https://example.org/{volume}/{image}"),
            AddressError::NoUrl
        );
        assert_eq!(refused("{image}"), AddressError::NoUrl);
    }
}
