//! Tables of the archive's own programs for Google Vision and for a language model, under the keys that their readers expect, from the
//! answers that were kept.
//!
//! Their defects are not among them: an error within an answer is no row of an empty page, an odd member costs itself alone, a refusal or a
//! loop is not `ok`, and the pages of a volume are not in memory at once.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use parkhang_actors::stage::StageTable;
use parkhang_answers::chat::ChatAnswer;
use parkhang_answers::short_message::short_message;
use parkhang_answers::vision::ArchiveRow;
use parkhang_core::domain::StageName;
use parkhang_store::artifact::{
    ArchiveLayout, ChatArchiveRow, ImageName, KeptAnswer, LineDetectionRow, OcrResultRow, Provenance,
    ServiceRef, VisionArchiveRow, chat_archive, failed_pages, read_table, vision_archive,
};
use parkhang_store::pages::common_version;
use parkhang_store::storage::{ArtifactStore, StorageError};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Value, json};

use super::results::StoredVolume;

/// Level of the archive's program.
const ZSTD_LEVEL: i32 = 1;

/// Page of a volume, as far as the archive's tables know it.
struct Page {
    name: ImageName,
    index: usize,
    file: String,
}

/// Writes the files of a volume below `target`; returns their folder.
///
/// # Errors
///
/// If no service has read the volume, an artifact is damaged, or a file cannot be written.
pub async fn write_archive(
    store: &dyn ArtifactStore,
    stored: &StoredVolume,
    target: &Path,
) -> Result<PathBuf> {
    let results = read_table::<OcrResultRow>(store, &stored.layout.ocr_results()).await?;
    let Some(service) = results.provenance.service.clone() else {
        bail!("no service has read this volume: the archive's tables are made of the answers of one");
    };
    let volume = Volume {
        store,
        stored,
        stage: &results.provenance.stage,
        pages: pages(store, stored).await?,
    };
    let version = version(stored, &results.provenance).await;
    let files = match service.kind.as_str() {
        "google_vision" => {
            let files = ArchiveLayout::vision(&stored.volume, &version)?;
            volume.write_vision(target, &files).await?;
            files
        }
        "openai" => {
            let files = ArchiveLayout::chat(&stored.volume, &version)?;
            volume.write_chat(target, &files, &service).await?;
            files
        }
        other => bail!("the archive has no table for a service of the kind {other}"),
    };
    Ok(target.join(files.folder.as_str()))
}

/// The pages in their order. Those whose lines were not even found are in the tables of errors alone.
async fn pages(store: &dyn ArtifactStore, stored: &StoredVolume) -> Result<Vec<Page>> {
    let rows = read_table::<LineDetectionRow>(store, &stored.layout.line_detection())
        .await?
        .rows;
    let found = rows
        .into_iter()
        .map(|row| (row.page_index, (row.image_name, row.source_name)));
    let mut names: BTreeMap<i32, (String, String)> = found.collect();
    for (_, row) in failed_pages(store, &stored.layout, &StageTable::built_in().names()).await? {
        names
            .entry(row.page_index)
            .or_insert((row.image_name.clone(), row.image_name));
    }
    let page = |(index, (name, file)): (i32, (String, String))| {
        Ok(Page {
            name: ImageName::new(name)?,
            index: usize::try_from(index)?,
            file,
        })
    };
    names.into_iter().map(page).collect()
}

/// Version of the scans as keys have it: the beginning of that of the source, or of the hash of all that was read.
async fn version(stored: &StoredVolume, provenance: &Provenance) -> String {
    let listed = match &stored.scans {
        Some(scans) => scans.pages(&stored.volume).await.ok(),
        None => None,
    };
    let version = listed.as_ref().and_then(common_version).map(str::to_owned);
    let hash = || {
        provenance
            .input_hash
            .to_string()
            .rsplit(':')
            .next()
            .map(str::to_owned)
    };
    ArchiveLayout::version_of(&version.or_else(hash).unwrap_or_default())
}

