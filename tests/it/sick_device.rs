//! The stages of the program, with the shipped networks, on devices that fail and disks that are full: no page is lost for it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parkhang_actors::runner::CpuPool;
use parkhang_actors::stage::{
    LineSegmenter, ManifestFolder, ModelSet, Recogniser, StageRegistry, StageServices, StageTable,
    ocr_pipeline,
};
use parkhang_actors::supervisor::{NodeSupervisor, StagesOutOfOrder};
use parkhang_core::domain::testing::new_job;
use parkhang_core::domain::{ErrorCategory, JobConfig, JobStatus, LayoutName, NewJob, Task, TaskStatus};
use parkhang_models::device::{ComputeDevice, DeviceSpec};
use parkhang_models::inference::{InferenceError, LineBatch, Logits, Recognizer, Segmenter, TileBatch};
use parkhang_models::weights::{Bundle, load_recognizer, load_segmenter, shipped};
use parkhang_sandbox::{NodePlan, Sandbox};
use parkhang_store::artifact::{ArtifactLayout, Digest, ErrorRow, ModelRef, read_table};
use parkhang_store::pages::{FolderSource, discover_volumes};
use parkhang_store::storage::{ArtifactStore, LocalStore};

/// Pixels of a line that is wider than the one which the device is known to read, and narrower than some of the sample's.
const WIDE: usize = 60_000;

/// A device that does as it is told, under the networks of the program.
#[derive(Debug, Default)]
struct Device {
    lost: AtomicBool,
    /// Another process has all of its memory.
    full: AtomicBool,
    /// Pixels of the widest batch of lines that fits.
    largest: AtomicUsize,
    passes: AtomicUsize,
    /// It is lost after so many passes, until it is renewed.
    lost_after: AtomicUsize,
}

impl Device {
    fn pass(&self, pixels: usize) -> Result<(), InferenceError> {
        let passes = self.passes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.lost_after.load(Ordering::SeqCst) == passes {
            self.lost.store(true, Ordering::SeqCst);
        }
        let largest = self.largest.load(Ordering::SeqCst);
        if self.lost.load(Ordering::SeqCst) {
            return Err(InferenceError::Failed("device lost".to_owned()));
        }
        if self.full.load(Ordering::SeqCst) || largest > 0 && pixels > largest {
            return Err(InferenceError::OutOfMemory("out of memory".to_owned()));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct OnDevice<N: ?Sized> {
    device: Arc<Device>,
    network: Arc<N>,
}

impl Segmenter for OnDevice<dyn Segmenter> {
    fn tile_size(&self) -> usize {
        self.network.tile_size()
    }

    fn line_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
        self.device.pass(0)?;
        self.network.line_probabilities(tiles)
    }
}

impl Recognizer for OnDevice<dyn Recognizer> {
    fn logits(&self, lines: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
        self.device.pass(lines.values.len())?;
        self.network.logits(lines)
    }
}

fn reference(bundle: &Bundle) -> ModelRef {
    ModelRef {
        name: bundle.name().to_owned(),
        digest: Digest::of(bundle.name().as_bytes()),
    }
}

fn models(device: &Arc<Device>) -> ModelSet {
    let processor = ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).unwrap();
    let (segmenter, recogniser) = (shipped::line_segmenter().unwrap(), shipped::recogniser().unwrap());
    let description = recogniser.recognition().unwrap();
    let head = description.preferred_head().unwrap();
    ModelSet {
        segmenter: Some(LineSegmenter {
            network: Arc::new(OnDevice {
                device: device.clone(),
                network: load_segmenter(&segmenter, &processor).unwrap(),
            }),
            threshold: segmenter.segmentation().unwrap().threshold,
            layout_threshold: segmenter.segmentation().unwrap().layout_threshold,
            model: reference(&segmenter),
        }),
        print: None,
        layout: None,
        tokenizer: None,
        embeddings: None,
        recognisers: vec![Recogniser {
            network: Arc::new(OnDevice {
                device: device.clone(),
                network: load_recognizer(&recogniser, &processor, head).unwrap(),
            }),
            charset: Arc::new(recogniser.charset(head).unwrap()),
            language: None,
            preprocessing: description.preprocessing,
            head: head.to_owned(),
            model: reference(&recogniser),
        }],
        engines: Vec::new(),
        device: "cpu".to_owned(),
    }
}

/// One process that reads the sample volume.
struct Press {
    folder: tempfile::TempDir,
    device: Arc<Device>,
    artifacts: Arc<dyn ArtifactStore>,
    sandbox: Sandbox,
    node: NodeSupervisor,
}

impl Press {
    async fn start(prepare: impl FnOnce(&Device, &Path)) -> Self {
        Self::start_with(prepare, 0).await
    }

