//! Files over HTTP, beside the answers of commands: pictures of scans, and results in export formats.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use futures::stream;
use parkhang_core::domain::{Job, JobKey, Task, VolumeId};
use parkhang_store::artifact::texts_key;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::answer::Denied;
use super::pictures::PageKey;
use super::state::ApiState;
use super::view::view;
use crate::admin::{Access, Library, Refusal, find_task};
use crate::client::ROOT;
use crate::export::document::{PageDocument, VolumeDocument};
use crate::export::{
    BaseUrl, StoredVolume, View, alto, annotations_below, hocr, json_lines, manifest_below, page_xml,
};

/// Longest time for a file to be made.
const LIMIT: Duration = Duration::from_secs(60);
/// Files of one caller that are made and sent at the same time; further ones wait. A volume is in memory as a whole meanwhile.
pub const FILES: usize = 8;
/// Part of a file that is handed to the connection at once, in bytes.
const PIECE: usize = 64 << 10;

/// Cache policy of pictures: scans do not change under their names.
const KEEP_PICTURE: &str = "private, max-age=3600";
const KEEP_NOTHING: &str = "no-store";

const JPEG: &str = "image/jpeg";
const XML: &str = "application/xml";
const LINKED_DATA: &str = "application/ld+json";

/// Route to a file about a volume or one of its pages.
#[derive(Debug)]
pub struct Offer {
    /// Path below `/jobs/{job}`.
    pub path: &'static str,
    pub about: &'static str,
    /// Media type.
    pub kind: &'static str,
    wanted: Wanted,
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    Picture,
    PageXml,
    Alto,
    Hocr,
    Annotations,
    Manifest,
    Text,
    JsonLines,
    Parquet,
}

const fn offer(path: &'static str, wanted: Wanted, kind: &'static str, about: &'static str) -> Offer {
    Offer {
        path,
        about,
        kind,
        wanted,
    }
}

pub const OFFERS: [Offer; 10] = [
    offer(
        "/volumes/{volume}/pages/{page}/image",
        Wanted::Picture,
        JPEG,
        "The scan of a page, or a part of it.",
    ),
    offer(
        "/volumes/{volume}/pages/{page}/pagexml",
        Wanted::PageXml,
        XML,
        "A page as PAGE XML.",
    ),
    offer(
        "/volumes/{volume}/pages/{page}/alto",
        Wanted::Alto,
        XML,
        "A page as ALTO.",
    ),
    offer(
        "/volumes/{volume}/pages/{page}/hocr",
        Wanted::Hocr,
        "application/xhtml+xml",
        "A page as hOCR.",
    ),
    offer(
        "/volumes/{volume}/text",
        Wanted::Text,
        "text/plain; charset=utf-8",
        "The text of a volume.",
    ),
    offer(
        "/volumes/{volume}/lines",
        Wanted::JsonLines,
        "application/jsonl",
        "A JSON object for each line of a volume.",
    ),
    offer(
        "/volumes/{volume}/parquet",
        Wanted::Parquet,
        "application/vnd.apache.parquet",
        "The table that the ocr stage made of a volume.",
    ),
    offer(
        "/iiif/{volume}/manifest.json",
        Wanted::Manifest,
        LINKED_DATA,
        "A volume as an IIIF Presentation 3 manifest.",
    ),
    offer(
        "/iiif/{volume}/annotations/{file}",
        Wanted::Annotations,
        LINKED_DATA,
        "The text of a page as W3C annotations; the manifest names the files.",
    ),
    offer(
        "/iiif/{volume}/images/{file}",
        Wanted::Picture,
        JPEG,
        "The scan of a page; the manifest names the files.",
    ),
];

/// Subject of a file, from the path of a request.
#[derive(Debug, Default)]
pub struct Place {
    pub job: String,
    pub volume: String,
    /// Number of a page, from 1.
    pub page: Option<String>,
    /// Name of a page's image, with an extension.
    pub file: Option<String>,
}

impl Offer {
    /// Returns whether a region and a width may be requested.
    pub const fn is_picture(&self) -> bool {
        matches!(self.wanted, Wanted::Picture)
    }
}

/// Answers with a file, which is given up where it takes too long or the client has gone.
pub async fn file(
    state: &ApiState,
    headers: &HeaderMap,
    place: Place,
    query: Option<&str>,
    offer: &Offer,
) -> Result<Response, Denied> {
    // Before the path is parsed, so that a caller without a token cannot find out which jobs and volumes
    // exist.
    let caller = state.admit(headers, Access::Read, "reading")?;
    in_time(made(state, (headers, &caller.name), place, query, offer)).await
}

