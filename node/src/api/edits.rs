//! Edits of pages: a person puts lines in the place of what was read.

use std::collections::HashMap;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use parkhang_core::domain::{Edit, Job, PageLine, VolumeId};
use parkhang_state::{EditOutcome, NewEdit};
use serde_json::{Value, json};
use utoipa::PartialSchema;

use super::answer::{Denied, json};
use super::body::read_body;
use super::files::{Place, found};
use super::openapi::responses;
use super::state::ApiState;
use crate::admin::{Access, PageAnswer, Refusal, too_many_edits};
use crate::export::document::{PageDocument, pairs};
use crate::export::{CorrectedPage, line_id};

/// Path of the route, below that of the interface.
pub const PATH: &str = "/jobs/{job}/volumes/{volume}/pages/{page}/edits";

/// Largest body of an edit: a page of lines with their outlines, twice.
const MAX_BODY: usize = 2 << 20;

/// Keeps an edit, and answers with the page as it is then.
pub async fn edit(state: &ApiState, place: Place, request: Request<Body>) -> Result<Response, Denied> {
    let (parts, body) = request.into_parts();
    let caller = state.admit(&parts.headers, Access::Edit, "editing a page")?;
    let bytes = read_body(body, MAX_BODY).await?;
    let edit: Edit = serde_json::from_slice(&bytes)
        .map_err(|error| Denied::invalid(format!("the body is no edit of a page: {error}")))?;
    let (job, task) = found(state, &place).await?;
    let number = place.page_number();
    let admin = &state.admin;
    let store = &admin.store;
    let (_, read) = admin.library.page((&job, &task), |_| Ok(number)).await?;
    let corrections = async || {
        let corrections = store.corrections_of_page(&task.volume, &read.image_name);
        corrections.await.map_err(Refusal::from)
    };
    // One that is sent again may have changed the page that it is compared with.
    let known = store.has_edit(&task.volume, &read.image_name, &edit.id);
    if !known.await.map_err(Refusal::from)? {
        let before = admin.library.correct(read.clone(), corrections().await?).await?;
        let new = checked(edit, &before, (&job, &task.volume), &caller.name)?;
        match store.record_edit(&new).await.map_err(Refusal::from)? {
            EditOutcome::Recorded => {}
            EditOutcome::Conflict(conflict) => return Err(Refusal::Conflict(conflict.to_string()).into()),
            EditOutcome::Taken => {
                let message = "the id of the edit is that of an edit of another page";
                return Err(Denied::invalid(message));
            }
            EditOutcome::Full => return Err(Denied::invalid(too_many_edits(&read.image_name))),
        }
    }
    let after = admin.library.correct(read.clone(), corrections().await?).await?;
    Ok(json(StatusCode::OK, &json!(PageAnswer::from(&after))))
}

/// Checks an edit against the page that it is of.
///
/// # Errors
///
/// 422 for an edit that means nothing, and 409 if the page was read anew since its author saw it.
fn checked(
    edit: Edit,
    before: &CorrectedPage,
    (job, volume): (&Job, &VolumeId),
    who: &str,
) -> Result<NewEdit, Denied> {
    let page = &before.page;
    let placed = before
        .state
        .placed
        .iter()
        .flat_map(|correction| &correction.originals);
    let others = before
        .state
        .unplaced
        .iter()
        .flat_map(|correction| &correction.replaces);
    let read: Vec<&PageLine> = placed.chain(others).collect();
    let edit = edit
        .validated((page.width, page.height), &read)
        .map_err(|error| Denied::invalid(error.to_string()))?;
    let unplaced = before.state.unplaced.iter();
    let without_place: Vec<&PageLine> = unplaced.flat_map(|correction| &correction.lines).collect();
    if let Some(gone) = read_anew(&edit, page, &without_place) {
        let message = format!("the page has been read again since: line {gone} is another one now");
        return Err(Refusal::Conflict(message).into());
    }
    Ok(NewEdit {
        volume: volume.clone(),
        image: page.image_name.clone(),
        job: job.key.clone(),
        who: who.to_owned(),
        edit,
    })
}

/// Returns the id of a line that the author of an edit saw as it was read, and that is not read so any more.
fn read_anew<'e>(edit: &'e Edit, page: &PageDocument, without_place: &[&PageLine]) -> Option<&'e str> {
    let lines: HashMap<String, _> = page.lines.iter().map(|line| (line_id(line), line)).collect();
    let is_as_seen = |seen: &&PageLine| match lines.get(&seen.id) {
        // What people have made of a line is compared where it is kept.
        Some(line) if line.corrected.is_some() => true,
        Some(line) => line.text == seen.text && pairs(&line.polygon) == seen.polygon,
        None => without_place.iter().any(|line| line.id == seen.id),
    };
    let changed = edit.replaces.iter().find(|seen| !is_as_seen(seen))?;
    Some(&changed.id)
}

/// Describes the route for OpenAPI.
pub fn description() -> Value {
    let parameter = |name: &str| {
        let schema = match name {
            "page" => json!({ "type": "integer", "minimum": 1 }),
            _ => json!({ "type": "string" }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    };
    let line = json!({
        "type": "object",
        "required": ["id", "polygon", "text"],
        "additionalProperties": false,
        "properties": {
            "id": { "type": "string", "description": "Id of the line, or one that the client makes for a new line." },
            "polygon": {
                "type": "array",
                "maxItems": 400,
                "items": { "type": "array", "items": { "type": "integer", "format": "int32" }, "minItems": 2, "maxItems": 2 },
                "description": "Corners of the outline in pixels of the scan, each as x and y; at least three for a new outline.",
            },
            "text": { "type": "string", "maxLength": 4000 },
        },
    });
    let lines = |description: &str| json!({ "type": "array", "maxItems": 500, "items": line, "description": description });
    let schema = json!({
        "type": "object",
        "required": ["id", "replaces", "lines"],
        "additionalProperties": false,
        "properties": {
            "id": { "type": "string", "format": "uuid", "description": "Made by the client, so that it can send the edit again." },
            "replaces": lines("Lines as the client saw them."),
            "lines": lines("Lines that take their place, where the first of them was."),
        },
    });
    let content = json!({ "application/json": { "schema": json!(PageAnswer::schema()) } });
    let parameters = ["job", "volume", "page"].map(parameter);
    json!({ "post": {
        "operationId": "jobs_volumes_pages_edits",
        "summary": "Edit a page: put lines in the place of others, and get the page as it is then.",
        "tags": ["files"],
        "description": "Requires the role edit.",
        "parameters": parameters,
        "requestBody": { "required": true, "content": { "application/json": { "schema": schema } } },
        "responses": responses(content),
    } })
}
