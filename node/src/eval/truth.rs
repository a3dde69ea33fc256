//! Ground truth of a folder of pages or lines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use parkhang_models::page::geometry::Point;
use serde::Deserialize;

use crate::transcription::{Transcription, beside};

/// Scan with its ground truth.
#[derive(Debug, Clone)]
pub struct TruePage {
    /// File name of the scan.
    pub image: String,
    pub collection: String,
    /// Text with a line for each line of writing.
    pub text: Option<String>,
    /// Outlines of the lines on the scan.
    pub outlines: Option<TrueOutlines>,
}

/// Outlines of the lines on a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrueOutlines {
    /// Those of the running text.
    pub text: Vec<Vec<Point>>,
    /// Those beside it, such as page numbers, which a reading may have or not.
    pub marginal: Vec<Vec<Point>>,
}

/// Content of `NAME.json`, the ground truth of rendered pages.
#[derive(Debug, Deserialize)]
struct RenderedPage {
    image: String,
    font: Option<String>,
    lines: Vec<RenderedLine>,
}

#[derive(Debug, Deserialize)]
struct RenderedLine {
    text: String,
    polygon: Vec<[f64; 2]>,
}

/// Reads the ground truth of a folder: `manifest.tsv` with columns `file`, `collection` and `truth` if there is one, else
/// `NAME.txt`, PAGE XML or `NAME.json` beside the images, in this order where a scan has several. `NAME.boxes.json`, with a box (x0, y0, x1, y1) in pixels for each line, or else
/// the PAGE XML adds outlines. Scans without ground truth are left out.
///
/// # Errors
///
/// If a file cannot be read or parsed, or no scan has ground truth.
pub fn read_truth(folder: &Path) -> Result<Vec<TruePage>> {
    let manifest = folder.join("manifest.tsv");
    let mut pages = if manifest.is_file() {
        from_manifest(folder, &manifest)?
    } else {
        from_files(folder)?
    };
    pages.retain(|page| page.text.is_some() || page.outlines.is_some());
    if pages.is_empty() {
        bail!(
            "{} has no ground truth: expected manifest.tsv, or NAME.txt, NAME.xml or NAME.page.xml (PAGE XML) or NAME.json beside the images",
            folder.display()
        );
    }
    // Folders list their files in any order.
    pages.sort_by(|a, b| a.image.cmp(&b.image));
    Ok(pages)
}

fn from_manifest(folder: &Path, manifest: &Path) -> Result<Vec<TruePage>> {
    let text =
        std::fs::read_to_string(manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let mut rows = text.lines();
    let header: Vec<&str> = rows.next().unwrap_or_default().split('\t').collect();
    let column = |name: &str| {
        header
            .iter()
            .position(|column| *column == name)
            .with_context(|| format!("{} has no column {name:?}", manifest.display()))
    };
    let (file, collection, truth) = (column("file")?, column("collection")?, column("truth")?);
    let mut pages = Vec::new();
    for row in rows.filter(|row| !row.is_empty()) {
        let cells: Vec<&str> = row.split('\t').collect();
        let cell = |index: usize| cells.get(index).copied().unwrap_or_default();
        // Manifests mark a scan without ground truth by a dash or an empty cell.
        let truth = Some(cell(truth)).filter(|name| !matches!(*name, "" | "-"));
        let text = truth
            .map(|name| read_text(&folder.join(plain_name(name)?)))
            .transpose()?;
        let image = folder.join(plain_name(cell(file))?);
        pages.push(true_page(&image, cell(collection), text)?);
    }
    Ok(pages)
}

fn from_files(folder: &Path) -> Result<Vec<TruePage>> {
    let mut pages: BTreeMap<String, TruePage> = BTreeMap::new();
    let mut rendered = Vec::new();
    let collection = folder
        .file_name()
        .map_or_else(|| "pages".to_owned(), |name| name.to_string_lossy().into_owned());
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read {}", folder.display()))?
            .path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let extension = path
            .extension()
            .map(|e| e.to_string_lossy().to_lowercase())
            .unwrap_or_default();
        match extension.as_str() {
            // Boxes belong to an image of their own, and `parkhang.json` is the note of an output folder.
            "json" if !name.ends_with(".boxes.json") && name != "parkhang.json" => {
                rendered.push(rendered_page(&path)?);
            }
            "jpg" | "jpeg" | "png" | "tif" | "tiff" | "webp" => {
                let truth = Some(path.with_extension("txt")).filter(|truth| truth.is_file());
                let text = truth.as_deref().map(read_text).transpose()?;
                let page = true_page(&path, &collection, text)?;
                pages.insert(page.image.clone(), page);
            }
            _ => {}
        }
    }
    for page in rendered {
        match pages.get_mut(&page.image) {
            // A scan is one page, however many files tell of it.
            Some(known) => {
                known.collection = page.collection;
                known.text = known.text.take().or(page.text);
                known.outlines = known.outlines.take().or(page.outlines);
            }
            None => {
                pages.insert(page.image.clone(), page);
            }
        }
    }
    Ok(pages.into_values().collect())
}