async fn in_time<T>(work: impl Future<Output = Result<T, Denied>>) -> Result<T, Denied> {
    timeout(LIMIT, work).await.unwrap_or_else(|_| {
        let message = format!(
            "the file was not made within {} s; ask for fewer at the same time, or later",
            LIMIT.as_secs()
        );
        Err(Denied::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message))
    })
}

async fn made(
    state: &ApiState,
    (headers, caller): (&HeaderMap, &str),
    place: Place,
    query: Option<&str>,
    offer: &Offer,
) -> Result<Response, Denied> {
    let (job, task) = found(state, &place).await?;
    let volume = &task.volume;
    let (library, store) = (&state.admin.library, &state.admin.store);
    let page = async || {
        let number = |document: &VolumeDocument| place.number(document, volume);
        let corrected = library.corrected_page(store, (&job, &task), number).await?;
        Ok::<_, Denied>((corrected.0, corrected.1.page))
    };
    let document = async || {
        library
            .corrected(store, &job, &task)
            .await
            .map(|volume| volume.document)
    };
    let base = || base(state, headers, &job);
    // Pictures have a bound of their own, as they keep nothing in memory once they are drawn.
    let held = match offer.wanted {
        Wanted::Picture => None,
        _ => state.files.place(caller).await,
    };
    let download = match offer.wanted {
        Wanted::Picture => {
            let wanted = view(query.unwrap_or_default())?;
            // Only the place of a line depends on what people have corrected.
            let (number, page) = if wanted.is_line() {
                page().await?
            } else {
                let number = |document: &VolumeDocument| place.number(document, volume);
                library.page((&job, &task), number).await?
            };
            let view = wanted.on(&page)?;
            let key = PageKey {
                job: job.id,
                volume: volume.clone(),
                generation: task.generation,
                number,
            };
            let stored = library.stored(&job, &task).await;
            return picture(state, stored, (key, page), view).await;
        }
        Wanted::PageXml => Download::of_page(volume, page().await?, "page.xml", |page, _| {
            page_xml(page, Utc::now())
        })?,
        Wanted::Alto => Download::of_page(volume, page().await?, "alto.xml", alto)?,
        Wanted::Hocr => Download::of_page(volume, page().await?, "hocr", hocr)?,
        Wanted::Annotations => {
            let (base, page) = (base()?, page().await?.1);
            Download::unnamed(&annotations_below(&base, &*document().await?, &page))
        }
        Wanted::Manifest => Download::unnamed(&manifest_below(&base()?, &*document().await?)),
        Wanted::Text => {
            let text: Vec<String> = document().await?.pages.iter().map(PageDocument::text).collect();
            Download::named(format!("{volume}.txt"), text.join("\n"))
        }
        Wanted::JsonLines => {
            let lines = json_lines(&*document().await?).map_err(internal)?;
            Download::named(format!("{volume}.jsonl"), lines)
        }
        // The table as the stage wrote it, with its provenance.
        Wanted::Parquet => {
            let (layout, store) = (Library::layout(&job, volume), state.admin.library.store().await?);
            let key = texts_key(store.as_ref(), &layout).await.map_err(internal)?;
            let no_table = || Refusal::NotFound(format!("{volume} of job {} has no table of texts", job.key));
            let key = key.ok_or_else(no_table)?;
            let bytes = store.get(&key).await.map_err(internal)?;
            let name = key.as_str().rsplit('/').next().unwrap_or_default();
            Download::named(format!("{volume}.{name}"), bytes)
        }
    };
    Ok(download.answer(offer.kind, held))
}

pub(super) async fn found(state: &ApiState, place: &Place) -> Result<(Job, Task), Denied> {
    let key: JobKey = place
        .job
        .parse()
        .map_err(|error| Denied::invalid(format!("{error}")))?;
    let volume: VolumeId = place
        .volume
        .parse()
        .map_err(|error| Denied::invalid(format!("{error}")))?;
    Ok(find_task(&state.admin, &key, &volume).await?)
}

/// Returns the address of a job's IIIF files as the client sees it.
///
/// # Errors
///
/// 422 if the Host header is missing or not valid.
fn base(state: &ApiState, headers: &HeaderMap, job: &Job) -> Result<BaseUrl, Denied> {
    let scheme = if state.is_secure(headers) { "https" } else { "http" };
    // The addresses in a manifest must be reachable by the client, and only its Host header tells under which
    // name it came.
    let host = headers.get(HOST).and_then(|value| value.to_str().ok());
    let host = host.unwrap_or_default();
    format!("{scheme}://{host}{ROOT}/jobs/{}/iiif", job.key)
        .parse()
        .map_err(|_| Denied::invalid(format!("the Host header {host:?} is not valid")))
}

