//! Words of a document's pages with their boxes, under the address by which web viewers of PDFs ask for them.

use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use parkhang_core::domain::{InvalidName, Job, VolumeId};
use parkhang_state::{PostgresStore, StateError};
use parkhang_store::artifact::VolumeLayout;
use parkhang_store::storage::ArtifactStore;
use serde_json::{Value, json};

use super::answer::Denied;
use super::files::internal;
use super::openapi::responses;
use super::state::ApiState;
use crate::admin::{Access, Library, Refusal};
use crate::client::ROOT;
use crate::export::VolumeWords;

/// Routes of the words of a page: a document is named by its volume, `W-I`, by the two parts of it, or by the second of them alone.
const ROUTES: [&str; 2] = [
    "/documents/{document}/pages/{page}/ocr-bboxes",
    "/documents/{document}/{source}/pages/{page}/ocr-bboxes",
];

/// Paths of the routes: below that of the interface, and at the top, where viewers of PDFs look that know no other service.
pub fn paths() -> impl Iterator<Item = String> {
    let below = |root| ROUTES.iter().map(move |route| format!("{root}{route}"));
    below(ROOT).chain(below(""))
}

/// Jobs that are asked for the words of a volume, from the latest on.
const JOBS: u32 = 50;
/// Parts of a document that are looked through for one with the page.
const PARTS: u32 = 2_000;

/// Volumes that are named to a request that means one of several.
const CANDIDATES: u32 = 8;

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
    /// Name of the document and number of the page.
    ///
    /// # Errors
    ///
    /// 404 for a name that no document can have, and 422 for what is no number of a page.
    fn place(&self) -> Result<(DocumentName, u32), Denied> {
        let document = match &self.source {
            Some(source) => VolumeId::new(&*self.document, &**source).map(DocumentName::Volume),
            None => DocumentName::parse(&self.document),
        };
        let document = document.map_err(|error| {
            let name = [Some(&self.document), self.source.as_ref()];
            let name: Vec<&str> = name.into_iter().flatten().map(String::as_str).collect();
            let message = format!(
                "{:?} names no document: {error}; a document is W-I, W/I, or I where there is one only",
                name.join("/")
            );
            Denied::from(Refusal::NotFound(message))
        })?;
        match self.page.parse() {
            Ok(number) if number > 0 => Ok((document, number)),
            _ => Err(Denied::invalid(format!(
                "pages are numbered from 1, and {:?} is no such number",
                self.page
            ))),
        }
    }
}

/// Name of a document.
#[derive(Debug, PartialEq, Eq)]
enum DocumentName {
    Volume(VolumeId),
    /// The id at its source, which can have a hyphen and then reads as a volume too.
    Source {
        i_id: String,
        volume: Option<VolumeId>,
    },
}

impl DocumentName {
    fn parse(name: &str) -> Result<Self, InvalidName> {
        // Any collection does: what may follow it is the same for all.
        let i_id = VolumeId::new("W", name)?.i_id().to_owned();
        let volume = name.parse().ok();
        Ok(Self::Source { i_id, volume })
    }

    /// The volume that is meant: the one that is called so as a whole, or else the only one with this id at its source.
    ///
    /// # Errors
    ///
    /// 404 where there is none, and 409 where there are several.
    async fn resolve(self, store: &PostgresStore) -> Result<VolumeId, Denied> {
        let (i_id, volume) = match self {
            Self::Volume(volume) => return Ok(volume),
            Self::Source { i_id, volume } => (i_id, volume),
        };
        if let Some(volume) = volume
            && is_known(store, &volume).await.map_err(Refusal::from)?
        {
            return Ok(volume);
        }
        let found = store.documents_of_source(&i_id, CANDIDATES).await;
        Ok(only(&i_id, found.map_err(Refusal::from)?)?)
    }
}

/// True if a document or a part of it is known.
async fn is_known(store: &PostgresStore, document: &VolumeId) -> Result<bool, StateError> {
    Ok(store.volume(document).await?.is_some() || !store.parts_of(document, 1).await?.is_empty())
}

/// The only one of the volumes with an id at their source.
fn only(i_id: &str, found: Vec<VolumeId>) -> Result<VolumeId, Refusal> {
    match <[VolumeId; 1]>::try_from(found) {
        Ok([volume]) => Ok(volume),
        Err(none) if none.is_empty() => Err(Refusal::NotFound(format!("no document is called {i_id}"))),
        Err(several) => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            let more = if several.len() < CANDIDATES as usize {
                ""
            } else {
                " and maybe others"
            };
            Err(Refusal::Conflict(format!(
                "{i_id} may be {}{more}: name one of them",
                names.join(" or ")
            )))
        }
    }
}

