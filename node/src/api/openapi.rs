//! OpenAPI description of the interface, made from the table of commands.

use serde_json::{Map, Value, json};
use utoipa::PartialSchema;

use super::answer::Problem;
use super::documents;
use super::edits;
use super::files::{OFFERS, Offer};
use super::view;
use crate::admin::{Argument, Entry, Kind, Verb, table};
use crate::client::ROOT;

/// Returns the description, in OpenAPI 3.1.
pub fn document() -> Value {
    let mut schemas = Map::from_iter([("Problem".to_owned(), json!(Problem::schema()))]);
    let mut paths: Map<String, Value> = Map::new();
    for entry in table().entries() {
        for (name, schema) in (entry.answer.parts)() {
            schemas.insert(name, json!(schema));
        }
        let path = paths
            .entry(format!("{ROOT}{}", entry.path))
            .or_insert_with(|| json!({}));
        // Several commands share a path and differ in the method, so the object of the path may exist
        // already.
        path[word(entry.verb)] = operation(entry);
    }
    for offer in &OFFERS {
        paths.insert(
            format!("{ROOT}/jobs/{{job}}{}", offer.path),
            json!({ "get": reading(offer) }),
        );
    }
    paths.insert(format!("{ROOT}{}", edits::PATH), edits::description());
    for path in documents::paths() {
        let description = documents::description(&path);
        paths.insert(path, description);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Parkhang",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Jobs, volumes and nodes of a cluster. The same commands as on the command line.",
            "license": { "name": "MIT", "identifier": "MIT" },
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

const fn word(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::Post => "post",
        Verb::Patch => "patch",
    }
}

fn operation(entry: &Entry) -> Value {
    let command = entry.clap();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let in_path = |argument: &Argument| entry.path.contains(&format!("{{{}}}", argument.name));
    let (path, rest): (Vec<Argument>, Vec<Argument>) = entry.arguments().into_iter().partition(in_path);
    let mut parameters: Vec<Value> = path.iter().map(|argument| parameter(argument, "path")).collect();
    let mut operation = json!({
        "operationId": entry.name.join("_"),
        "summary": about,
        "tags": [entry.name[0]],
        "description": format!("Requires the role {}.", entry.access.as_str()),
        "responses": responses(json!({ "application/json": { "schema": json!((entry.answer.schema)()) } })),
    });
    if entry.verb == Verb::Get {
        parameters.extend(rest.iter().map(|argument| parameter(argument, "query")));
    } else if !rest.is_empty() {
        operation["requestBody"] = body(&rest);
    }
    operation["parameters"] = parameters.into();
    operation
}

/// Describes the request of a file.
fn reading(offer: &Offer) -> Value {
    let names = ["job"]
        .into_iter()
        // Splitting at both braces makes every second piece, from the first one inside, the name of a
        // parameter.
        .chain(offer.path.split(['{', '}']).skip(1).step_by(2));
    let mut parameters: Vec<Value> = names
        .map(|name| {
            let schema = match name {
                "page" => json!({ "type": "integer", "minimum": 1 }),
                _ => json!({ "type": "string" }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    if offer.is_picture() {
        parameters.extend(view::parameters());
    }
    let words = offer
        .path
        .split(['/', '.'])
        .filter(|word| !word.is_empty() && !word.starts_with('{'));
    // The description names media types without their parameters, such as the charset.
    let kind = offer.kind.split(';').next().unwrap_or_default();
    let schema = if kind.ends_with("json") {
        json!({ "type": "object" })
    } else {
        json!({ "type": "string", "format": "binary" })
    };
    let mut responses = responses(json!({ kind: { "schema": schema } }));
    // The request of a file has no body that could be too large.
    if let Some(responses) = responses.as_object_mut() {
        responses.remove("413");
    }
    json!({
        "operationId": words.collect::<Vec<_>>().join("_"),
        "summary": offer.about,
        "tags": ["files"],
        "description": "Requires the role read.",
        "parameters": parameters,
        "responses": responses,
    })
}

fn parameter(argument: &Argument, place: &str) -> Value {
    json!({
        "name": argument.name,
        "in": place,
        "required": place == "path" || argument.required,
        "description": argument.help,
        "schema": schema(argument),
    })
}

fn body(arguments: &[Argument]) -> Value {
    let properties: Map<String, Value> = arguments
        .iter()
        .map(|argument| {
            let mut schema = schema(argument);
            if !argument.required {
                // `arguments::texts` takes null as an argument that is not given, so the description has to
                // admit it.
                allow_null(&mut schema);
            }
            schema["description"] = argument.help.clone().into();
            (argument.name.clone(), schema)
        })
        .collect();
    let required: Vec<&str> = arguments
        .iter()
        .filter(|argument| argument.required)
        .map(|argument| argument.name.as_str())
        .collect();
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    json!({ "required": !required.is_empty(), "content": { "application/json": { "schema": schema } } })
}

/// Allows null, which means the same as leaving the argument out.
fn allow_null(schema: &mut Value) {
    schema["type"] = json!([schema["type"], "null"]);
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        // A validator checks `enum` apart from `type`, so null has to be among its words too.
        words.push(Value::Null);
    }
}

fn schema(argument: &Argument) -> Value {
    let one = match &argument.kind {
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Integer => json!({ "type": "integer" }),
        Kind::Text => json!({ "type": "string" }),
        Kind::Choice(words) => json!({ "type": "string", "enum": words }),
    };
    if argument.many {
        json!({ "type": "array", "items": one })
    } else {
        one
    }
}

/// Describes the responses, with `content` for success.
pub(super) fn responses(content: Value) -> Value {
    let problem = |text: &str| {
        let schema = json!({ "$ref": "#/components/schemas/Problem" });
        json!({ "description": text, "content": { "application/json": { "schema": schema } } })
    };
    json!({
        "200": { "description": "Done.", "content": content },
        "401": problem("No token, or an unknown one."),
        "403": problem("The token's role does not allow it."),
        "404": problem("The subject of the request does not exist."),
        "409": problem("The state of its subject does not allow the request."),
        "413": problem("The body is too large."),
        "422": problem("An argument is not valid."),
        "503": problem("The state store does not answer."),
    })
}