impl Place {
    /// Returns the number of the requested page, from 1; one that no page has where the path names none.
    ///
    /// # Errors
    ///
    /// 404 if the volume has no page of the requested name.
    fn number(&self, document: &VolumeDocument, volume: &VolumeId) -> Result<usize, Refusal> {
        let Some(file) = &self.file else {
            return Ok(self.page_number());
        };
        // The extension is that of the format asked for, and no part of the page's name.
        let name = file.rsplit_once('.').map_or(file.as_str(), |(name, _)| name);
        let found = document.pages.iter().position(|page| page.image_name == name);
        let number = found.map(|index| index + 1);
        number.ok_or_else(|| Refusal::NotFound(format!("{volume} has no page {name}")))
    }

    /// Number of the page that the path names; 0, which no page has, where it names none.
    pub fn page_number(&self) -> usize {
        let number = self.page.as_ref().and_then(|number| number.parse().ok());
        number.unwrap_or(0)
    }
}

async fn picture(
    state: &ApiState,
    stored: StoredVolume,
    (key, page): (PageKey, PageDocument),
    view: View,
) -> Result<Response, Denied> {
    let (store, number) = (state.admin.library.store().await?, key.number);
    let picture = state.pictures.of_page(store, stored, (key, page), view).await?;
    let missing = || Refusal::NotFound(format!("the scan of page {number} cannot be reached"));
    let headers = [(CONTENT_TYPE, JPEG), (CACHE_CONTROL, KEEP_PICTURE)];
    Ok((headers, picture.ok_or_else(missing)?).into_response())
}

/// File to be sent, with a name if a browser should save it instead of showing it.
struct Download {
    name: Option<String>,
    content: Bytes,
}

impl Download {
    fn named(name: String, content: impl Into<Bytes>) -> Self {
        Self {
            name: Some(name),
            content: content.into(),
        }
    }

    fn unnamed(content: &Value) -> Self {
        Self {
            name: None,
            content: content.to_string().into(),
        }
    }

    /// Makes a file from a page and its number.
    ///
    /// # Errors
    ///
    /// 404 if the page could not be read.
    fn of_page(
        volume: &VolumeId,
        (number, page): (usize, PageDocument),
        extension: &str,
        made: impl Fn(&PageDocument, usize) -> std::io::Result<Vec<u8>>,
    ) -> Result<Self, Denied> {
        // An empty file would look like a page without text, so a page that failed is reported as missing.
        if let Some(error) = &page.error {
            let message = format!("page {number} could not be read: {error}");
            return Err(Refusal::NotFound(message).into());
        }
        let content = made(&page, number).map_err(internal)?;
        let name = format!("{volume}.{}.{extension}", page.image_name);
        Ok(Self::named(name, content))
    }

    /// Returns the response, which has its place until it has been sent: a client that takes its time keeps the file in memory.
    fn answer(self, kind: &'static str, held: Option<OwnedSemaphorePermit>) -> Response {
        let length = self.content.len();
        let pieces = stream::unfold((self.content, held), async |(mut rest, held)| {
            let piece = rest.split_to(rest.len().min(PIECE));
            (!piece.is_empty()).then_some((Ok::<_, Infallible>(piece), (rest, held)))
        });
        // Ids and names of images contain no character that would end a quoted string.
        let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, KEEP_NOTHING)];
        let mut response = (headers, Body::from_stream(pieces)).into_response();
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
        let disposition = self.name.map(|name| format!("attachment; filename=\"{name}\""));
        if let Some(disposition) = disposition.and_then(|text| HeaderValue::try_from(text).ok()) {
            response.headers_mut().insert(CONTENT_DISPOSITION, disposition);
        }
        response
    }
}

pub(super) fn internal(error: impl Into<anyhow::Error>) -> Denied {
    Refusal::Internal(error.into()).into()
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use tokio::time::Instant;

    use super::*;
    use crate::api::per_caller::PerCaller;

    #[tokio::test(start_paused = true)]
    async fn a_file_is_made_in_time_or_not_at_all() {
        assert_eq!(in_time(async { Ok(7) }).await.unwrap(), 7);
        let began = Instant::now();
        let slow = in_time(std::future::pending::<Result<(), Denied>>())
            .await
            .unwrap_err();
        assert_eq!(
            (slow.status, slow.error, began.elapsed()),
            (StatusCode::GATEWAY_TIMEOUT, "timeout", LIMIT)
        );
    }

    #[tokio::test]
    async fn a_file_takes_a_place_of_its_caller_until_it_is_sent() {
        let places = PerCaller::new(1);
        let text = "a".repeat(PIECE + 1);
        let download = Download::named("text".to_owned(), text.clone());
        let response = download.answer("text/plain", places.place("eva").await);
        assert_eq!(response.headers()[CONTENT_LENGTH], (PIECE + 1).to_string());
        assert!(places.now("eva").is_none() && places.now("otto").is_some());
        let sent = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert_eq!(sent, text);
        assert!(places.now("eva").is_some());
    }
}
