//! The engine for Tibetan: the lines of a page as the stages of `ocr` find, cut and read them, with nothing stored in between, and their
//! syllables as words.

use std::ops::Range;
use std::sync::Arc;

use image::GrayImage;
use parkhang_models::algorithms::Algorithms;
use parkhang_models::line_detection::{PageGeometry, PageLines, straighten_onto};
use parkhang_models::line_extraction::{ExtractionConfig, Levelling};
use parkhang_models::page::decode::DecodedPage;
use parkhang_models::page::geometry::{Point, Rect};
use parkhang_models::recognition::legibility::legible;
use parkhang_models::recognition::read::LineText;
use parkhang_models::recognition::syllable::Syllable;
use serde_json::{Map, Value, json};

use super::super::line_detection::LineDetection;
use super::super::line_extraction::{LineExtraction, cut_lines, has_rows_by_mask};
use super::super::ocr::Ocr;
use super::super::ocr_reader::Reader;
use super::super::ocr_reading::Lines;
use super::super::page_stage::VolumeRun;
use super::super::registry::StageServices;
use super::super::{StageInfo, compute};
use super::ink::Ink;
use super::lines::{Bounds, Engine, ReadLine, ReadWord};
use parkhang_core::domain::{ErrorCategory, JobConfig, StageError, Unfit};
use parkhang_store::artifact::ModelRef;

/// The networks that find and read lines of Tibetan.
#[derive(Debug)]
pub(super) struct TibetanReader {
    detection: LineDetection,
    ocr: Ocr,
}

/// The lines of a page, cut out.
struct CutPage {
    geometry: PageGeometry,
    images: Lines,
    /// Box from which each was cut, in pixels of the straightened page, with its levelling.
    places: Vec<(Rect, Option<Levelling>)>,
}

impl TibetanReader {
    pub(super) fn new(services: &StageServices) -> std::io::Result<Self> {
        let ocr = Ocr::new(services)?;
        if ocr.readers.is_empty() {
            return Err(std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "no recogniser is loaded",
            ));
        }
        Ok(Self {
            detection: LineDetection::new(services)?,
            ocr,
        })
    }

    pub(super) fn models(&self) -> Vec<ModelRef> {
        let reader = self.ocr.readers.first();
        let mut models = self.detection.models();
        models.extend(reader.map(|reader| reader.recogniser.model.clone()));
        models
    }

    pub(super) fn renew(&self) -> std::io::Result<()> {
        self.detection.renew()?;
        self.ocr.renew()
    }

    pub(super) async fn check(&self) -> Result<(), Unfit> {
        self.detection.check().await?;
        self.ocr.check().await
    }

    /// Settings of the loaded models that the result depends on.
    pub(super) fn model_settings(&self, _: &JobConfig) -> Map<String, Value> {
        let head = self
            .ocr
            .readers
            .first()
            .map(|reader| reader.recogniser.head.as_str());
        Map::from_iter([
            ("threshold".to_owned(), json!(self.detection.threshold)),
            ("head".to_owned(), json!(head)),
        ])
    }

    /// Reads the lines of a page, whose content is upright. Boxes are in pixels of the page.
    ///
    /// # Errors
    ///
    /// Those of the networks.
    pub(super) async fn read(
        &self,
        run: &VolumeRun,
        page: Arc<DecodedPage>,
    ) -> Result<Vec<ReadLine>, StageError> {
        let reader = self.reader(run)?;
        let settings = self.detection.detection_config(run.config());
        let found = self.detection.find_lines(run, page.clone(), &settings).await?;
        if found.contours.is_empty() {
            return Ok(Vec::new());
        }
        let background = self.detection.detection_config(run.config()).background();
        let extraction = LineExtraction::extraction_config(run.config());
        let generation = run.config().generation;
        let cut = compute(&self.ocr.cpu, run, move |_| {
            cut(&page, found, background, generation, &extraction)
        })
        .await?;
        let texts = self.ocr.read_lines(run, reader, cut.images.clone()).await?;
        let kept = legible(&texts, run.config().min_confidence);
        // The first generation cuts columns out of the middle of lines, so that columns of ink do not tell where they were.
        let is_whole = run.config().generation != Algorithms::Gen1;
        compute(&self.ocr.cpu, run, move |_| {
            let lines = texts.into_iter().zip(kept).enumerate();
            let lines = lines.filter(|(_, (_, kept))| *kept);
            Ok(lines
                .filter_map(|(place, (text, _))| cut.place(place, text, is_whole))
                .collect())
        })
        .await
    }

    fn reader(&self, run: &VolumeRun) -> Result<&Reader, StageError> {
        let first = self.ocr.readers.first();
        first.ok_or_else(|| run.error(ErrorCategory::Config, "there is no recogniser"))
    }
}

