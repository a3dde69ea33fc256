//! Web console: static files that are compiled in.
//!
//! They are served from the binary so that an orchestrator needs nothing beside it, and they use the public HTTP interface like any
//! client, with the token of the user who has signed in. The room therefore has no state and no route of its own with data: what
//! the console needs and the interface lacks is added to the table of commands, where scripts get it too. There is no build step;
//! the files are what an editor shows.

use axum::Router;
use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// File with its media type.
struct Asset {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($path:literal, $file:literal, $kind:expr) => {
        Asset {
            path: $path,
            kind: $kind,
            bytes: include_bytes!(concat!("assets/", $file)),
        }
    };
}

const ASSETS: [Asset; 32] = [
    asset!("/", "index.html", "text/html; charset=utf-8"),
    asset!("/assets/console.css", "console.css", "text/css; charset=utf-8"),
    asset!("/assets/main.js", "main.js", SCRIPT),
    asset!("/assets/api.js", "api.js", SCRIPT),
    asset!("/assets/dom.js", "dom.js", SCRIPT),
    asset!("/assets/overview.js", "overview.js", SCRIPT),
    asset!("/assets/job.js", "job.js", SCRIPT),
    asset!("/assets/task.js", "task.js", SCRIPT),
    asset!("/assets/again.js", "again.js", SCRIPT),
    asset!("/assets/nodes.js", "nodes.js", SCRIPT),
    asset!("/assets/actors.js", "actors.js", SCRIPT),
    asset!("/assets/audit.js", "audit.js", SCRIPT),
    asset!("/assets/reader.js", "reader.js", SCRIPT),
    asset!("/assets/sheet.js", "sheet.js", SCRIPT),
    asset!("/assets/strip.js", "strip.js", SCRIPT),
    asset!("/assets/zoom.js", "zoom.js", SCRIPT),
    asset!("/assets/lines.js", "lines.js", SCRIPT),
    asset!("/assets/editor.js", "editor.js", SCRIPT),
    asset!("/assets/tools.js", "tools.js", SCRIPT),
    asset!("/assets/choices.js", "choices.js", SCRIPT),
    asset!("/assets/notices.js", "notices.js", SCRIPT),
    asset!("/assets/edits.js", "edits.js", SCRIPT),
    asset!("/assets/outlines.js", "outlines.js", SCRIPT),
    asset!("/assets/drawing.js", "drawing.js", SCRIPT),
    asset!("/assets/queue.js", "queue.js", SCRIPT),
    asset!("/assets/typing.js", "typing.js", SCRIPT),
    asset!("/assets/wylie.js", "wylie.js", SCRIPT),
    asset!("/assets/search.js", "search.js", SCRIPT),
    asset!("/assets/histogram.js", "histogram.js", SCRIPT),
    asset!("/assets/quality.js", "quality.js", SCRIPT),
    asset!("/assets/tibetan.woff2", "tibetan.woff2", "font/woff2"),
    asset!("/assets/OFL.txt", "OFL.txt", "text/plain; charset=utf-8"),
];

/// Content security policy: nothing is loaded from other hosts, and no other page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub fn router() -> Router {
    ASSETS.iter().fold(Router::new(), |router, asset| {
        router.route(asset.path, get(|| async { answer(asset) }))
    })
}

fn answer(asset: &Asset) -> Response {
    let headers: [(HeaderName, &str); 3] = [
        (CONTENT_TYPE, asset.kind),
        // Kept but asked for each time: after an update of the orchestrator old scripts would call a new
        // interface.
        (CACHE_CONTROL, "no-cache"),
        // What else a browser is told is the same for all answers of the interface.
        (CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, asset.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        assert!(bytes < 300 << 10, "{bytes} bytes");
    }

    #[test]
    fn every_module_that_is_imported_is_served() {
        let scripts = ASSETS.iter().filter(|asset| asset.kind == SCRIPT);
        for script in scripts {
            let text = std::str::from_utf8(script.bytes).unwrap();
            for import in text.lines().filter_map(|line| line.split_once(" from \"./")) {
                let path = format!("/assets/{}", import.1.trim_end_matches("\";"));
                assert!(
                    ASSETS.iter().any(|asset| asset.path == path),
                    "{path} in {}",
                    script.path
                );
            }
        }
    }
}
