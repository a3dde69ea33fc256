//! Viewer: one self-contained HTML file per volume with scans, outlines and text, which can be opened from a disk without a network.

use std::fmt::Write;

use serde::Serialize;

use super::document::{PageDocument, VolumeDocument};

const PAGE: &str = include_str!("viewer/viewer.html");
const STYLE: &str = include_str!("viewer/viewer.css");
/// Modules of the viewer, each behind those that it imports. It draws a page as the console does, with the console's modules.
const MODULES: [&str; 4] = [
    include_str!("../console/assets/dom.js"),
    include_str!("../console/assets/zoom.js"),
    include_str!("../console/assets/sheet.js"),
    include_str!("viewer/viewer.js"),
];

#[derive(Debug, Serialize)]
struct ViewerVolume<'a> {
    pages: Vec<ViewerPage<'a>>,
}

#[derive(Debug, Serialize)]
struct ViewerPage<'a> {
    source: &'a str,
    width: u32,
    height: u32,
    error: Option<&'a str>,
    lines: Vec<ViewerLine<'a>>,
}

#[derive(Debug, Serialize)]
struct ViewerLine<'a> {
    text: &'a str,
    confidence: f32,
    polygon: Vec<[i32; 2]>,
    segments: Vec<(&'a str, f32)>,
}

/// Returns the viewer of a volume. `scans` are JPEG files in base64, one per page in order; an empty one leaves the page without a
/// picture.
pub fn viewer(volume: &VolumeDocument, scans: &[String]) -> serde_json::Result<String> {
    let title = format!("{}-{}", volume.w_id, volume.i_id);
    let data = ViewerVolume {
        pages: volume.pages.iter().map(viewer_page).collect(),
    };
    let mut pictures = String::new();
    for (index, scan) in scans.iter().enumerate().filter(|(_, scan)| !scan.is_empty()) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            pictures,
            "<script type=\"text/plain\" id=\"scan-{index}\">{scan}</script>"
        );
    }
    let parts = [
        ("{{title}}", escape(&title)),
        ("{{style}}", STYLE.to_owned()),
        ("{{volume}}", script_safe(&serde_json::to_string(&data)?)),
        ("{{scans}}", pictures),
        ("{{script}}", in_one(&MODULES)),
    ];
    Ok(fill(PAGE, &parts))
}

/// Modules as one that imports nothing: a page that is opened from a disk may load no other. They share one scope, so no two may declare
/// the same name.
fn in_one(modules: &[&str]) -> String {
    let mut script = String::new();
    for line in modules.iter().flat_map(|module| module.lines()) {
        // Each import of these modules stands on a line of its own.
        if !line.starts_with("import ") {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script
}

fn viewer_page(page: &PageDocument) -> ViewerPage<'_> {
    ViewerPage {
        source: &page.source_name,
        width: page.width,
        height: page.height,
        error: page.error.as_deref(),
        lines: page
            .lines
            .iter()
            .map(|line| ViewerLine {
                text: &line.text,
                confidence: line.confidence,
                polygon: line.polygon.iter().map(|point| [point.x, point.y]).collect(),
                segments: line
                    .segments
                    .iter()
                    .map(|s| (s.text.as_str(), s.confidence))
                    .collect(),
            })
            .collect(),
    }
}

/// Replaces the placeholders in one pass over the template, so that inserted text which looks like one is left alone.
fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let mut filled =
        String::with_capacity(template.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = template;
    while let Some(start) = rest.find("{{") {
        filled.push_str(&rest[..start]);
        rest = &rest[start..];
        match parts.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, text)) => {
                filled.push_str(text);
                rest = &rest[name.len()..];
            }
            None => {
                filled.push_str("{{");
                rest = &rest[2..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Escapes JSON for a script element, so that no markup can begin in it.
fn script_safe(json: &str) -> String {
    // `</script>` in a text would end the element, and `<!--` would change how the rest of it is parsed.
    json.replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::document::LineDocument;

    #[test]
    fn the_modules_make_one_script() {
        let script = in_one(&MODULES);
        let is_of_modules = |line: &&str| line.starts_with("import") || line.starts_with("export");
        assert_eq!(script.lines().find(is_of_modules), None);
        let mut names = std::collections::BTreeSet::new();
        for line in script.lines() {
            let mut words = line.split([' ', '(', ',', ';']);
            if let Some("const" | "let" | "function" | "class" | "async") = words.next() {
                let name = words.find(|word| *word != "function");
                assert!(names.insert(name), "{line} is declared twice");
            }
        }
        assert!(names.contains(&Some("scanSheet")), "{names:?}");
    }

    #[test]
    fn text_cannot_break_out_of_the_page() {
        let line = LineDocument {
            guid: "g".into(),
            polygon: Vec::new(),
            text: "</script><script>alert(1)</script> {{title}}".into(),
            encoding: "unicode".into(),
            confidence: 0.5,
            segments: Vec::new(),
        };
        let page = PageDocument {
            image_name: "a".into(),
            source_name: "a.jpg".into(),
            width: 10,
            height: 10,
            lines: vec![line],
            regions: Vec::new(),
            error: None,
        };
        let volume = VolumeDocument {
            w_id: "W1".into(),
            i_id: "I1".into(),
            pages: vec![page],
        };
        let html = viewer(&volume, &["AAAA".into()]).unwrap();
        assert!(
            !html.contains("<script>alert"),
            "markup of the text must not survive"
        );
        assert!(html.contains("{{title}}"), "text is not a template");
        assert!(html.contains("id=\"scan-0\">AAAA<"));
    }
}
