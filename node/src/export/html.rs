//! Viewer: an HTML file per volume with outlines and text, which can be opened from a disk without a network. It holds its pictures, too,
//! unless they are so many that a browser would take long to open it; then they lie in a folder beside it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytesize::ByteSize;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use parkhang_store::storage::ArtifactStore;
use serde::Serialize;

use super::document::{PageDocument, SegmentDocument, VolumeDocument};
use super::results::StoredVolume;
use super::view::View;
use super::{scan, write};

const PAGE: &str = include_str!("viewer/viewer.html");
const STYLE: &str = include_str!("viewer/viewer.css");
/// Modules of the viewer, each behind those that it imports. It draws a page as the console does, with the console's modules.
const MODULES: [&str; 4] = [
    include_str!("../console/assets/dom.js"),
    include_str!("../console/assets/zoom.js"),
    include_str!("../console/assets/sheet.js"),
    include_str!("viewer/viewer.js"),
];

/// Options of viewers.
#[derive(Debug, Clone, Copy, Args)]
pub struct ViewerArgs {
    /// Largest size of the pictures that a viewer holds itself; larger ones lie in a folder beside it. A browser opens the default within
    /// a second.
    #[arg(long, value_name = "SIZE", default_value = "32MiB")]
    pub inline_pictures: ByteSize,
}

#[derive(Debug, Serialize)]
struct ViewerPage<'a> {
    source: &'a str,
    width: u32,
    height: u32,
    /// Place of the picture from the viewer, if it is not inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    picture: Option<String>,
    error: Option<&'a str>,
    language: &'static str,
    lines: Vec<ViewerLine<'a>>,
}

#[derive(Debug, Serialize)]
struct ViewerLine<'a> {
    text: &'a str,
    confidence: Option<f32>,
    polygon: Vec<[i32; 2]>,
    /// Text, confidence and box of each word: left, top, width and height in pixels.
    segments: Vec<(&'a str, f32, [i32; 4])>,
}

/// Pictures of the pages of a volume in order, as files; `None` for a page without one.
#[derive(Debug)]
enum Pictures {
    /// To be copied into the viewer.
    Inside(Vec<Option<PathBuf>>),
    /// To stay in a folder of this name beside the viewer, by their names.
    Beside {
        folder: String,
        names: Vec<Option<String>>,
    },
}

