//! What is not JSON: pictures of scans, and results to take away.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use parkhang_actors::domain::{Job, JobKey, VolumeId};

use super::answer::Denied;
use super::desk::Desk;
use crate::admin::{Access, Refusal, find_task, page};
use crate::export::{page_picture, page_xml};

/// A browser may keep a picture for so long: scans do not change under their names.
const KEEP_PICTURE: &str = "private, max-age=3600";

/// What of a volume, or of one of its pages, is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The scan as JPEG, as large as a screen.
    Picture,
    /// PAGE XML.
    PageXml,
    /// All pages as UTF-8.
    Text,
    /// The table of the ocr stage.
    Parquet,
}

/// Whose file it is, as the path says; the page is 0 where none is named.
#[derive(Debug)]
pub struct Place {
    pub job: String,
    pub volume: String,
    pub page: usize,
}

pub async fn file(
    desk: &Desk,
    headers: &HeaderMap,
    place: Place,
    wanted: Wanted,
) -> Result<Response, Denied> {
    desk.admit(headers, Access::Read, "reading")?;
    let (job, volume) = found(desk, &place).await?;
    let document = desk.admin.library.document(&job, &volume).await?;
    let stored = desk.admin.library.stored(&job, &volume).await;
    let store = desk.admin.library.store().await?;
    match wanted {
        Wanted::Picture => {
            let page = page(&document, &volume, place.page)?;
            let picture = page_picture(&**store, &stored, page)
                .await
                .map_err(Refusal::from)?;
            let missing = || Refusal::NotFound(format!("the scan of page {} is out of reach", place.page));
            let headers = [(CONTENT_TYPE, "image/jpeg"), (CACHE_CONTROL, KEEP_PICTURE)];
            Ok((headers, picture.ok_or_else(missing)?.jpeg).into_response())
        }
        Wanted::PageXml => {
            let page = page(&document, &volume, place.page)?;
            let xml =
                page_xml(page, Utc::now()).map_err(|error| Refusal::from(anyhow::Error::from(error)))?;
            Ok(download(
                "application/xml",
                &format!("{}.xml", page.image_name),
                xml,
            ))
        }
        Wanted::Text => {
            let text: Vec<String> = document.pages.iter().map(|page| page.text()).collect();
            let name = format!("{volume}.txt");
            Ok(download("text/plain; charset=utf-8", &name, text.join("\n")))
        }
        Wanted::Parquet => {
            let key = stored.layout.ocr_results();
            let bytes = store.get(&key).await;
            let bytes = bytes.map_err(|error| Refusal::from(anyhow::Error::from(error)))?;
            let name = key.as_str().rsplit('/').next().unwrap_or_default().to_owned();
            Ok(download("application/octet-stream", &name, bytes))
        }
    }
}

async fn found(desk: &Desk, place: &Place) -> Result<(Job, VolumeId), Denied> {
    let key: JobKey = place
        .job
        .parse()
        .map_err(|error| Denied::invalid(format!("{error}")))?;
    let volume: VolumeId = place
        .volume
        .parse()
        .map_err(|error| Denied::invalid(format!("{error}")))?;
    let (job, _) = find_task(&desk.admin, &key, &volume).await?;
    Ok((job, volume))
}

/// Ids and names of images hold nothing that ends a quoted string.
fn download(kind: &'static str, name: &str, content: impl Into<Body>) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    (
        [
            (CONTENT_TYPE, kind.to_owned()),
            (CONTENT_DISPOSITION, disposition),
        ],
        content.into(),
    )
        .into_response()
}
