//! What becomes of volumes on a node whose device hangs or fails. Time is paused: it passes when nobody has anything to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use parkhang_actors::orchestrator::{JobEnd, OrchestratorConfig, OrchestratorHandle};
use parkhang_actors::stage::{StageContext, StageInfo, StageLogic};
use parkhang_actors::supervisor::NodeSupervisor;
use parkhang_core::domain::{
    ErrorCategory, Hardware, Job, JobStatus, OrderOutcome, PageOutcome, StageError, StageName, StageReport,
    StageVerdict, Task, TaskStatus, Unfit, VolumeId,
};
use parkhang_state::{MemoryStore, StateStore};
use tokio::sync::watch;

use crate::cluster::two_volumes;
use crate::supervision::{HEALTH, start};

/// What the device of a node does.
#[derive(Debug, Clone, PartialEq)]
enum Device {
    Works,
    /// Nothing that it is asked comes back.
    Hangs,
    /// It answers what it is known to answer, and hangs under work.
    HangsUnderWork,
    Fails,
    /// The device works; the node has no room for what it writes down.
    DiskFull,
    /// It hangs under the work of this volume until it is renewed.
    HangsUnder(VolumeId),
}

#[derive(Debug)]
struct OnDevice {
    device: watch::Sender<Device>,
    renewals: AtomicUsize,
    checks: AtomicUsize,
}

impl OnDevice {
    fn new(device: Device) -> Arc<Self> {
        Arc::new(Self {
            device: watch::Sender::new(device),
            renewals: AtomicUsize::new(0),
            checks: AtomicUsize::new(0),
        })
    }

    fn device(&self) -> Device {
        self.device.borrow().clone()
    }

    fn renewals(&self) -> usize {
        self.renewals.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl StageInfo for OnDevice {
    fn name(&self) -> StageName {
        StageName::new("on_device").unwrap()
    }

    fn hardware(&self) -> Hardware {
        Hardware::Gpu
    }

    fn renew(&self) -> std::io::Result<()> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn check(&self) -> Result<(), Unfit> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        match self.device() {
            Device::Hangs => std::future::pending().await,
            Device::Fails => Err(Unfit::Device("lost".to_owned())),
            Device::DiskFull => Err(Unfit::Disk("no space left".to_owned())),
            Device::Works | Device::HangsUnderWork | Device::HangsUnder(_) => Ok(()),
        }
    }
}

#[async_trait]
impl StageLogic for OnDevice {
    fn info(&self) -> &dyn StageInfo {
        self
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        context.progress.started(3);
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            match self.device() {
                Device::Hangs | Device::HangsUnderWork => std::future::pending().await,
                Device::HangsUnder(volume) if volume == context.assignment.volume => {
                    std::future::pending().await
                }
                Device::Fails | Device::DiskFull => {
                    let error = StageError::new("on_device", ErrorCategory::Node, "it does not work");
                    return StageVerdict::Failed(error);
                }
                Device::Works | Device::HangsUnder(_) => {}
            }
            context.progress.page_finished(PageOutcome::Succeeded);
        }
        StageVerdict::Succeeded(StageReport::default())
    }
}

struct World {
    store: Arc<MemoryStore>,
    orchestrator: OrchestratorHandle,
    job: Job,
}

impl World {
    async fn with_volumes(volumes: usize) -> Self {
        let store = Arc::new(MemoryStore::new());
        let stage = OnDevice::new(Device::Works);
        let mut job = two_volumes(&[stage as Arc<dyn StageLogic>]);
        job.volumes = (1..=volumes)
            .map(|volume| format!("W1-I{volume}").parse().unwrap())
            .collect();
        let job = store.create_job(&job, Utc::now()).await.unwrap();
        let orchestrator = OrchestratorHandle::start(OrchestratorConfig::new(store.clone()))
            .await
            .unwrap();
        Self {
            store,
            orchestrator,
            job,
        }
    }

    async fn node(&self, name: &str, stage: &Arc<OnDevice>, slots: usize) -> NodeSupervisor {
        start(name, stage.clone(), slots, &self.orchestrator).await
    }

    async fn tasks(&self) -> Vec<Task> {
        self.store.tasks(self.job.id).await.unwrap()
    }

