//! Filings: documents of an exchange, each with the place of its PDF.

use std::fmt;
use std::path::PathBuf;

use parkhang_actors::intake::DocumentPlace;
use parkhang_core::domain::{InvalidName, VolumeId};
use parkhang_store::storage::{ArtifactKey, InvalidKey};

/// Beginning of the address of an object.
const S3: &str = "s3://";
/// Ending of PDFs, which is no part of an id.
const PDF: &str = ".pdf";

/// Place of a PDF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    File(PathBuf),
    Object(DocumentPlace),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Object(DocumentPlace { bucket, key }) => write!(f, "{S3}{bucket}/{key}"),
        }
    }
}

/// PDF that is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filing {
    /// Exchange and id at it, the W id and the I id; `None` for a PDF of which nothing is recorded.
    pub document: Option<VolumeId>,
    pub place: Place,
}

/// Filing as a command line or a manifest names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedFiling {
    pub exchange: Option<String>,
    /// Id at the exchange; `None` is the name of the file without its ending.
    pub source_id: Option<String>,
    pub bucket: Option<String>,
    pub key: String,
}

/// Exchange and bucket of filings whose names do not say them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Defaults<'a> {
    pub exchange: Option<&'a str>,
    pub bucket: Option<&'a str>,
}

/// Reason why a name is that of no filing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFiling {
    #[error("it names no exchange: name one with --exchange")]
    NoExchange,
    #[error("it names no bucket: write s3://BUCKET/KEY, or set pages.s3.bucket")]
    NoBucket,
    #[error(transparent)]
    Key(#[from] InvalidKey),
    #[error(transparent)]
    Name(#[from] InvalidName),
}

impl NamedFiling {
    /// Reads `s3://BUCKET/KEY`, or else a key.
    pub fn of_address(text: &str) -> Self {
        let (bucket, key) = match text.strip_prefix(S3) {
            Some(rest) => {
                let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
                (Some(bucket.to_owned()), key)
            }
            None => (None, text),
        };
        Self {
            bucket,
            key: key.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the filing, with what its name does not say.
    ///
    /// # Errors
    ///
    /// [`NoFiling`] if something is missing, or is no key or no id.
    pub fn resolve(self, defaults: Defaults<'_>) -> Result<Filing, NoFiling> {
        let given = |own: Option<String>, default: Option<&str>| {
            own.or_else(|| default.map(str::to_owned))
                .filter(|text| !text.is_empty())
        };
        let bucket = given(self.bucket, defaults.bucket).ok_or(NoFiling::NoBucket)?;
        let source_id = match self.source_id {
            Some(id) => id,
            None => stem(&self.key).to_owned(),
        };
        let exchange = given(self.exchange, defaults.exchange).ok_or(NoFiling::NoExchange)?;
        Ok(Filing {
            document: Some(VolumeId::whole(exchange, source_id)?),
            place: Place::Object(DocumentPlace {
                bucket,
                key: ArtifactKey::new(self.key)?,
            }),
        })
    }
}

/// True for the address of an object.
pub fn is_address(text: &str) -> bool {
    text.starts_with(S3)
}

/// Name of a file without folders and ending.
pub fn stem(key: &str) -> &str {
    let name = key.rsplit('/').next().unwrap_or(key);
    let cut = name.len().saturating_sub(PDF.len());
    match (name.get(..cut), name.get(cut..)) {
        (Some(stem), Some(ending)) if ending.eq_ignore_ascii_case(PDF) => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults<'_> = Defaults {
        exchange: Some("HKEX"),
        bucket: Some("pdfs"),
    };

    fn shown(named: NamedFiling) -> String {
        let filing = named.resolve(DEFAULTS).unwrap();
        format!("{} {}", filing.document.unwrap(), filing.place)
    }

    #[test]
    fn an_address_names_a_bucket_and_an_id() {
        for (address, expected) in [
            (
                "hkex/2026/11805134.pdf",
                "HKEX-11805134 s3://pdfs/hkex/2026/11805134.pdf",
            ),
            ("s3://others/7.PDF", "HKEX-7 s3://others/7.PDF"),
            ("s3://others/a.pdf/8", "HKEX-8 s3://others/a.pdf/8"),
            ("2.1.pdf", "HKEX-2.1 s3://pdfs/2.1.pdf"),
        ] {
            assert_eq!(shown(NamedFiling::of_address(address)), expected);
        }
        let named = NamedFiling {
            exchange: Some("SGX".to_owned()),
            source_id: Some("A-1".to_owned()),
            ..NamedFiling::of_address("x.pdf")
        };
        assert_eq!(shown(named), "SGX-A-1 s3://pdfs/x.pdf");
    }

    #[test]
    fn a_name_that_lacks_something_is_no_filing() {
        let refused = |address: &str, defaults| {
            let refused = NamedFiling::of_address(address).resolve(defaults);
            refused.unwrap_err().to_string()
        };
        let nothing = Defaults::default();
        assert!(refused("x.pdf", nothing).contains("pages.s3.bucket"));
        assert!(refused("s3://b/x.pdf", nothing).contains("--exchange"));
        assert!(refused("s3://b", DEFAULTS).contains("I id"));
        for address in [
            "s3://b/../x.pdf",
            "s3://b/a//x.pdf",
            "s3:///x.pdf",
            "s3://b/a b@3.pdf",
        ] {
            let named = NamedFiling::of_address(address);
            assert!(
                named
                    .resolve(Defaults {
                        bucket: None,
                        ..DEFAULTS
                    })
                    .is_err(),
                "{address}"
            );
        }
    }
}