/// Writes the viewer of a volume to `path`. Its pictures go to a folder beside it, and leave it again for the viewer if they are few enough,
/// as their sizes are only known once they are made.
///
/// # Errors
///
/// If a file cannot be written, or the artifact store cannot be reached.
pub(super) async fn write_viewer(
    store: &dyn ArtifactStore,
    stored: &StoredVolume,
    document: &VolumeDocument,
    arguments: &ViewerArgs,
    path: &Path,
) -> Result<()> {
    let folder = path.with_extension("");
    let saved: Vec<Option<(String, u64)>> = stream::iter(&document.pages)
        .map(|page| async {
            let Some(picture) = scan::page_picture(store, stored, page, View::default()).await? else {
                return anyhow::Ok(None);
            };
            let name = format!("{}.jpg", page.image_name);
            write(&folder.join(&name), &picture.jpeg)?;
            Ok(Some((name, picture.jpeg.len() as u64)))
        })
        .buffered(scan::READS)
        .try_collect()
        .await?;
    let bytes: u64 = saved.iter().flatten().map(|(_, bytes)| bytes).sum();
    let names = saved.into_iter().map(|saved| saved.map(|(name, _)| name));
    let pictures = if bytes > arguments.inline_pictures.as_u64() {
        Pictures::Beside {
            folder: format!("{}-{}", document.w_id, document.i_id),
            names: names.collect(),
        }
    } else {
        Pictures::Inside(names.map(|name| name.map(|name| folder.join(name))).collect())
    };
    let writing = || format!("cannot write {}", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(writing)?;
    }
    let mut file = BufWriter::new(File::create(path).with_context(writing)?);
    viewer(document, &pictures, &mut file).with_context(writing)?;
    file.flush().with_context(writing)?;
    if matches!(pictures, Pictures::Inside(_)) && folder.exists() {
        // Those of an earlier export that had more of them go, too: nothing shows them any more.
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// Writes a viewer, page after page.
fn viewer(volume: &VolumeDocument, pictures: &Pictures, out: &mut impl Write) -> io::Result<()> {
    let title = escape(&format!("{}-{}", volume.w_id, volume.i_id));
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        out.write_all(before.as_bytes())?;
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        match name {
            "title" => out.write_all(title.as_bytes())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "volume" => write_volume(volume, pictures, out)?,
            "scans" => write_pictures(pictures, out)?,
            "script" => out.write_all(in_one(&MODULES).as_bytes())?,
            _ => {}
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// Writes the text of a volume as JSON.
fn write_volume(volume: &VolumeDocument, pictures: &Pictures, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"{\"pages\":[")?;
    for (index, page) in volume.pages.iter().enumerate() {
        if index > 0 {
            out.write_all(b",\n")?;
        }
        let json = serde_json::to_string(&viewer_page(page, pictures.beside(index)))?;
        out.write_all(script_safe(&json).as_bytes())?;
    }
    out.write_all(b"]}")
}

/// Writes the pictures that a viewer holds, each read when it is its turn.
fn write_pictures(pictures: &Pictures, out: &mut impl Write) -> io::Result<()> {
    let Pictures::Inside(files) = pictures else {
        return Ok(());
    };
    for (index, file) in files.iter().enumerate() {
        if let Some(file) = file {
            let picture = STANDARD.encode(std::fs::read(file)?);
            writeln!(
                out,
                "<script type=\"text/plain\" id=\"scan-{index}\">{picture}</script>"
            )?;
        }
    }
    Ok(())
}

impl Pictures {
    /// Place of a picture from the viewer, if it lies beside it.
    fn beside(&self, index: usize) -> Option<String> {
        match self {
            Self::Inside(_) => None,
            Self::Beside { folder, names } => {
                let name = names.get(index)?.as_ref()?;
                Some(format!("{folder}/{name}"))
            }
        }
    }
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

fn viewer_page(page: &PageDocument, picture: Option<String>) -> ViewerPage<'_> {
    ViewerPage {
        source: &page.source_name,
        width: page.width,
        height: page.height,
        picture,
        error: page.error.as_deref(),
        language: page.language().tag(),
        lines: page
            .lines
            .iter()
            .map(|line| ViewerLine {
                text: &line.text,
                confidence: line.confidence,
                polygon: line.polygon.iter().map(|point| [point.x, point.y]).collect(),
                segments: line.segments.iter().map(viewer_segment).collect(),
            })
            .collect(),
    }
}

fn viewer_segment(segment: &SegmentDocument) -> (&str, f32, [i32; 4]) {
    (&segment.text, segment.confidence, segment.bounds())
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
    use crate::export::scanned::Scanned;

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
            confidence: Some(0.5),
            segments: Vec::new(),
            corrected: None,
        };
        let page = PageDocument {
            image_name: "a".into(),
            source_name: "a.jpg".into(),
            width: 10,
            height: 10,
            lines: vec![line],
            regions: Vec::new(),
            error: None,
            scanned: Scanned::default(),
        };
        let volume = VolumeDocument {
            w_id: "W1".into(),
            i_id: "I1".into(),
            pages: vec![page],
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0, 0, 0]).unwrap();
        let inside = Pictures::Inside(vec![Some(file.path().to_owned())]);
        let html = written(&volume, &inside);
        assert!(
            !html.contains("<script>alert"),
            "markup of the text must not survive"
        );
        assert!(html.contains("{{title}}"), "text is not a template");
        assert!(html.contains("id=\"scan-0\">AAAA<"));
        let beside = Pictures::Beside {
            folder: "W1-I1".into(),
            names: vec![Some("a.jpg".into())],
        };
        let html = written(&volume, &beside);
        assert!(html.contains("\"picture\":\"W1-I1/a.jpg\""));
        assert!(!html.contains("id=\"scan-0\""));
    }

    fn written(volume: &VolumeDocument, pictures: &Pictures) -> String {
        let mut html = Vec::new();
        viewer(volume, pictures, &mut html).unwrap();
        String::from_utf8(html).unwrap()
    }

    #[test]
    fn every_placeholder_of_the_template_is_filled() {
        let volume = VolumeDocument {
            w_id: "W1".into(),
            i_id: "I1".into(),
            pages: Vec::new(),
        };
        let html = written(&volume, &Pictures::Inside(Vec::new()));
        assert!(!html.contains("{{"));
        assert_eq!(html.matches("W1-I1").count(), 2);
        assert!(html.contains("scanSheet") && html.trim_end().ends_with("</html>"));
    }
}