struct Volume<'a> {
    store: &'a dyn ArtifactStore,
    stored: &'a StoredVolume,
    /// The stage that has asked the service.
    stage: &'a StageName,
    pages: Vec<Page>,
}

impl Volume<'_> {
    async fn answer(&self, page: &Page) -> Result<Option<KeptAnswer>> {
        let key = self.stored.layout.answer(self.stage, &page.name);
        match self.store.get(&key).await {
            Ok(packed) => Ok(Some(
                KeptAnswer::unpack(&packed).with_context(|| key.to_string())?,
            )),
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Line of the sidecar for a page that was read; `None` for any other.
    async fn line(&self, page: &Page) -> Result<Option<(Value, Vec<u8>)>> {
        let answer = self.answer(page).await?.filter(|answer| answer.error.is_none());
        let Some(answer) = answer else { return Ok(None) };
        let line = json!({ "img_file_name": page.file, "img_idx": page.index, "response": answer.answer });
        Ok(Some((answer.answer, spaced(&line)?)))
    }

    async fn write_vision(&self, target: &Path, files: &ArchiveLayout) -> Result<()> {
        let (mut rows, mut size) = (Vec::new(), 0);
        for page in &self.pages {
            if let Some((response, line)) = self.line(page).await? {
                size += line.len() + usize::from(!rows.is_empty());
                rows.push(vision_row(page, &response));
            }
        }
        super::write(&target.join(files.table.as_str()), &vision_archive(&rows)?)?;
        // Read a second time, as the size stands in front and the answers are too large to be kept.
        let path = target.join(files.beside.as_str());
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut packed = zstd::stream::write::Encoder::new(file, ZSTD_LEVEL)?;
        packed.include_contentsize(true)?;
        packed.set_pledged_src_size(Some(size as u64))?;
        let mut is_first = true;
        for page in &self.pages {
            if let Some((_, line)) = self.line(page).await? {
                if !is_first {
                    packed.write_all(b"\n")?;
                }
                packed.write_all(&line)?;
                is_first = false;
            }
        }
        packed.finish()?.sync_all()?;
        Ok(())
    }

    async fn write_chat(&self, target: &Path, files: &ArchiveLayout, service: &ServiceRef) -> Result<()> {
        let failed = failed_pages(self.store, &self.stored.layout, &StageTable::built_in().names()).await?;
        let failed: HashMap<String, (String, String)> = failed
            .into_iter()
            .map(|(stage, row)| (row.image_name, (stage.to_string(), row.message)))
            .collect();
        let mut rows = Vec::with_capacity(self.pages.len());
        let mut errors = GzEncoder::new(Vec::new(), Compression::default());
        let mut has_errors = false;
        for page in &self.pages {
            let failure = failed.get(page.name.as_str());
            let answer = self.answer(page).await?;
            if let Some((stage, message)) = failure {
                let line = [
                    ("img_file_name", page.file.as_str()),
                    ("source_etag", ""),
                    ("stage", archive_stage(stage)),
                    ("error_message", message),
                ];
                errors.write_all(&in_order(&line)?)?;
                errors.write_all(b"\n")?;
                has_errors = true;
            }
            rows.push(chat_row(page, answer.as_ref(), failure, &service.model));
        }
        super::write(&target.join(files.table.as_str()), &chat_archive(&rows)?)?;
        let path = target.join(files.beside.as_str());
        match has_errors {
            true => super::write(&path, &errors.finish()?),
            // One that an earlier export has left would tell of errors that are mended.
            false => match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
                _ => Ok(()),
            },
        }
    }
}

fn vision_row(page: &Page, response: &Value) -> VisionArchiveRow {
    let row = ArchiveRow::of(response);
    VisionArchiveRow {
        img_file_name: page.file.clone(),
        img_idx: page.index,
        source_etag: String::new(),
        nb_pages: row.nb_pages,
        languages: row.languages,
        confidence: row.confidence,
        text_len: row.text_len,
        nb_lines_tib: row.nb_lines_tib,
        text: row.text,
    }
}

