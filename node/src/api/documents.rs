//! Words of a document's pages with their boxes, under the address by which web viewers of PDFs ask for them.

use std::cmp::Reverse;

use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use parkhang_core::domain::VolumeId;
use parkhang_state::{StateError, VolumeWork};
use parkhang_store::artifact::VolumeLayout;
use parkhang_store::storage::ArtifactStore;
use serde_json::{Value, json};

use super::answer::Denied;
use super::files::internal;
use super::openapi::responses;
use super::state::ApiState;
use crate::admin::{Access, Library, Refusal};
use crate::export::VolumeWords;

/// Routes of the words of a page: a document is named by its volume, `W-I`, or by the two parts of it.
pub const ROUTES: [&str; 2] = [
    "/documents/{document}/pages/{page}/ocr-bboxes",
    "/documents/{document}/{source}/pages/{page}/ocr-bboxes",
];

/// Jobs that are asked for the words of a volume, from the latest on.
const JOBS: u32 = 50;
/// Parts of a document that are looked through for one with the page.
const PARTS: u32 = 2_000;

/// A page of a document, from the path of a request.
#[derive(Debug, Default)]
pub struct PageOfDocument {
    document: String,
    /// Second part of the volume's id, where the path has it apart.
    source: Option<String>,
    /// Number from 1.
    page: String,
}

impl FromIterator<(String, String)> for PageOfDocument {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(parameters: T) -> Self {
        let mut place = Self::default();
        for (name, value) in parameters {
            match name.as_str() {
                "document" => place.document = value,
                "source" => place.source = Some(value),
                _ => place.page = value,
            }
        }
        place
    }
}

impl PageOfDocument {
    /// Volume and number of the page.
    ///
    /// # Errors
    ///
    /// 404 for a name that no volume can have, and 422 for what is no number of a page.
    fn place(&self) -> Result<(VolumeId, u32), Denied> {
        let name = match &self.source {
            Some(source) => format!("{}-{source}", self.document),
            None => self.document.clone(),
        };
        let volume = name.parse().map_err(|error| {
            let message = format!("{name:?} names no document: {error}; a document is W-I or W/I");
            Denied::from(Refusal::NotFound(message))
        })?;
        match self.page.parse() {
            Ok(number) if number > 0 => Ok((volume, number)),
            _ => Err(Denied::invalid(format!(
                "pages are numbered from 1, and {:?} is no such number",
                self.page
            ))),
        }
    }
}

/// Answers with the words of a page, from the latest job that has any of its volume.
///
/// # Errors
///
/// 404 with the reason where there are none.
pub async fn boxes(state: &ApiState, headers: &HeaderMap, place: PageOfDocument) -> Result<Response, Denied> {
    state.admit(headers, Access::Read, "reading")?;
    let (volume, number) = place.place()?;
    let works = work_on_page(state, &volume, number)
        .await
        .map_err(Refusal::from)?;
    if works.is_empty() {
        return Err(Refusal::NotFound(format!("no job has page {number} of the document {volume}")).into());
    }
    let store = state.admin.library.store().await?;
    for work in works {
        let layout = Library::layout(&work.job, &work.task.volume);
        match words_of_page(&**store, &layout, number).await.map_err(internal)? {
            Found::Page(json) => {
                let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
                return Ok((headers, json).into_response());
            }
            Found::OtherPages => {
                let message = format!(
                    "{volume} has no words of a page {number}: there is no such page, or it could not be read"
                );
                return Err(Refusal::NotFound(message).into());
            }
            Found::Nothing => {}
        }
    }
    let message = format!("{volume} has no words with boxes yet; a job of the pipeline page_ocr makes them");
    Err(Refusal::NotFound(message).into())
}

/// Work on a document, or on a part of it that has the page, the newest first.
async fn work_on_page(
    state: &ApiState,
    document: &VolumeId,
    number: u32,
) -> Result<Vec<VolumeWork>, StateError> {
    let store = &state.admin.store;
    let mut works = store.work_on(document, JOBS).await?;
    for part in store.parts_of(document, PARTS).await? {
        if part.pages().is_some_and(|pages| pages.contains(number)) {
            works.extend(store.work_on(&part, JOBS).await?);
        }
    }
    works.sort_by_key(|work| Reverse(work.task.id));
    Ok(works)
}

/// What a job has of a page.
enum Found {
    Page(Bytes),
    OtherPages,
    Nothing,
}

async fn words_of_page(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
    number: u32,
) -> anyhow::Result<Found> {
    // In the layout of web services the page is a file already, maybe before its volume is done.
    if let Some(key) = layout.page_boxes(number)
        && store.head(&key).await?.is_some()
    {
        return Ok(Found::Page(store.get(&key).await?));
    }
    let Some(words) = VolumeWords::load(store, layout).await? else {
        return Ok(Found::Nothing);
    };
    let page = words.pages().find(|page| page.number() == number);
    Ok(match page {
        Some(page) => Found::Page(page.to_json()?),
        None => Found::OtherPages,
    })
}

/// Describes a route for OpenAPI.
pub fn description(route: &str) -> Value {
    let names = route.split(['{', '}']).skip(1).step_by(2);
    let parameters: Vec<Value> = names
        .map(|name| {
            let schema = if name == "page" {
                json!({ "type": "integer", "minimum": 1 })
            } else {
                json!({ "type": "string" })
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    let id = if route.contains("{source}") {
        "documents_source_pages_ocr_bboxes"
    } else {
        "documents_pages_ocr_bboxes"
    };
    let content = json!({ "application/json": { "schema": { "type": "object" } } });
    json!({ "get": {
        "operationId": id,
        "summary": "The words of a page of a document, with their boxes in points.",
        "tags": ["files"],
        "description": "Requires the role read.",
        "parameters": parameters,
        "responses": responses(content),
    } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(parameters: &[(&str, &str)]) -> Result<(String, u32), String> {
        let parameters = parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let place = parameters.collect::<PageOfDocument>().place();
        place
            .map(|(volume, number)| (volume.to_string(), number))
            .map_err(|denied| denied.message)
    }

    /// Rows: 128.
    #[test]
    fn a_document_is_named_by_its_volume_or_by_its_parts() {
        let expected = Ok(("HKEX-11805134".to_owned(), 3));
        assert_eq!(place(&[("document", "HKEX-11805134"), ("page", "3")]), expected);
        assert_eq!(
            place(&[("document", "HKEX"), ("source", "11805134"), ("page", "3")]),
            expected
        );
        let refused = place(&[("document", "11805134"), ("page", "3")]).unwrap_err();
        assert!(refused.contains("names no document"), "{refused}");
        let refused = place(&[("document", "HKEX-1"), ("page", "0")]).unwrap_err();
        assert!(refused.contains("numbered from 1"), "{refused}");
    }
}