/// Straightens the page and cuts its lines.
fn cut(
    page: &DecodedPage,
    found: PageLines,
    background: u8,
    generation: Algorithms,
    config: &ExtractionConfig,
) -> Result<CutPage, (ErrorCategory, String)> {
    let geometry = found
        .geometry()
        .map_err(|error| (ErrorCategory::Runtime, error.to_string()))?;
    let straight = straighten_onto(&page.gray, &geometry, background);
    let mask = has_rows_by_mask(generation).then_some(&found.mask);
    let cuts = cut_lines(straight, page.bilevel, mask, found.contours, config);
    let cuts = cuts
        .into_iter()
        .map(|(_, cut)| ((cut.image, page.bilevel), (cut.origin, cut.levelling)));
    let (images, places): (Vec<_>, Vec<_>) = cuts.unzip();
    Ok(CutPage {
        geometry,
        images: Arc::new(images),
        places,
    })
}

impl CutPage {
    /// The line at a place as it lies on the page; `None` for one without text.
    fn place(&self, place: usize, text: LineText, by_ink: bool) -> Option<ReadLine> {
        let ((image, _), (origin, levelling)) = (self.images.get(place)?, self.places.get(place)?);
        let size = (image.width() as usize, image.height() as usize);
        let on_page = |columns: &Range<usize>, rows: &Range<usize>| {
            self.on_page(*origin, levelling.as_ref(), columns, rows)
        };
        let words = words(&text.syllables, image, by_ink)
            .into_iter()
            .map(|(text, confidence, columns, rows)| ReadWord {
                text,
                confidence,
                bounds: on_page(&columns, &rows),
            })
            .collect::<Vec<_>>();
        (!words.is_empty()).then(|| ReadLine {
            words,
            bounds: on_page(&(0..size.0), &(0..size.1)),
            confidence: text.confidence,
            engine: Engine::Tibetan,
        })
    }

    /// Upright box on the page around a part of a line's image.
    fn on_page(
        &self,
        origin: Rect,
        levelling: Option<&Levelling>,
        columns: &Range<usize>,
        rows: &Range<usize>,
    ) -> Bounds {
        let coordinate =
            |offset: i32, value: usize| offset.saturating_add(i32::try_from(value).unwrap_or(i32::MAX));
        // The last pixel, whose far edge is a pixel farther.
        let (left, right) = (columns.start, columns.end.saturating_sub(1).max(columns.start));
        let (top, bottom) = (rows.start, rows.end.saturating_sub(1).max(rows.start));
        let (left, right) = (coordinate(origin.x, left), coordinate(origin.x, right));
        // Columns that were moved up lie lower on the page.
        let (least, most) = levelling.map_or((0, 0), |levelling| {
            levelling.shifts(left..right.saturating_add(1))
        });
        let (top, bottom) = (
            coordinate(origin.y, top) + least,
            coordinate(origin.y, bottom) + most,
        );
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
            .map(|(x, y)| self.geometry.to_page(Point::new(x, y)));
        let xs = || corners.iter().map(|corner| corner.x);
        let ys = || corners.iter().map(|corner| corner.y);
        let edge = |value: Option<i32>| value.unwrap_or(0) as f32;
        [
            edge(xs().min()),
            edge(ys().min()),
            edge(xs().max()) + 1.0,
            edge(ys().max()) + 1.0,
        ]
    }
}

/// A word, its confidence, and the columns and rows of its line's image that it fills.
type PlacedWord = (String, f32, Range<usize>, Range<usize>);