/// Returns the text with a line for each line of writing; `None` if the document has outlines only. One with some texts may have empty lines among
/// them.
fn text_of(transcription: &Transcription) -> Option<String> {
    let texts = transcription
        .lines
        .iter()
        .map(|line| line.text.as_deref().unwrap_or_default());
    transcription
        .has_text()
        .then(|| texts.collect::<Vec<_>>().join("\n"))
}

/// Combines a scan with `text`, or else that of the PAGE XML beside it, and with its boxes, or else the outlines of the PAGE XML.
fn true_page(image: &Path, collection: &str, text: Option<String>) -> Result<TruePage> {
    let boxes = read_boxes(&image.with_extension("boxes.json"))?;
    let (text_of_lines, outlines) = match beside(image)? {
        Some(transcription) => {
            let text = text_of(&transcription);
            let mut outlines = TrueOutlines::default();
            for line in transcription.lines {
                let lines = if line.marginal {
                    &mut outlines.marginal
                } else {
                    &mut outlines.text
                };
                lines.push(line.polygon);
            }
            (text, Some(outlines))
        }
        None => (None, None),
    };
    let name = image.file_name().unwrap_or_default();
    Ok(TruePage {
        image: name.to_string_lossy().into_owned(),
        collection: collection.to_owned(),
        text: text.or(text_of_lines),
        outlines: boxes.or(outlines),
    })
}

fn rendered_page(path: &Path) -> Result<TruePage> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let page: RenderedPage =
        serde_json::from_slice(&bytes).with_context(|| format!("{} is no page truth", path.display()))?;
    let text = page
        .lines
        .iter()
        .map(|line| line.text.as_str())
        .collect::<Vec<_>>()
        .join("\n");
    let outline = |line: &RenderedLine| {
        line.polygon
            .iter()
            .map(|[x, y]| Point::new(x.round() as i32, y.round() as i32))
            .collect()
    };
    Ok(TruePage {
        image: plain_name(&page.image)?.to_owned(),
        collection: page.font.unwrap_or_else(|| "rendered".to_owned()),
        text: Some(text),
        outlines: Some(TrueOutlines {
            text: page.lines.iter().map(outline).collect(),
            marginal: Vec::new(),
        }),
    })
}

fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read the truth {}", path.display()))
}

