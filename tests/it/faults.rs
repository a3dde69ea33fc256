//! What becomes of volumes on a node whose device hangs or fails. Time is paused: it passes when nobody has anything to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parkhang_actors::supervisor::NodeSupervisor;
use parkhang_core::domain::{
    CommandOutcome, ErrorCategory, Hardware, JobStatus, PageOutcome, StageReport, StageVerdict, Task,
    TaskStatus, Unfit, VolumeId,
};
use parkhang_sandbox::{FAST_HEALTH, FakeStage, NodePlan, Run, Sandbox, Script, job_through};
use tokio::sync::watch;
use tokio::time::Instant;

/// Pages of a volume.
const PAGES: usize = 20;

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
    /// It hangs under each page of this number until it is renewed.
    HangsAtTimes(usize),
    /// It fails under each page of this number, and answers what it is known to answer.
    FailsAtTimes(usize),
    Slow,
}

async fn check(device: Device) -> Result<(), Unfit> {
    match device {
        Device::Hangs => std::future::pending().await,
        Device::Fails => Err(Unfit::Device("lost".to_owned())),
        Device::DiskFull => Err(Unfit::Disk("no space left".to_owned())),
        _ => Ok(()),
    }
}

async fn work(run: Run, device: watch::Receiver<Device>, pages: Arc<AtomicUsize>) -> StageVerdict {
    let progress = &run.context.progress;
    progress.started(PAGES);
    for _ in 0..PAGES {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let page = pages.fetch_add(1, Ordering::Relaxed) + 1;
        let device = device.borrow().clone();
        match device {
            Device::HangsAtTimes(often) if page.is_multiple_of(often) => std::future::pending().await,
            Device::FailsAtTimes(often) if page.is_multiple_of(often) => {
                return run.failed(ErrorCategory::Node, "it failed");
            }
            Device::Slow => tokio::time::sleep(Duration::from_secs(7)).await,
            Device::Hangs | Device::HangsUnderWork => std::future::pending().await,
            Device::HangsUnder(volume) if volume == run.context.assignment.volume => {
                std::future::pending().await
            }
            Device::Fails | Device::DiskFull => {
                return run.failed(ErrorCategory::Node, "it does not work");
            }
            Device::Works | Device::HangsUnder(_) | Device::HangsAtTimes(_) | Device::FailsAtTimes(_) => {}
        }
        progress.page_finished(PageOutcome::Succeeded);
    }
    StageVerdict::Succeeded(StageReport::default())
}

/// The stage `on_device`, and what its device does.
struct OnDevice {
    stage: Arc<FakeStage>,
    device: watch::Sender<Device>,
}

impl OnDevice {
    fn new(device: Device) -> Self {
        let device = watch::Sender::new(device);
        let (used, checked) = (device.subscribe(), device.subscribe());
        let pages = Arc::new(AtomicUsize::new(0));
        let script = Script::custom(move |run| work(run, used.clone(), pages.clone()));
        let stage = FakeStage::new("on_device", script)
            .on(Hardware::Gpu)
            .checked_by(move || check(checked.borrow().clone()))
            .shared();
        Self { stage, device }
    }

    fn renewals(&self) -> usize {
        self.stage.renewals()
    }
}

struct World(Sandbox);

impl World {
    async fn with_volumes(volumes: usize) -> Self {
        let job = job_through(&[OnDevice::new(Device::Works).stage], volumes);
        Self(Sandbox::builder().job(job).start().await)
    }

    async fn node(&self, name: &str, on_device: &OnDevice, slots: usize) -> NodeSupervisor {
        let plan = NodePlan::new(vec![on_device.stage.clone()]).named(name);
        self.0.node(plan.slots(slots).with_fast_health()).await
    }

    async fn tasks(&self) -> Vec<Task> {
        self.0.tasks().await
    }

    async fn ends(&self, status: JobStatus) {
        self.0.ends(status).await;
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
            let most = (FAST_HEALTH.faults.stalls + FAST_HEALTH.faults.silences) as usize;
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
    assert_eq!(stage.renewals(), FAST_HEALTH.faults.renewals as usize);
    world.is_blameless().await;

    // An operator has it looked at, in vain and then not.
    let restarted = sick.restart("on_device").await;
    assert!(matches!(restarted, CommandOutcome::Done { .. }), "{restarted:?}");
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

/// Processes that a service manager starts on a machine with such a device, one after the other. Their names come first, so that work goes
/// there as soon as to others.
async fn starts_again_and_again(world: &World, device: &Device, runs: &AtomicUsize) {
    for process in 0.. {
        let stage = OnDevice::new(device.clone());
        let node = world.node(&format!("a{process}"), &stage, 2).await;
        let mut begun = 0;
        loop {
            begun += 1;
            tokio::select! {
                () = node.ended() => break,
                () = stage.stage.has_begun(begun) => { runs.fetch_add(1, Ordering::Relaxed); }
            }
        }
    }
}

/// Time passes, and nothing is held against any volume.
async fn stays_blameless(world: &World, device: &Device) {
    // One that hangs under work alone cannot be told from its volume where there is no other to be read. That volume goes elsewhere.
    if matches!(device, Device::HangsUnderWork | Device::HangsAtTimes(_)) {
        return std::future::pending().await;
    }
    loop {
        world.is_blameless().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// One of two nodes has a sick device: the other one does the work, and no volume pays for it.
#[tokio::test(start_paused = true)]
async fn a_sick_device_beside_a_healthy_one_is_no_volumes_fault() {
    for device in [
        Device::Hangs,
        Device::HangsUnderWork,
        Device::Fails,
        Device::DiskFull,
        Device::HangsAtTimes(4),
        Device::FailsAtTimes(4),
        Device::Slow,
    ] {
        let world = World::with_volumes(24).await;
        let (runs, began) = (AtomicUsize::new(0), Instant::now());
        let healthy = world.node("healthy", &OnDevice::new(Device::Works), 2).await;
        tokio::select! {
            () = world.ends(JobStatus::Completed) => {}
            () = starts_again_and_again(&world, &device, &runs) => {}
            () = stays_blameless(&world, &device) => {}
        }
        for task in world.tasks().await {
            assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0), "{device:?}");
        }
        assert!(runs.load(Ordering::Relaxed) > 0, "{device:?} was given nothing");
        let alone = Duration::from_secs(24 / 2 * PAGES as u64);
        assert!(began.elapsed() < 2 * alone, "{device:?}: {:?}", began.elapsed());
        healthy.stop().await;
    }
}