    /// As [`Press::start`], of so many pages; 0 is all.
    async fn start_with(prepare: impl FnOnce(&Device, &Path), pages: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = Arc::new(Device::default());
        prepare(&device, folder.path());
        let scans = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/sample");
        let volumes = discover_volumes(&[scans], None, None).unwrap();
        let artifacts = LocalStore::open(&folder.path().join("artifacts")).await.unwrap();
        let artifacts: Arc<dyn ArtifactStore> = Arc::new(artifacts);
        let services = StageServices {
            stages: StageTable::built_in(),
            pages: Arc::new(FolderSource::new(volumes.clone())),
            artifacts: artifacts.clone(),
            cpu: CpuPool::new(2, "cpu").unwrap(),
            models: models(&device),
            workers: 2,
            manifests: Some(ManifestFolder::new(folder.path().join("state/manifests"))),
        };
        let new = NewJob {
            pipeline: ocr_pipeline(),
            config: JobConfig {
                retries: 0,
                retry_backoff_s: 0.01,
                checkpoint_pages: 1,
                limit: pages,
                ..JobConfig::default()
            },
            volumes: volumes.iter().map(|volume| volume.volume.clone()).collect(),
            ..new_job(&["ocr"], 0)
        };
        let sandbox = Sandbox::builder().job(new).start().await;
        let plan = NodePlan::of(
            StageRegistry::restricted(&services, |stage| ocr_pipeline().stages().contains(stage)).unwrap(),
        );
        let node = sandbox.node(plan.heartbeat(Duration::from_millis(200))).await;
        Self {
            folder,
            device,
            artifacts,
            sandbox,
            node,
        }
    }

    async fn task(&self) -> Task {
        self.sandbox.tasks().await.remove(0)
    }

    async fn ends(&self, status: JobStatus) -> Task {
        self.sandbox.ends(status).await.remove(0)
    }

    /// The node has found out that something is out of order.
    async fn is_out_of_order(&self) -> String {
        let mut states = self.node.out_of_order();
        let states = states.wait_for(|stages| !stages.is_empty()).await.unwrap();
        states.values().next().unwrap().reason.clone()
    }

    /// The node has named its device.
    async fn names_its_device(&self) {
        let mut states = self.node.out_of_order();
        let names_it =
            |stages: &StagesOutOfOrder| stages.values().any(|state| state.reason.starts_with("cpu: "));
        states.wait_for(names_it).await.unwrap();
    }

    /// Pages that failed, by the message.
    async fn failed_pages(&self) -> BTreeMap<String, String> {
        let task = self.task().await;
        let layout = ArtifactLayout::new(LayoutName::BdrcV2, &self.sandbox.job().key).volume(&task.volume);
        let mut failed = BTreeMap::new();
        for stage in self.sandbox.job().pipeline.stages() {
            if let Ok(table) = read_table::<ErrorRow>(&*self.artifacts, &layout.errors(stage)).await {
                failed.extend(table.rows.into_iter().map(|row| (row.image_name, row.message)));
            }
        }
        failed
    }

    /// Every artifact with its content.
    fn written(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut folders = vec![self.folder.path().join("artifacts")];
        let mut written = BTreeMap::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    // What is being written has names of its own.
                    folders.extend((!path.ends_with(".staging")).then_some(path));
                } else {
                    let name = path.strip_prefix(self.folder.path()).unwrap().to_owned();
                    written.insert(name, std::fs::read(path).unwrap());
                }
            }
        }
        written
    }

    async fn stop(self) {
        self.sandbox.stop().await;
    }
}

