//! Manifests: lists of filings, as lines or as a JSON list.

use serde::Deserialize;
use serde_json::Value;

use super::filing::NamedFiling;

/// Longest line, in bytes: a key has 1024 of them at most.
const MAX_LINE: usize = 16 * 1024;
/// Longest part of a faulty line that a message shows, in characters.
const SHOWN: usize = 80;

/// Entry of a manifest that names no filing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {number}: {reason}")]
pub struct BadEntry {
    /// Line, or entry of a JSON list.
    pub kind: &'static str,
    /// Number from 1, of all lines or entries.
    pub number: usize,
    pub reason: String,
}

/// Filing of a manifest with the place where it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: &'static str,
    pub number: usize,
    pub filing: NamedFiling,
}

impl Entry {
    /// The entry as a faulty one.
    pub fn bad(&self, reason: impl ToString) -> BadEntry {
        BadEntry {
            kind: self.kind,
            number: self.number,
            reason: reason.to_string(),
        }
    }
}

/// Manifest that cannot be read as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadManifest {
    #[error("it is no JSON list: {0}")]
    List(String),
    #[error("it names no filings")]
    Empty,
}

/// JSON of a filing. Members that are not known are passed over.
#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    source_id: Option<SourceId>,
    s3_key: String,
    #[serde(default)]
    exchange: Option<String>,
    #[serde(default)]
    s3_bucket: Option<String>,
}

/// Id at an exchange, which programs write as a number too.
#[derive(Deserialize)]
#[serde(untagged)]
enum SourceId {
    Text(String),
    Number(u64),
}

/// Reads the entries of a manifest in their order, faulty ones too. Empty lines are no entries.
///
/// # Errors
///
/// [`BadManifest`] if it is a JSON list that cannot be read, or has no entries.
pub fn read(text: &[u8]) -> Result<Vec<Result<Entry, BadEntry>>, BadManifest> {
    let is_list = text.trim_ascii_start().starts_with(b"[");
    let entries = if is_list { of_list(text)? } else { of_lines(text) };
    if entries.is_empty() {
        return Err(BadManifest::Empty);
    }
    Ok(entries)
}

fn of_list(text: &[u8]) -> Result<Vec<Result<Entry, BadEntry>>, BadManifest> {
    let values: Vec<Value> =
        serde_json::from_slice(text).map_err(|error| BadManifest::List(error.to_string()))?;
    let entries = (1..).zip(values).map(|(number, value)| {
        let filing = match value {
            Value::String(address) => Ok(NamedFiling::of_address(&address)),
            value => {
                let object = serde_json::from_value::<Object>(value);
                object.map(of_object).map_err(|error| error.to_string())
            }
        };
        entry("entry", number, filing)
    });
    Ok(entries.collect())
}

fn of_lines(text: &[u8]) -> Vec<Result<Entry, BadEntry>> {
    let lines = (1..).zip(text.split(|byte| *byte == b'\n'));
    lines
        .map(|(number, line)| (number, line.trim_ascii()))
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| entry("line", number, of_line(line)))
        .collect()
}

fn of_line(line: &[u8]) -> Result<NamedFiling, String> {
    if line.len() > MAX_LINE {
        return Err(format!(
            "it has {} bytes, and none has more than {MAX_LINE}",
            line.len()
        ));
    }
    let line = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    if !line.starts_with('{') {
        return Ok(NamedFiling::of_address(line));
    }
    let object = serde_json::from_str::<Object>(line);
    object
        .map(of_object)
        .map_err(|error| format!("{}: {error}", beginning(line)))
}

fn of_object(object: Object) -> NamedFiling {
    let address = NamedFiling::of_address(&object.s3_key);
    NamedFiling {
        exchange: object.exchange,
        source_id: object.source_id.map(|id| match id {
            SourceId::Text(text) => text,
            SourceId::Number(number) => number.to_string(),
        }),
        bucket: object.s3_bucket.or(address.bucket),
        key: address.key,
    }
}

fn entry(kind: &'static str, number: usize, filing: Result<NamedFiling, String>) -> Result<Entry, BadEntry> {
    match filing {
        Ok(filing) => Ok(Entry { kind, number, filing }),
        Err(reason) => Err(BadEntry { kind, number, reason }),
    }
}