fn chat_row(
    page: &Page,
    answer: Option<&KeptAnswer>,
    failure: Option<&(String, String)>,
    model: &str,
) -> ChatArchiveRow {
    let read = answer
        .and_then(|answer| ChatAnswer::of(&answer.answer).ok())
        .unwrap_or_default();
    let (stage, message) = failure.map_or(("", ""), |(stage, message)| {
        (archive_stage(stage), message.as_str())
    });
    ChatArchiveRow {
        img_file_name: page.file.clone(),
        source_etag: String::new(),
        ok: failure.is_none(),
        truncated: read.finish_reason == "length",
        finish_reason: read.finish_reason,
        page_text: read.text,
        output_tokens: read
            .tokens
            .and_then(|tokens| i32::try_from(tokens).ok())
            .unwrap_or(0),
        error_stage: stage.to_owned(),
        error_message: short_message(message),
        model_id: model.to_owned(),
    }
}

/// Name that the archive's program has for a stage that failed on a page.
fn archive_stage(stage: &str) -> &'static str {
    match stage {
        "ocr" => "ocr",
        _ => "decode",
    }
}

/// Object whose members stand in this order.
fn in_order(members: &[(&str, &str)]) -> Result<Vec<u8>> {
    let mut text = b"{".to_vec();
    for (index, (name, value)) in members.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(text, "{separator}{}: {}", json!(name), json!(value))?;
    }
    text.push(b'}');
    Ok(text)
}

/// JSON with a space behind commas and colons, as the archive's programs write it.
fn spaced(value: &Value) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Spaced))?;
    Ok(text)
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        separate(writer, first)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        separate(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

fn separate<W: ?Sized + Write>(writer: &mut W, is_first: bool) -> std::io::Result<()> {
    if is_first { Ok(()) } else { writer.write_all(b", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_as_the_archive_does() {
        let value = json!({"a": [1, "བོད"], "b": {"c": null}});
        let text = String::from_utf8(spaced(&value).unwrap()).unwrap();
        assert_eq!(text, "{\"a\": [1, \"བོད\"], \"b\": {\"c\": null}}");
        let line = String::from_utf8(in_order(&[("z", "1\""), ("a", "ཀ")]).unwrap()).unwrap();
        assert_eq!(line, "{\"z\": \"1\\\"\", \"a\": \"ཀ\"}");
    }

    /// The archive's program stores a refusal as a good page, and has nothing to say about one that failed before.
    ///
    /// Rows: 84.
    #[test]
    fn a_page_is_ok_only_if_its_text_is_one() {
        let page = Page {
            name: ImageName::new("p1").unwrap(),
            index: 0,
            file: "p1.tif".to_owned(),
        };
        let answer = |text: &str, finish: &str| KeptAnswer {
            request: parkhang_store::artifact::Digest::of(b""),
            service: "s".to_owned(),
            error: None,
            answer: json!({
                "choices": [{"message": {"content": text}, "finish_reason": finish}], "usage": {"completion_tokens": 9},
            }),
        };
        let good = chat_row(&page, Some(&answer("བོད\n", "stop")), None, "m");
        assert!(good.ok && !good.truncated && good.error_stage.is_empty());
        assert_eq!(
            (
                good.page_text.as_str(),
                good.output_tokens,
                good.model_id.as_str()
            ),
            ("བོད\n", 9, "m")
        );
        let failure = ("ocr".to_owned(), "cut\noff".to_owned());
        let cut = chat_row(&page, Some(&answer("བོད", "length")), Some(&failure), "m");
        assert!(!cut.ok && cut.truncated && cut.page_text == "བོད");
        assert_eq!(
            (cut.error_stage.as_str(), cut.error_message.as_str()),
            ("ocr", "cut off")
        );
        let unread = ("line_detection".to_owned(), "no picture".to_owned());
        assert_eq!(chat_row(&page, None, Some(&unread), "m").error_stage, "decode");
    }
}