/// The syllables of a line as words, with what their ink fills. Punctuation that stands apart from its syllable is a word of its own.
fn words(syllables: &[Syllable], line: &GrayImage, by_ink: bool) -> Vec<PlacedWord> {
    let seen: Vec<Range<usize>> = syllables
        .iter()
        .map(|syllable| syllable.x_start as usize..syllable.x_end.max(syllable.x_start) as usize)
        .collect();
    let (width, height) = (line.width() as usize, line.height() as usize);
    let ink = by_ink.then(|| Ink::of(line));
    let parts = ink
        .as_ref()
        .map_or_else(|| seen.clone(), |ink| ink.part(&seen, height / 2));
    let mut words = Vec::new();
    for (syllable, part) in syllables.iter().zip(parts) {
        let texts: Vec<&str> = syllable.text.split_whitespace().collect();
        let pieces = match &ink {
            Some(ink) => ink.split(part, texts.len()),
            None => vec![part],
        };
        // Without a gap for each piece of the text the whole is one word.
        let texts: Vec<String> = if pieces.len() == texts.len() {
            texts.into_iter().map(str::to_owned).collect()
        } else {
            vec![texts.concat()]
        };
        let whole = pieces
            .first()
            .zip(pieces.last())
            .map(|(first, last)| first.start..last.end);
        let pieces = if texts.len() == pieces.len() {
            pieces
        } else {
            whole.into_iter().collect()
        };
        for (text, columns) in texts.into_iter().zip(pieces).filter(|(text, _)| !text.is_empty()) {
            let found = ink.as_ref().and_then(|ink| ink.bounds(&columns));
            let (columns, rows) = match found {
                Some(ink) => (ink.columns, ink.rows),
                None => (columns.start.min(width)..columns.end.min(width), 0..height),
            };
            words.push((text, syllable.confidence, columns, rows));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use image::Luma;
    use parkhang_models::line_detection::Certainty;
    use parkhang_models::page::decode::PageFormat;

    use super::*;

    const SIZE: (u32, u32) = (1300, 200);
    const HEIGHT: i32 = 30;
    const WIDTH: i32 = 44;

    /// Top of a line at column `x`: a bow as high as two lines.
    fn top(x: i32) -> i32 {
        let along = f64::from(x - 650) / 600.0;
        60 + (60.0 * along * along).round() as i32
    }

    #[test]
    fn lines_low_on_a_page_with_a_running_head_are_apart() {
        let (width, height) = (1000, 600);
        let middles = [20, 400, 460, 520];
        let contours: Vec<Vec<Point>> = middles
            .iter()
            .map(|y| {
                let corners = [(100, y - 12), (900, y - 12), (900, y + 12), (100, y + 12)];
                corners.map(|(x, y)| Point::new(x, y)).to_vec()
            })
            .collect();
        let is_line = |y: u32| middles.iter().any(|middle| y.abs_diff(*middle as u32) < 12);
        let mask = GrayImage::from_fn(width, height, |x, y| {
            Luma([if (100..900).contains(&x) && is_line(y) {
                255
            } else {
                0
            }])
        });
        let page = DecodedPage {
            gray: GrayImage::from_pixel(width, height, Luma([u8::MAX])),
            bilevel: false,
            format: PageFormat::Png,
            warnings: Vec::new(),
        };
        let found = PageLines {
            page_angle: 0.0,
            dewarp: None,
            tps_ratio: None,
            contours,
            regions: Vec::new(),
            mask,
            page_size: (width, height),
            certainty: Certainty::default(),
            is_negative: false,
        };
        let config = ExtractionConfig::default();
        let cut = cut(&page, found, 0, Algorithms::Gen2, &config).expect("lines");
        assert_eq!(cut.images.len(), middles.len());
    }

    #[test]
    fn words_of_a_bent_line_lie_where_their_ink_lies() {
        let lefts: Vec<i32> = (1..20).map(|word| word * 60).collect();
        let mut page = GrayImage::from_pixel(SIZE.0, SIZE.1, Luma([u8::MAX]));
        for x in lefts.iter().flat_map(|left| *left..left + WIDTH) {
            for y in top(x)..top(x) + HEIGHT {
                page.put_pixel(x as u32, y as u32, Luma([0]));
            }
        }
        let above = (50..1250).map(|x| Point::new(x, top(x) + 5));
        let below = (50..1250).rev().map(|x| Point::new(x, top(x) + HEIGHT - 5));
        let contour = above.chain(below).collect();
        let mut cuts = cut_lines(page, false, None, vec![contour], &ExtractionConfig::default());
        let (_, cut) = cuts.pop().expect("a line");
        let syllables = lefts.iter().map(|left| Syllable {
            text: "ཀ".to_owned(),
            x_start: (left - cut.origin.x) as u32,
            x_end: (left + WIDTH - cut.origin.x) as u32,
            confidence: 1.0,
        });
        let text = LineText {
            text: "ཀ".repeat(lefts.len()),
            confidence: 1.0,
            syllables: syllables.collect(),
            inked: None,
        };
        let cut = CutPage {
            geometry: PageGeometry::turned(SIZE.0, SIZE.1, 0.0),
            images: Arc::new(vec![(cut.image, false)]),
            places: vec![(cut.origin, cut.levelling)],
        };
        let line = cut.place(0, text, true).expect("words");
        for (word, left) in line.words.iter().zip(&lefts) {
            let tops = || (*left..left + WIDTH).map(top);
            let ink = [
                *left,
                tops().min().unwrap_or(0),
                left + WIDTH,
                tops().max().unwrap_or(0) + HEIGHT,
            ];
            let distances = word
                .bounds
                .iter()
                .zip(ink)
                .map(|(edge, ink)| (edge - ink as f32).abs());
            assert!(distances.fold(0.0, f32::max) <= 3.0, "{:?} {ink:?}", word.bounds);
        }
        assert_eq!(line.words.len(), lefts.len());
    }
}
