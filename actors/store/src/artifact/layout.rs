//! The only place that builds artifact keys.

mod archive;
mod shards;

use super::{Digest, ImageName};
use crate::storage::ArtifactKey;
use parkhang_core::domain::{Assignment, Fence, JobConfig, JobKey, LayoutName, StageName, VolumeId};

pub use archive::ArchiveLayout;
pub use shards::ShardLayout;

const LINE_DETECTION: &str = "line_detection";
const LINE_EXTRACTION: &str = "line_extraction";
const OCR: &str = "ocr";
const CLEAN: &str = "clean";
const COMBINE: &str = "combine";
const PAGE_TEXT: &str = "page_text";
const PAGE_OCR: &str = "page_ocr";
const DOCTAGS: &str = "doctags";
const INDEX: &str = "index";
const LINE_BLOCKS: &str = "line_blocks";
const CHUNK: &str = "chunk";
const EMBED: &str = "embed";

/// The artifact keys of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactLayout {
    name: LayoutName,
    /// Folder of the job's volumes.
    volumes: ArtifactKey,
    /// Folder of the volumes of the first of the jobs whose readings this one combines, which has found their lines.
    lines: Option<ArtifactKey>,
}

impl ArtifactLayout {
    /// Keys of a job that has found the lines of its volumes itself.
    pub fn new(name: LayoutName, job: &JobKey) -> Self {
        Self {
            name,
            volumes: volumes_folder(name, job),
            lines: None,
        }
    }

    /// Keys of a job with this configuration.
    pub fn of(config: &JobConfig, job: &JobKey) -> Self {
        let first = config.inputs.first();
        Self {
            lines: first.map(|first| volumes_folder(config.layout, first)),
            ..Self::new(config.layout, job)
        }
    }

    pub fn bdrc_v2(job: &JobKey) -> Self {
        Self::new(LayoutName::BdrcV2, job)
    }

    pub fn volume(&self, volume: &VolumeId) -> VolumeLayout {
        let folder_in = |volumes: &ArtifactKey| match self.name {
            LayoutName::BdrcV2 | LayoutName::BdrcV1 => below(volumes, &volume.to_string()),
            LayoutName::OcrBboxes => below(&below(volumes, volume.w_id()), volume.i_id()),
        };
        let root_of = |folder: &ArtifactKey| match self.name {
            LayoutName::BdrcV1 => below(folder, "artifacts"),
            LayoutName::BdrcV2 | LayoutName::OcrBboxes => folder.clone(),
        };
        let folder = folder_in(&self.volumes);
        let boxes = match volume.pages() {
            // A page is the document's, whichever part of it was asked for.
            Some(_) if self.name == LayoutName::OcrBboxes => self.volume(&volume.document()).folder,
            _ => folder.clone(),
        };
        VolumeLayout {
            name: self.name,
            root: root_of(&folder),
            lines: self.lines.as_ref().map(|lines| root_of(&folder_in(lines))),
            folder,
            boxes,
        }
    }
}

/// The files that tell how a volume ended. They are written after the state store knows it, for people and old tools;
/// nothing is decided by them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markers {
    pub done: ArtifactKey,
    pub error: ArtifactKey,
}

/// The keys of one volume of a job. Each stage writes below its own [`stage_folder`](Self::stage_folder) only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeLayout {
    name: LayoutName,
    /// Everything of the volume.
    folder: ArtifactKey,
    /// What the stages write.
    root: ArtifactKey,
    /// What the stages of another job have written that found the lines of the volume, where this one combines its readings.
    lines: Option<ArtifactKey>,
    /// Text boxes of pages.
    boxes: ArtifactKey,
}

impl VolumeLayout {
    /// Keys of the artifacts of an assigned volume, laid out as its job wants them.
    pub fn of(assignment: &Assignment) -> Self {
        ArtifactLayout::of(&assignment.config, &assignment.job).volume(&assignment.volume)
    }

    /// Everything of the volume, if it is the job's own; `None` where jobs share a folder.
    pub fn own_folder(&self) -> Option<&ArtifactKey> {
        match self.name {
            LayoutName::BdrcV2 | LayoutName::BdrcV1 => Some(&self.folder),
            LayoutName::OcrBboxes => None,
        }
    }

    pub fn root(&self) -> &ArtifactKey {
        &self.root
    }

    /// `None` in layouts without markers.
    pub fn markers(&self) -> Option<Markers> {
        self.name.has_markers().then(|| Markers {
            done: below(&self.folder, "_done.json"),
            error: below(&self.folder, "_error.json"),
        })
    }

    /// Text boxes of the page `number`, counted from 1, for the web service; `None` in layouts that it does not read.
    pub fn page_boxes(&self, number: u32) -> Option<ArtifactKey> {
        let boxes = || below(&self.boxes, &format!("page_{number}.json"));
        (self.name == LayoutName::OcrBboxes).then(boxes)
    }