/// Answers with the words of a page, from the latest job that has any of its volume.
///
/// # Errors
///
/// 404 with the reason where there are none, and 409 with their names where several documents are called so.
pub async fn boxes(state: &ApiState, headers: &HeaderMap, place: PageOfDocument) -> Result<Response, Denied> {
    state.admit(headers, Access::Read, "reading")?;
    let (document, number) = place.place()?;
    let volume = document.resolve(&state.admin.store).await?;
    let works = jobs_of_page(&state.admin.store, &volume, number)
        .await
        .map_err(Refusal::from)?;
    if works.is_empty() {
        return Err(Refusal::NotFound(format!("no job has page {number} of the document {volume}")).into());
    }
    let store = state.admin.library.store().await?;
    for (job, part) in works {
        let layout = Library::layout(&job, &part);
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

/// Jobs of a document, and of the parts of it that have the page, each with the volume. The newest work comes first.
async fn jobs_of_page(
    store: &PostgresStore,
    document: &VolumeId,
    number: u32,
) -> Result<Vec<(Job, VolumeId)>, StateError> {
    let mut volumes = store.parts_of(document, PARTS).await?;
    volumes.retain(|part| part.pages().is_some_and(|pages| pages.contains(number)));
    volumes.push(document.clone());
    store.jobs_of(&volumes, JOBS).await
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

/// Describes a path of [`paths`] for OpenAPI.
pub fn description(path: &str) -> Value {
    let names = path.split(['{', '}']).skip(1).step_by(2);
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
    let parts = if path.contains("{source}") { "_source" } else { "" };
    let top = if path.starts_with(ROOT) { "" } else { "top_" };
    let id = format!("{top}documents{parts}_pages_ocr_bboxes");
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

    fn place(parameters: &[(&str, &str)]) -> Result<(DocumentName, u32), String> {
        let parameters = parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let place = parameters.collect::<PageOfDocument>().place();
        place.map_err(|denied| denied.message)
    }

    fn volume(name: &str) -> VolumeId {
        name.parse().unwrap()
    }

    /// Rows: 128.
    #[test]
    fn a_document_is_named_by_its_volume_or_by_a_part_of_it() {
        let by_source = |i_id: &str, volume| DocumentName::Source {
            i_id: i_id.to_owned(),
            volume,
        };
        let known = volume("HKEX-11805134");
        assert_eq!(
            place(&[("document", "HKEX-11805134"), ("page", "3")]),
            Ok((by_source("HKEX-11805134", Some(known.clone())), 3))
        );
        assert_eq!(
            place(&[("document", "HKEX"), ("source", "11805134"), ("page", "3")]),
            Ok((DocumentName::Volume(known), 3))
        );
        assert_eq!(
            place(&[("document", "11805134"), ("page", "3")]),
            Ok((by_source("11805134", None), 3))
        );
        for parameters in [
            &[("document", "a b"), ("page", "3")][..],
            &[("document", "\0"), ("page", "3")],
            &[("document", "A-B"), ("source", "1"), ("page", "3")],
        ] {
            let refused = place(parameters).unwrap_err();
            assert!(refused.contains("names no document"), "{refused}");
        }
        let refused = place(&[("document", "HKEX-1"), ("page", "0")]).unwrap_err();
        assert!(refused.contains("numbered from 1"), "{refused}");
    }

    #[test]
    fn a_name_of_several_documents_is_refused_with_all_of_them() {
        let found = only("1", vec![volume("HKEX-1")]);
        assert_eq!(found.unwrap(), volume("HKEX-1"));
        let none = only("1", Vec::new()).unwrap_err();
        assert_eq!(
            (none.word(), none.to_string().as_str()),
            ("not_found", "no document is called 1")
        );
        let several = only("1", vec![volume("ASX-1"), volume("HKEX-1")]).unwrap_err();
        assert_eq!(several.word(), "conflict");
        assert_eq!(several.to_string(), "1 may be ASX-1 or HKEX-1: name one of them");
    }

    #[test]
    fn every_path_has_a_description_of_its_own() {
        let ids: Vec<String> = paths()
            .map(|path| description(&path)["get"]["operationId"].to_string())
            .collect();
        let unlike: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(unlike.len(), ids.len(), "{ids:?}");
        assert!(paths().any(|path| path == "/documents/{document}/pages/{page}/ocr-bboxes"));
    }
}