    async fn ends(&self, status: JobStatus) {
        let end = self.orchestrator.job_end(self.job.id).await.unwrap();
        assert_eq!(end, JobEnd::Settled(status));
    }

    /// Nothing is held against any volume.
    async fn is_blameless(&self) {
        for task in self.tasks().await {
            assert_eq!((task.attempts, task.interruptions), (0, 0), "{task:?}");
            assert_ne!(task.status, TaskStatus::Failed, "{task:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_device_is_no_volumes_fault_and_ends_its_node() {
    for device in [Device::Hangs, Device::HangsUnderWork] {
        let world = World::with_volumes(4).await;
        // A service manager starts the node again and again.
        for process in 0..5 {
            let stage = OnDevice::new(device.clone());
            let node = world.node(&format!("sick{process}"), &stage, 2).await;
            node.ended().await;
            let most = (HEALTH.faults.stalls + HEALTH.faults.silences) as usize;
            assert!(
                (1..=most).contains(&stage.renewals()),
                "{device:?}: {}",
                stage.renewals()
            );
            world.is_blameless().await;
        }
        let healthy = world.node("healthy", &OnDevice::new(Device::Works), 2).await;
        world.ends(JobStatus::Completed).await;
        healthy.stop().await;
    }
}

/// Rows: F17, F32, 250.
#[tokio::test(start_paused = true)]
async fn a_volume_that_hangs_devices_is_set_aside_and_no_other() {
    let world = World::with_volumes(6).await;
    let poison: VolumeId = "W1-I3".parse().unwrap();
    let stage = OnDevice::new(Device::HangsUnder(poison.clone()));
    let node = world.node("test", &stage, 2).await;
    world.ends(JobStatus::Failed).await;
    for task in world.tasks().await {
        assert_eq!(task.attempts, 0);
        if task.volume == poison {
            let error = task.last_error.unwrap();
            assert_eq!(error.category, ErrorCategory::Poison);
            assert!(error.message.contains("the last time alone"), "{error}");
            assert!(error.message.contains("no page finished for 10 s"), "{error}");
        } else {
            assert_eq!(task.status, TaskStatus::Done);
        }
    }
    node.drain().await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_device_that_fails_ends_no_volume_and_is_taken_out_of_service() {
    let world = World::with_volumes(4).await;
    let stage = OnDevice::new(Device::Fails);
    let sick = world.node("sick", &stage, 2).await;
    let (name, state) = sick.out_of_service().await;
    assert_eq!((name.as_str(), state.reason.as_str()), ("on_device", "lost"));
    assert_eq!(stage.renewals(), HEALTH.faults.renewals as usize);
    world.is_blameless().await;

    // An operator has it looked at, in vain and then not.
    let restarted = sick.restart("on_device").await;
    assert!(matches!(restarted, OrderOutcome::Done { .. }), "{restarted:?}");
    let mut states = sick.out_of_order();
    states
        .wait_for(|stages| stages.values().any(|stage| !stage.out_of_service))
        .await
        .unwrap();
    sick.out_of_service().await;
    stage.device.send_replace(Device::Works);
    sick.restart("on_device").await;
    world.ends(JobStatus::Completed).await;
    assert!(sick.out_of_order().borrow().is_empty());
    sick.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_device_that_fails_for_a_while_is_used_again() {
    let world = World::with_volumes(4).await;
    let stage = OnDevice::new(Device::Fails);
    let node = world.node("sick", &stage, 2).await;
    let mut states = node.out_of_order();
    states.wait_for(|stages| !stages.is_empty()).await.unwrap();
    stage.device.send_replace(Device::Works);
    world.ends(JobStatus::Completed).await;
    assert!(node.out_of_order().borrow().is_empty());
    for task in world.tasks().await {
        assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0));
    }
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_waited_for_however_long_it_takes() {
    let world = World::with_volumes(4).await;
    let stage = OnDevice::new(Device::DiskFull);
    let node = world.node("full", &stage, 2).await;
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    let state = node.out_of_order().borrow().values().next().cloned().unwrap();
    assert_eq!(
        (state.reason.as_str(), state.out_of_service),
        ("no space left", false)
    );
    assert_eq!(stage.renewals(), 0);
    world.is_blameless().await;
    stage.device.send_replace(Device::Works);
    world.ends(JobStatus::Completed).await;
    node.stop().await;
}