    /// The straightened page that `line_detection` writes and `line_extraction` cuts.
    pub fn rotated_image(&self, image: &ImageName) -> ArtifactKey {
        below(
            &self.root,
            &format!("{LINE_DETECTION}/rotated_images/{image}.jpg"),
        )
    }

    /// Table that a stage writes, under the name of its row type ([`ArtifactRow::TABLE`](super::ArtifactRow::TABLE)).
    pub fn table(&self, stage: &StageName, table: &str) -> ArtifactKey {
        below(&self.stage_folder(stage), &format!("{table}.parquet"))
    }

    /// Pages whose lines were found.
    pub fn line_detection(&self) -> ArtifactKey {
        below(self.lines(), &format!("{LINE_DETECTION}/line_detection.parquet"))
    }

    pub fn line_image(&self, image: &ImageName, line_index: u32) -> ArtifactKey {
        below(
            &self.root,
            &format!("{LINE_EXTRACTION}/lines/{image}_{line_index}.jpg"),
        )
    }

    /// Lines that were cut out of the pages.
    pub fn line_images(&self) -> ArtifactKey {
        below(self.lines(), &format!("{LINE_EXTRACTION}/line_images.parquet"))
    }

    /// Texts as they were read, or as they were made of what other jobs have read.
    pub fn ocr_results(&self) -> ArtifactKey {
        let stage = if self.lines.is_some() { COMBINE } else { OCR };
        below(&self.root, &format!("{stage}/ocr_results.parquet"))
    }

    /// What the stages have written that found the lines.
    fn lines(&self) -> &ArtifactKey {
        self.lines.as_ref().unwrap_or(&self.root)
    }

    /// Texts that were corrected after they were read.
    pub fn clean_results(&self) -> ArtifactKey {
        below(&self.root, &format!("{CLEAN}/ocr_results.parquet"))
    }

    /// Folder of the answers of a service that a stage asked about pages.
    pub fn answers(&self, stage: &StageName) -> ArtifactKey {
        below(&self.stage_folder(stage), "answers")
    }

    /// Answer of a service that a stage asked about a page, compressed with gzip.
    pub fn answer(&self, stage: &StageName, image: &ImageName) -> ArtifactKey {
        below(&self.answers(stage), &format!("{image}.json.gz"))
    }

    /// Folder of what operations of a service answer that were asked what this digest says.
    pub fn operation(&self, asked: Digest) -> ArtifactKey {
        below(&self.root, &format!("operations/{}", asked.to_hex()))
    }

    pub fn page_text(&self) -> ArtifactKey {
        below(&self.root, &format!("{PAGE_TEXT}/page_text.parquet"))
    }

    pub fn words(&self) -> ArtifactKey {
        below(&self.root, &format!("{PAGE_OCR}/words.parquet"))
    }

    pub fn blocks(&self) -> ArtifactKey {
        below(&self.root, &format!("{DOCTAGS}/blocks.parquet"))
    }

    /// Blocks of lines, in a volume that went through `ocr`.
    pub fn line_blocks(&self) -> ArtifactKey {
        below(&self.root, &format!("{LINE_BLOCKS}/blocks.parquet"))
    }

    pub fn chunks(&self) -> ArtifactKey {
        below(&self.root, &format!("{CHUNK}/chunks.parquet"))
    }

    /// Index of the volume's text, for search.
    pub fn search_index(&self) -> ArtifactKey {
        below(&self.root, &format!("{INDEX}/text.index"))
    }

    pub fn vectors(&self) -> ArtifactKey {
        below(&self.root, &format!("{EMBED}/vectors.parquet"))
    }

    /// Everything that a stage writes for the volume.
    pub fn stage_folder(&self, stage: &StageName) -> ArtifactKey {
        below(&self.root, stage.as_str())
    }

    /// Result of a stage that a service did under a lease. Each lease has an object of its own, so that what is late replaces nothing.
    pub fn service_result(&self, fence: &Fence) -> ArtifactKey {
        let (attempt, generation) = (fence.attempt, fence.generation);
        below(
            &self.stage_folder(&fence.stage),
            &format!("result-{attempt}-g{generation}.json"),
        )
    }

    /// The pages that a stage failed on.
    pub fn errors(&self, stage: &StageName) -> ArtifactKey {
        below(&self.stage_folder(stage), "errors.parquet")
    }

    /// One line per item that a stage dealt with.
    pub fn manifest(&self, stage: &StageName) -> ArtifactKey {
        below(&self.stage_folder(stage), "manifest.jsonl")
    }

    /// Hashes of what a table was made from, beside it.
    pub fn fingerprint_file(&self, table: &ArtifactKey) -> ArtifactKey {
        built(ArtifactKey::new(format!("{table}.fp.json")))
    }