fn beginning(line: &str) -> String {
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn named(exchange: Option<&str>, id: Option<&str>, bucket: Option<&str>, key: &str) -> NamedFiling {
        NamedFiling {
            exchange: exchange.map(str::to_owned),
            source_id: id.map(str::to_owned),
            bucket: bucket.map(str::to_owned),
            key: key.to_owned(),
        }
    }

    fn filings(text: &str) -> Vec<NamedFiling> {
        let entries = read(text.as_bytes()).unwrap();
        entries.into_iter().map(|entry| entry.unwrap().filing).collect()
    }

    /// Rows: 149.
    #[test]
    fn a_manifest_is_lines_or_a_json_list() {
        let lines = "hkex/1.pdf\n\n  s3://pdfs/hkex/2.pdf \r\n\
            {\"source_id\": \"3\", \"s3_key\": \"x/3.pdf\", \"title\": \"report\"}\n\
            {\"source_id\": 4, \"s3_key\": \"s3://b/y.pdf\", \"exchange\": \"SGX\"}\n";
        let list = json!([
            "hkex/1.pdf",
            "s3://pdfs/hkex/2.pdf",
            {"source_id": "3", "s3_key": "x/3.pdf"},
            {"source_id": 4, "s3_key": "y.pdf", "exchange": "SGX", "s3_bucket": "b"},
        ]);
        let expected = [
            named(None, None, None, "hkex/1.pdf"),
            named(None, None, Some("pdfs"), "hkex/2.pdf"),
            named(None, Some("3"), None, "x/3.pdf"),
            named(Some("SGX"), Some("4"), Some("b"), "y.pdf"),
        ];
        assert_eq!(filings(lines), expected);
        assert_eq!(filings(&format!("\n {list}")), expected);
    }

    #[test]
    fn a_bad_line_is_named_and_the_rest_goes_on() {
        let long = "k".repeat(MAX_LINE + 1);
        let mut text = format!("a.pdf\n{{\"source_id\": \"3\"}}\n{long}\n").into_bytes();
        text.extend(b"\xff\xfe\n{\"s3_key\": 7}\n{\"s3_key\nb.pdf");
        let entries = read(&text).unwrap();
        let bad: Vec<String> = entries
            .iter()
            .filter_map(|entry| Some(entry.as_ref().err()?.to_string()))
            .collect();
        assert_eq!(entries.len() - bad.len(), 2);
        for (bad, said) in bad.iter().zip([
            "line 2: {\"source_id\": \"3\"}: missing field `s3_key`",
            "line 3: it has 16385 bytes",
            "line 4: it is not UTF-8",
            "line 5: {\"s3_key\": 7}",
            "line 6: {\"s3_key",
        ]) {
            assert!(bad.starts_with(said), "{bad}");
        }
        let entries = read(br#"["a.pdf", 7, {"s3_key": []}]"#).unwrap();
        let bad: Vec<&BadEntry> = entries.iter().filter_map(|entry| entry.as_ref().err()).collect();
        assert_eq!((bad[0].number, bad[1].number), (2, 3));
        assert!(bad[0].to_string().starts_with("entry 2: "));
        assert!(matches!(read(b"[\"a.pdf\""), Err(BadManifest::List(_))));
        assert_eq!(read(b"\n \r\n"), Err(BadManifest::Empty));
        assert_eq!(read(b"[]"), Err(BadManifest::Empty));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ids in proptest::collection::vec("[a-zA-Z0-9 \"\\\\{}é]{1,20}", 1..20), as_list in any::<bool>()) {
            let objects: Vec<Value> = ids
                .iter()
                .map(|id| json!({"source_id": id, "s3_key": format!("k/{id}.pdf")}))
                .collect();
            let lines: Vec<String> = objects.iter().map(Value::to_string).collect();
            let text = if as_list { json!(objects).to_string() } else { lines.join("\n") };
            let read: Vec<String> = filings(&text).into_iter().map(|filing| filing.source_id.unwrap()).collect();
            prop_assert_eq!(read, ids);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(entries) = read(&bytes) {
                prop_assert!(entries.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn fuzz_manifests() {
        let corpus = [
            "{\"s3_key\": \"hkex/1.pdf\", \"exchange\": \"hkex\"}\ns3://bucket/hkex/2.pdf\n",
            r#"["s3://bucket/a.pdf", {"s3_key": "b.pdf", "source_id": "7", "bucket": "c"}]"#,
        ];
        parkhang_fuzz::Fuzz::of_texts("manifests", corpus).feeds(|bytes| drop(read(bytes)));
    }
}