fn is_uncharged(task: &Task) {
    assert_eq!((task.attempts, task.interruptions), (0, 0), "{task:?}");
    assert_ne!(task.status, TaskStatus::Failed, "{task:?}");
    assert_ne!(task.status, TaskStatus::Done, "{task:?}");
}

#[track_caller]
fn same_files(written: &BTreeMap<PathBuf, Vec<u8>>, expected: &BTreeMap<PathBuf, Vec<u8>>) {
    let names = written.keys().chain(expected.keys());
    let differ: BTreeSet<&PathBuf> = names
        .filter(|name| written.get(*name) != expected.get(*name))
        .collect();
    assert_eq!(differ, BTreeSet::new());
}

async fn undisturbed() -> BTreeMap<PathBuf, Vec<u8>> {
    let press = Press::start(|_, _| {}).await;
    press.ends(JobStatus::Completed).await;
    assert_eq!(press.failed_pages().await, BTreeMap::new());
    let written = press.written();
    press.stop().await;
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_is_lost_or_full_loses_no_page() {
    let expected = undisturbed().await;
    for is_full in [false, true] {
        let press = Press::start(|device, _| {
            let fault = if is_full { &device.full } else { &device.lost };
            fault.store(true, Ordering::SeqCst);
        })
        .await;
        let reason = press.is_out_of_order().await;
        assert!(
            reason.contains(if is_full { "out of memory" } else { "device lost" }),
            "{reason}"
        );
        press.names_its_device().await;
        is_uncharged(&press.task().await);
        press.device.lost.store(false, Ordering::SeqCst);
        press.device.full.store(false, Ordering::SeqCst);
        press.ends(JobStatus::Completed).await;
        assert_eq!(press.failed_pages().await, BTreeMap::new());
        same_files(&press.written(), &expected);
        press.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_is_lost_in_the_middle_of_a_volume_goes_on_there() {
    let expected = undisturbed().await;
    // Soon, and later.
    for pass in [3, 9] {
        let press = Press::start(|device, _| device.lost_after.store(pass, Ordering::SeqCst)).await;
        press.is_out_of_order().await;
        is_uncharged(&press.task().await);
        press.device.lost.store(false, Ordering::SeqCst);
        press.ends(JobStatus::Completed).await;
        assert_eq!(press.failed_pages().await, BTreeMap::new());
        same_files(&press.written(), &expected);
        press.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_does_not_fit_fails_its_page_and_no_other() {
    let press = Press::start(|device, _| device.largest.store(WIDE, Ordering::SeqCst)).await;
    press.ends(JobStatus::Completed).await;
    let failed = press.failed_pages().await;
    assert!((1..6).contains(&failed.len()), "{failed:?}");
    for message in failed.values() {
        assert!(message.contains("device out of memory"), "{message}");
    }
    press.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_of_which_no_page_could_be_read_is_not_done() {
    let press = Press::start_with(|device, _| device.largest.store(WIDE, Ordering::SeqCst), 1).await;
    let task = press.ends(JobStatus::Failed).await;
    assert_eq!((task.status, task.attempts), (TaskStatus::Failed, 3));
    let error = task.last_error.unwrap();
    assert_eq!(error.category, ErrorCategory::Runtime);
    assert!(
        error
            .message
            .starts_with("all 1 pages failed, the first with: device out of memory"),
        "{error}"
    );
    press.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_folder_that_cannot_be_written_is_waited_for() {
    let expected = undisturbed().await;
    let press = Press::start(|_, folder| std::fs::write(folder.join("state"), "a file").unwrap()).await;
    let reason = press.is_out_of_order().await;
    assert!(reason.contains("state/manifests"), "{reason}");
    is_uncharged(&press.task().await);
    std::fs::remove_file(press.folder.path().join("state")).unwrap();
    press.ends(JobStatus::Completed).await;
    assert_eq!(press.failed_pages().await, BTreeMap::new());
    same_files(&press.written(), &expected);
    press.stop().await;
}