    /// Checkpoints of a stage that has not finished the volume.
    pub fn parts_folder(&self, stage: &StageName) -> ArtifactKey {
        below(&self.stage_folder(stage), "parts")
    }

    /// Checkpoint of a run under a lease. Keys are in the order of the leases.
    pub fn part(&self, fence: &Fence, number: u32) -> ArtifactKey {
        let lease = lease_of_part(fence);
        below(
            &self.parts_folder(&fence.stage),
            &format!("{lease}-{number:05}.parquet"),
        )
    }

    /// Returns whether a checkpoint of the lease's stage was made under that lease or an earlier one.
    pub fn is_up_to(&self, fence: &Fence, part: &ArtifactKey) -> bool {
        let below_folder = self.parts_folder(&fence.stage).as_str().len() + 1;
        let name = part.as_str().get(below_folder..).unwrap_or_default();
        let lease = lease_of_part(fence);
        // Names are in the order of the leases; those of earlier versions, which have none, come first.
        name.get(..lease.len()).unwrap_or(name) <= lease.as_str()
    }
}

/// Part of the name of a lease's checkpoints.
fn lease_of_part(fence: &Fence) -> String {
    format!("part-g{:08}-{:05}", fence.generation.0, fence.attempt.0)
}

fn volumes_folder(name: LayoutName, job: &JobKey) -> ArtifactKey {
    built(ArtifactKey::new(match name {
        LayoutName::BdrcV2 => format!("jobs/{job}/volumes"),
        LayoutName::BdrcV1 => format!("output/jobs/{job}/volumes"),
        LayoutName::OcrBboxes => "ocr-bboxes".to_owned(),
    }))
}

fn below(folder: &ArtifactKey, relative: &str) -> ArtifactKey {
    built(folder.join(relative))
}