fn read_boxes(path: &Path) -> Result<Option<TrueOutlines>> {
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let boxes: Vec<[f64; 4]> =
        serde_json::from_slice(&bytes).with_context(|| format!("{} is no list of boxes", path.display()))?;
    let corners = |[x0, y0, x1, y1]: [f64; 4]| {
        let [x0, y0, x1, y1] = [x0, y0, x1, y1].map(|value| value.round() as i32);
        vec![
            Point::new(x0, y0),
            Point::new(x1, y0),
            Point::new(x1, y1),
            Point::new(x0, y1),
        ]
    };
    // An empty list means that the lines of the page were not annotated, and not that it has none.
    Ok((!boxes.is_empty()).then(|| TrueOutlines {
        text: boxes.into_iter().map(corners).collect(),
        marginal: Vec::new(),
    }))
}

/// Checks that a file name from a manifest is a single path segment, so that ground truth cannot name files in other folders.
fn plain_name(name: &str) -> Result<&str> {
    let path = PathBuf::from(name);
    if path.file_name().is_some_and(|file| file == name) {
        Ok(name)
    } else {
        bail!("{name:?} in the truth is not a file name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_name_collections_and_may_lack_truth() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "manifest.tsv",
            "file\tcollection\ttruth\na.jpg\tuchen\ta.txt\nb.jpg\tume\t-\n",
        );
        write("a.txt", "ཀ\nཁ\n");
        write("a.boxes.json", "[[0, 0, 10, 5]]");
        let pages = read_truth(folder.path()).unwrap();
        assert_eq!(pages.len(), 1);
        assert_eq!(
            (
                pages[0].collection.as_str(),
                pages[0].outlines.as_ref().unwrap().text.len()
            ),
            ("uchen", 1)
        );
    }

    #[test]
    fn page_xml_adds_the_outlines_of_a_page_and_its_text_where_there_is_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let line = r#"<TextLine><Coords points="0,0 9,0 9,4"/><TextEquiv><Unicode>ཁ</Unicode></TextEquiv></TextLine>"#;
        let xml = format!("<PcGts><Page>{line}</Page></PcGts>");
        for (name, text) in [
            ("a.jpg", ""),
            ("a.txt", "ཀ"),
            ("a.page.xml", &xml),
            ("b.jpg", ""),
            ("b.xml", &xml),
            ("c.jpg", ""),
            ("c.xml", "<alto/>"),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let pages = read_truth(folder.path()).unwrap();
        let found: Vec<_> = pages
            .iter()
            .map(|page| {
                (
                    page.image.as_str(),
                    page.text.as_deref(),
                    page.outlines.as_ref().map(|outlines| outlines.text.len()),
                )
            })
            .collect();
        assert_eq!(
            found,
            [("a.jpg", Some("ཀ"), Some(1)), ("b.jpg", Some("ཁ"), Some(1))]
        );
    }

    #[test]
    fn a_scan_with_several_files_is_one_page() {
        let folder = tempfile::tempdir().unwrap();
        let rendered = r#"{"image": "a.jpg", "font": "uchen", "lines": [{"text": "ཁ", "polygon": [[0, 0], [9, 0], [9, 4]]}]}"#;
        for (name, text) in [("a.jpg", ""), ("a.txt", "ཀ"), ("a.json", rendered)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let pages = read_truth(folder.path()).unwrap();
        assert_eq!(pages.len(), 1);
        assert_eq!(
            (pages[0].text.as_deref(), pages[0].collection.as_str()),
            (Some("ཀ"), "uchen")
        );
        assert_eq!(
            pages[0].outlines.as_ref().map(|outlines| outlines.text.len()),
            Some(1)
        );
    }

    #[test]
    fn an_empty_list_of_boxes_is_no_geometry() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.jpg", ""), ("a.txt", "ཀ"), ("a.boxes.json", "[]")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let pages = read_truth(folder.path()).unwrap();
        assert_eq!(pages.len(), 1);
        assert!(pages[0].outlines.is_none());
    }

    #[test]
    fn a_manifest_cannot_reach_other_folders() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("manifest.tsv"),
            "file\tcollection\ttruth\na.jpg\tc\t../secret\n",
        )
        .unwrap();
        assert!(read_truth(folder.path()).is_err());
    }
}
