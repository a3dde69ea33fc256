//! The stage `reduce`: sums up the Parquet files of a volume as its results in the database, whichever of the pipelines made them. It
//! writes no artifact.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use parkhang_answers::align::POOR;
use serde_json::{Map, json};

use super::quality::{PageQuality, ReadText, TextQuality, text_quality};
use super::table::{StageDefinition, StageModels};
use super::whole::{TEXTS, WholeError, run_whole};
use super::{StageContext, StageInfo, StageLogic};
use crate::runner::CpuPool;
use parkhang_core::domain::{Hardware, StageName, StageReport, StageVerdict, TextEncoding, VolumeResults};
use parkhang_core::policy::forecast::MadeWith;
use parkhang_core::policy::percentile::percentile;
use parkhang_store::artifact::{
    LineDetectionRow, OcrResultRow, PageTextRow, VolumeLayout, WordRow, failed_pages, read_table, read_texts,
};
use parkhang_store::storage::ArtifactStore;

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "reduce",
    hardware: Hardware::Cpu,
    models: StageModels::None,
    settings: |_| Map::new(),
    reads: TEXTS,
    writes: &[],
    build: |services| {
        Ok(Arc::new(Reduce {
            store: services.artifacts.clone(),
            cpu: services.cpu.clone(),
            stages: services.stages.names(),
        }))
    },
};

/// The stage that sums a volume up.
#[derive(Debug)]
pub(crate) struct Reduce {
    pub store: Arc<dyn ArtifactStore>,
    pub cpu: CpuPool,
    /// Stages whose failed pages are counted, where a volume went through them.
    pub stages: Vec<StageName>,
}

impl StageInfo for Reduce {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }
}

#[async_trait]
impl StageLogic for Reduce {
    fn info(&self) -> &dyn StageInfo {
        self
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        let layout = VolumeLayout::of(&context.assignment);
        run_whole(&context, async {
            let Reduced {
                results,
                broken,
                poorly_aligned,
                worst_pages,
            } = self.reduce(&layout).await?;
            Ok(StageReport {
                metrics: json!({
                    "lines": results.total_lines,
                    "characters": results.total_characters,
                    "broken_pages": broken,
                    "poorly_aligned_pages": poorly_aligned,
                    "worst_pages": worst_pages,
                    "made_with": MadeWith::default(),
                }),
                fingerprint: None,
                results: Some(results),
            })
        })
        .await
    }
}

/// A volume summed up. Numbers of pages count from 1.
struct Reduced {
    results: VolumeResults,
    /// Pages whose own text is missing or wrong; `None` for volumes of scans.
    broken: Option<Vec<i32>>,
    /// Pages on which the places of a service's text are not to be relied on; `None` where no text was divided among lines.
    poorly_aligned: Option<Vec<i32>>,
    /// Pages that were read worst.
    worst_pages: Vec<PageQuality>,
}

impl Reduce {
    async fn reduce(&self, layout: &VolumeLayout) -> Result<Reduced, WholeError> {
        let store = self.store.as_ref();
        if store.head(&layout.words()).await?.is_some() {
            let pages = read_table::<PageTextRow>(store, &layout.page_text()).await?.rows;
            let words = read_table::<WordRow>(store, &layout.words()).await?.rows;
            let errors = failed_pages(store, layout, &self.stages).await?;
            let broken = broken(&pages, &words);
            let results = results_of_words(&pages, &words, errors.len());
            let quality = self.cpu.run(move |_| quality_of_words(&words)).await?;
            return Ok(Reduced {
                results: VolumeResults {
                    perplexity: quality.perplexity,
                    ..results
                },
                broken: Some(broken),
                poorly_aligned: None,
                worst_pages: quality.worst_pages,
            });
        }
        let pages = read_table::<LineDetectionRow>(store, &layout.line_detection())
            .await?
            .rows;
        let lines = read_texts(store, layout).await?.rows;
        let errors = failed_pages(store, layout, &self.stages).await?;
        let results = results(&pages, &lines, errors.len());
        let poorly_aligned = poorly_aligned(&lines);
        let quality = self.cpu.run(move |_| quality_of_lines(&lines)).await?;
        Ok(Reduced {
            results: VolumeResults {
                perplexity: quality.perplexity,
                ..results
            },
            broken: None,
            poorly_aligned,
            worst_pages: quality.worst_pages,
        })
    }
}