#[expect(
    clippy::expect_used,
    reason = "the validated names that keys are made of are safe segments, and too short together to pass 1024 bytes"
)]
fn built(key: Result<ArtifactKey, crate::storage::InvalidKey>) -> ArtifactKey {
    key.expect("a key made of validated names is valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::{fence, stage};
    use parkhang_core::domain::{Attempt, Generation};

    #[test]
    fn checkpoints_are_in_the_order_of_their_leases() {
        let layout = ArtifactLayout::bdrc_v2(&JobKey::new("J7").unwrap());
        let volume = layout.volume(&VolumeId::new("W1", "I1").unwrap());
        let lease = |generation, attempt| Fence {
            generation: Generation(generation),
            attempt: Attempt(attempt),
            ..fence(1, "ocr")
        };
        let leases = [lease(0, 1), lease(0, 2), lease(1, 2), lease(2, 3), lease(10, 3)];
        let old = volume
            .parts_folder(&stage("ocr"))
            .join("part-00012.parquet")
            .unwrap();
        let mut parts = vec![old.clone()];
        for (place, lease) in leases.iter().enumerate() {
            parts.extend([9, 10].map(|number| volume.part(lease, number)));
            for (earlier, other) in leases.iter().enumerate() {
                let part = volume.part(other, 11);
                assert_eq!(volume.is_up_to(lease, &part), earlier <= place, "{part}");
            }
            assert!(volume.is_up_to(lease, &old));
        }
        assert!(parts.is_sorted(), "{parts:?}");
    }

    /// Rows: F33.
    #[test]
    fn keys_are_those_of_the_layout() {
        let layout = ArtifactLayout::bdrc_v2(&JobKey::new("J7").unwrap());
        let volume = layout.volume(&VolumeId::new("W22084", "I0886").unwrap());
        let image = ImageName::new("I08860003").unwrap();
        let ocr = stage("ocr");
        let keys = [
            volume.rotated_image(&image),
            volume.line_detection(),
            volume.line_image(&image, 12),
            volume.line_images(),
            volume.ocr_results(),
            volume.clean_results(),
            volume.answer(&ocr, &image),
            volume.operation(Digest::of(b"pages")),
            volume.page_text(),
            volume.words(),
            volume.blocks(),
            volume.line_blocks(),
            volume.chunks(),
            volume.table(&ocr, "ocr_results"),
            volume.errors(&ocr),
            volume.manifest(&ocr),
            volume.service_result(&fence(1, "clean")),
            volume.part(&fence(1, "ocr"), 3),
            volume.fingerprint_file(&volume.ocr_results()),
        ];
        let expected = [
            "line_detection/rotated_images/I08860003.jpg",
            "line_detection/line_detection.parquet",
            "line_extraction/lines/I08860003_12.jpg",
            "line_extraction/line_images.parquet",
            "ocr/ocr_results.parquet",
            "clean/ocr_results.parquet",
            "ocr/answers/I08860003.json.gz",
            "operations/bfa062de040f55a15ce910800757061ec3d2fc31d6b7c72d9fa02b75a9ad1133",
            "page_text/page_text.parquet",
            "page_ocr/words.parquet",
            "doctags/blocks.parquet",
            "line_blocks/blocks.parquet",
            "chunk/chunks.parquet",
            "ocr/ocr_results.parquet",
            "ocr/errors.parquet",
            "ocr/manifest.jsonl",
            "clean/result-1-g0.json",
            "ocr/parts/part-g00000000-00001-00003.parquet",
            "ocr/ocr_results.parquet.fp.json",
        ];
        for (key, expected) in keys.iter().zip(expected) {
            assert_eq!(key.as_str(), format!("jobs/J7/volumes/W22084-I0886/{expected}"));
            assert!(key.is_under(volume.root()));
        }
        assert!(
            volume
                .part(&fence(1, "ocr"), 3)
                .is_under(&volume.parts_folder(&ocr))
        );
    }

    /// Rows: 101, F7, F33.
    #[test]
    fn each_layout_has_its_own_folders_and_files() {
        let volume = |name| {
            let layout = ArtifactLayout::new(name, &JobKey::new("J7").unwrap());
            layout.volume(&VolumeId::new("W22084", "I0886").unwrap())
        };
        let of = |text: &str| ArtifactKey::new(text).unwrap();

        let old = volume(LayoutName::BdrcV1);
        let folder = "output/jobs/J7/volumes/W22084-I0886";
        assert_eq!(old.root(), &of(&format!("{folder}/artifacts")));
        assert!(old.ocr_results().is_under(old.root()));
        let markers = old.markers().unwrap();
        assert_eq!(markers.done, of(&format!("{folder}/_done.json")));
        assert_eq!(markers.error, of(&format!("{folder}/_error.json")));
        assert_eq!(old.page_boxes(1), None);

        let boxes = volume(LayoutName::OcrBboxes);
        assert_eq!(
            boxes.page_boxes(12),
            Some(of("ocr-bboxes/W22084/I0886/page_12.json"))
        );
        let part = ArtifactLayout::new(LayoutName::OcrBboxes, &JobKey::new("J7").unwrap())
            .volume(&VolumeId::new("W22084", "I0886@3-12").unwrap());
        assert_eq!(
            part.page_boxes(12),
            boxes.page_boxes(12),
            "a page is the document's"
        );
        assert!(part.words().is_under(&of("ocr-bboxes/W22084/I0886@3-12")));
        assert_eq!(boxes.markers(), None);
        assert!(
            boxes
                .line_detection()
                .is_under(&of("ocr-bboxes/W22084/I0886/line_detection"))
        );
        assert_eq!(volume(LayoutName::BdrcV2).markers(), None);
    }

    #[test]
    fn layouts_are_chosen_by_name() {
        for (name, text) in [
            (LayoutName::BdrcV2, "\"bdrc_v2\""),
            (LayoutName::BdrcV1, "\"bdrc_v1\""),
            (LayoutName::OcrBboxes, "\"ocr_bboxes\""),
        ] {
            assert_eq!(serde_json::to_string(&name).unwrap(), text);
            assert_eq!(serde_json::from_str::<LayoutName>(text).unwrap(), name);
        }
    }

    #[test]
    fn the_longest_names_still_make_a_key() {
        let job = JobKey::new("j".repeat(128)).unwrap();
        let volume = VolumeId::new("w".repeat(96), "i".repeat(96)).unwrap();
        let files = ["n".repeat(255), format!("{}.tif", "n".repeat(251))];
        for name in [LayoutName::BdrcV2, LayoutName::BdrcV1, LayoutName::OcrBboxes] {
            let volume = ArtifactLayout::new(name, &job).volume(&volume);
            for image in super::super::image_names(&files) {
                volume.line_image(&image, u32::MAX);
            }
            volume.part(&fence(1, &"s".repeat(63)), u32::MAX);
        }
    }

    #[test]
    fn a_job_that_combines_has_the_lines_of_its_first_input() {
        let config = JobConfig::default().with_overrides(["inputs=one,other"]).unwrap();
        let volume = VolumeId::new("W22084", "I0886").unwrap();
        let key = |job: &str| JobKey::new(job).unwrap();
        let combined = ArtifactLayout::of(&config, &key("best")).volume(&volume);
        let first = ArtifactLayout::bdrc_v2(&key("one")).volume(&volume);
        assert_eq!(combined.line_detection(), first.line_detection());
        assert_eq!(combined.line_images(), first.line_images());
        let texts = combined.root().join("combine/ocr_results.parquet");
        assert_eq!(combined.ocr_results(), texts.unwrap());
        let own = ArtifactLayout::of(&JobConfig::default(), &key("one")).volume(&volume);
        assert_eq!(own, first);
    }
}
