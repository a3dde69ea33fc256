//! Arguments of `node export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use parkhang_core::domain::{JobKey, VolumeId};

use super::html::ViewerArgs;
use super::iiif::IiifArgs;
use crate::config::ConfigArgs;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One UTF-8 text file per page and one per volume.
    Text,
    /// PAGE XML 2013-07-15, coordinates of the original scans.
    Pagexml,
    /// ALTO 4.4, coordinates of the original scans.
    Alto,
    /// hOCR 1.2, coordinates of the original scans.
    Hocr,
    /// One IIIF Presentation 3 manifest per volume, with annotations and pictures.
    Iiif,
    /// One JSON object per line of text.
    Jsonl,
    /// One viewer per volume, self-contained unless it is large.
    Html,
    /// One JSON file of words with their boxes per page of a volume that page_ocr has read, with blocks and tables if it is a document:
    /// DIR/VOLUME/page_N.json.
    Bboxes,
    /// One file per volume of the pipeline documents in DocTags, which docling reads.
    Doctags,
    /// One Markdown file per volume of the pipeline documents.
    Markdown,
    /// One HTML file per volume of the pipeline documents: its text with headings, lists and tables.
    Document,
    /// One TEI P5 file per volume of such a pipeline: sections, paragraphs and verse line by line, tables, notes, places on the pages.
    Tei,
    /// One JSON object per chunk of a volume of the pipeline documents: its text, pages, boxes and headings.
    Chunks,
    /// The tables that BDRC's own programs for Google Vision and for a language model write, under their keys, of volumes that such a service
    /// has read.
    Bdrc,
    /// One searchable PDF per volume: the scans, or the PDF that was read, with an invisible layer of text.
    Pdf,
}

impl Format {
    /// True for formats that have the blocks of documents.
    pub fn has_blocks(self) -> bool {
        matches!(
            self,
            Self::Bboxes | Self::Doctags | Self::Markdown | Self::Document | Self::Tei
        )
    }
}

/// Options of single formats.
#[derive(Debug, Clone, Args)]
pub struct FormatArgs {
    #[command(flatten)]
    pub viewer: ViewerArgs,
    #[command(flatten)]
    pub iiif: IiifArgs,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Output folder of `node ocr`.
    #[arg(value_name = "OUT", required_unless_present = "job")]
    pub out: Option<PathBuf>,
    /// Export what a job of the cluster has written to the artifact store so far, instead of OUT.
    #[arg(long, value_name = "NAME", conflicts_with = "out", requires = "to")]
    pub job: Option<JobKey>,
    /// The job was created by `node shards create`, so look it up in the artifact store and not in the database.
    #[arg(long, requires = "job")]
    pub shards: bool,
    /// Leave out the corrections of people. All formats have them but bboxes, chunks and bdrc, which are of the tables.
    #[arg(long, requires = "job")]
    pub original: bool,
    /// Formats, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Format::Text, Format::Html])]
    pub format: Vec<Format>,
    /// Folder to write to; by default OUT/export.
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Only this volume (W-I); may be repeated.
    #[arg(long, value_name = "VOLUME")]
    pub volume: Vec<VolumeId>,
    #[command(flatten)]
    pub options: FormatArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
}