fn quality_of_lines(lines: &[OcrResultRow]) -> TextQuality {
    text_quality(lines.iter().map(|line| ReadText {
        page_index: line.page_index,
        text: &line.text,
        encoding: line.encoding,
        confidence: line.confidence,
    }))
}

/// Quality of the lines that words make up. A line is as sure as the words of it that were read.
fn quality_of_words(words: &[WordRow]) -> TextQuality {
    let lines: Vec<(i32, String, Option<f32>)> = words
        .chunk_by(is_same_line)
        .map(|line| {
            let texts: Vec<&str> = line.iter().map(|word| word.text.as_str()).collect();
            let sure: Vec<f32> = line.iter().filter_map(|word| word.confidence).collect();
            let confidence = (!sure.is_empty()).then(|| sure.iter().sum::<f32>() / sure.len() as f32);
            (line[0].page_index, texts.join(" "), confidence)
        })
        .collect();
    text_quality(lines.iter().map(|(page_index, text, confidence)| ReadText {
        page_index: *page_index,
        text,
        encoding: TextEncoding::Unicode,
        confidence: *confidence,
    }))
}

fn is_same_line(one: &WordRow, next: &WordRow) -> bool {
    (one.page, one.line) == (next.page, next.line)
}

/// Numbers of the pages whose text, divided among lines, fits these poorly as a whole.
fn poorly_aligned(lines: &[OcrResultRow]) -> Option<Vec<i32>> {
    let mut pages: BTreeMap<i32, (f32, f32)> = BTreeMap::new();
    for line in lines {
        if let Some(score) = line.alignment {
            let weight = line.text.chars().count() as f32;
            let (sum, all) = pages.entry(line.page_index).or_default();
            *sum += weight * score;
            *all += weight;
        }
    }
    let poor = pages.iter().filter(|(_, (sum, all))| *sum < POOR * *all);
    let numbers = poor.map(|(page, _)| page.saturating_add(1)).collect();
    (!pages.is_empty()).then_some(numbers)
}

/// Numbers of the pages whose pictures say what their text does not, by the verdict on the text or by a look at the picture.
fn broken(pages: &[PageTextRow], words: &[WordRow]) -> Vec<i32> {
    let contradicted = words.iter().filter(|word| word.contradicted == Some(true));
    let contradicted: BTreeSet<i32> = contradicted.map(|word| word.page_index).collect();
    let broken = pages
        .iter()
        .filter(|page| page.verdict.needs_reading() || contradicted.contains(&page.page_index));
    broken.map(|page| page.page_index.saturating_add(1)).collect()
}

/// Sums up a volume of words. Words that the file of a page holds have no confidence, and do not count for it.
fn results_of_words(pages: &[PageTextRow], words: &[WordRow], errors: usize) -> VolumeResults {
    let lines = words.chunk_by(is_same_line);
    VolumeResults {
        total_images: count(pages.len()),
        total_lines: count(lines.count()),
        total_characters: count(words.iter().map(|word| word.text.chars().count()).sum()),
        nb_errors: count(errors),
        ..of_confidences(words.iter().filter_map(|word| word.confidence))
    }
}

/// Sums up the volume. The duration stays 0: the orchestrator fills it in, which knows when each stage ran.
fn results(pages: &[LineDetectionRow], lines: &[OcrResultRow], errors: usize) -> VolumeResults {
    VolumeResults {
        total_images: count(pages.len()),
        total_lines: count(lines.len()),
        total_characters: count(lines.iter().map(|line| line.text.chars().count()).sum()),
        dewarping_applied_count: count(pages.iter().filter(|page| page.dewarping_applied).count()),
        nb_errors: count(errors),
        ..of_confidences(lines.iter().filter_map(|line| line.confidence))
    }
}

/// Results that have the spread of confidences and nothing else.
fn of_confidences(confidences: impl Iterator<Item = f32>) -> VolumeResults {
    let confidences: Vec<f64> = confidences.map(f64::from).collect();
    let of_all = |value: f64| (!confidences.is_empty()).then_some(value as f32);
    VolumeResults {
        confidence_mean: of_all(confidences.iter().sum::<f64>() / confidences.len() as f64),
        confidence_p10: of_all(percentile(&confidences, 10.0)),
        confidence_p50: of_all(percentile(&confidences, 50.0)),
        confidence_p90: of_all(percentile(&confidences, 90.0)),
        ..VolumeResults::default()
    }
}

fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_store::artifact::{TextVerdict, WordSource};

    #[test]
    fn a_volume_without_lines_has_no_confidence() {
        let results = results(&[], &[], 3);
        assert_eq!((results.nb_errors, results.confidence_mean), (3, None));
    }

    fn page(index: i32, verdict: TextVerdict) -> PageTextRow {
        PageTextRow {
            image_name: format!("page_{}", index + 1),
            page_index: index,
            source_name: format!("page_{}", index + 1),
            width: 595.0,
            height: 842.0,
            rotation: 0,
            dpi: 72.0,
            verdict,
            score: 1.0,
            reason: String::new(),
            words: Vec::new(),
            picture_share: None,
        }
    }

    fn word(page: i32, line: i32, text: &str, confidence: Option<f32>) -> WordRow {
        WordRow {
            image_name: format!("page_{page}"),
            page_index: page - 1,
            page,
            word_index: 0,
            text: text.to_owned(),
            bbox_x0: 0.0,
            bbox_y0: 0.0,
            bbox_x1: 1.0,
            bbox_y1: 1.0,
            confidence,
            line,
            source: confidence.map_or(WordSource::TextLayer, |_| WordSource::Ocr),
            engine: String::new(),
            contradicted: Some(false),
        }
    }

    /// Rows: 84.
    #[test]
    fn pages_whose_text_fits_their_lines_poorly_are_named() {
        let line = |page_index, text: &str, alignment| OcrResultRow {
            image_name: "p".to_owned(),
            line_index: 0,
            line_guid: String::new(),
            text: text.to_owned(),
            encoding: TextEncoding::Unicode,
            page_index,
            confidence: None,
            segments: Vec::new(),
            outline: None,
            alignment,
            perplexity: None,
            sources: None,
            ink_y: None,
            ink_h: None,
        };
        assert_eq!(poorly_aligned(&[line(0, "a", None)]), None);
        let lines = [
            line(0, "a", Some(0.1)),
            line(0, "long enough", Some(0.9)),
            line(2, "another text", Some(0.1)),
        ];
        assert_eq!(poorly_aligned(&lines), Some(vec![3]));
        assert_eq!(results(&[], &lines, 0).confidence_mean, None);
    }

    #[test]
    fn a_volume_of_words_names_its_broken_pages() {
        let pages = [
            page(0, TextVerdict::Good),
            page(1, TextVerdict::Broken),
            page(2, TextVerdict::None),
        ];
        let words = [
            word(1, 0, "to", None),
            word(1, 0, "be", None),
            word(2, 0, "or", Some(0.5)),
            word(2, 1, "not", Some(1.0)),
        ];
        let results = results_of_words(&pages, &words, 1);
        assert_eq!(
            (
                results.total_images,
                results.total_lines,
                results.total_characters,
                results.nb_errors
            ),
            (3, 3, 9, 1)
        );
        assert_eq!(results.confidence_mean, Some(0.75), "of words that were read");
        assert_eq!(broken(&pages, &words), [2, 3]);
        let contradicted = WordRow {
            contradicted: Some(true),
            ..word(1, 0, "be", Some(0.9))
        };
        assert_eq!(broken(&pages, &[contradicted]), [1, 2, 3]);
    }
}
