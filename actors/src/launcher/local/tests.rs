use std::process::Child;

use tempfile::TempDir;

use super::*;
use crate::launcher::conformance::{self, converged};

/// Launchers of processes that do nothing; the processes end with the test.
pub(in crate::launcher) struct Machine {
    folder: TempDir,
}

impl Machine {
    pub(in crate::launcher) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn options(&self) -> LocalOptions {
        LocalOptions {
            folder: self.folder.path().to_owned(),
            limit: 8,
            timeout: Duration::from_secs(60),
            command: Arc::new(|_, _| {
                let mut command = Command::new("sleep");
                command.arg("1000");
                command
            }),
        }
    }

    pub(in crate::launcher) fn launcher(&self) -> LocalLauncher {
        LocalLauncher::new(self.options())
    }

    fn record(&self) -> PathBuf {
        self.folder.path().join("workers.json")
    }

    /// A launcher that can do nothing, until the machine is repaired.
    pub(in crate::launcher) fn with_damaged_record(&self) -> LocalLauncher {
        std::fs::write(self.record(), "{").unwrap();
        self.launcher()
    }

    pub(in crate::launcher) fn repair(&self) {
        std::fs::remove_file(self.record()).unwrap();
    }

    fn launched(&self) -> Vec<Launched> {
        ProcessLedger::open(self.folder.path()).unwrap().entries.launched
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for launched in self.launched() {
            launched.process.signal(Signal::SIGKILL).unwrap();
        }
    }
}

const NOBODY: BTreeSet<String> = BTreeSet::new();

#[tokio::test]
async fn conforms() {
    let machine = Machine::new();
    conformance::suite(&machine.launcher(), &machine.launcher()).await;
}

#[tokio::test]
async fn workers_are_named_and_what_they_print_is_kept() {
    let machine = Machine::new();
    let options = LocalOptions {
        command: Arc::new(|hardware, name| {
            let mut command = Command::new("sh");
            let script = format!("echo {name} with {}; exec sleep 1000", hardware.as_str());
            command.args(["-c", &script]);
            command
        }),
        ..machine.options()
    };
    let launcher = LocalLauncher::new(options);
    launcher.set_desired(Hardware::Gpu, 2, &NOBODY).await.unwrap();
    let names = ["launched-gpu-1", "launched-gpu-2"].map(str::to_owned);
    let workers = launcher.workers(Hardware::Gpu).await.unwrap();
    assert_eq!(workers.names, Some(BTreeSet::from(names.clone())));
    for name in names {
        let path = machine.folder.path().join(format!("{name}.log"));
        while std::fs::read_to_string(&path).unwrap() != format!("{name} with gpu\n") {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn the_idle_go_first_and_then_the_latest() {
    let machine = Machine::new();
    let launcher = machine.launcher();
    let remaining = async || {
        let workers = converged(&launcher, Hardware::Cpu).await.unwrap();
        workers.names.unwrap().into_iter().collect::<Vec<_>>()
    };
    launcher.set_desired(Hardware::Cpu, 4, &NOBODY).await.unwrap();
    let idle = BTreeSet::from(["launched-cpu-2".to_owned()]);
    launcher.set_desired(Hardware::Cpu, 3, &idle).await.unwrap();
    assert_eq!(
        remaining().await,
        ["launched-cpu-1", "launched-cpu-3", "launched-cpu-4"]
    );
    launcher.set_desired(Hardware::Cpu, 1, &idle).await.unwrap();
    assert_eq!(remaining().await, ["launched-cpu-1"]);
}

#[tokio::test]
async fn a_worker_that_ends_by_itself_is_replaced() {
    let machine = Machine::new();
    let launcher = machine.launcher();
    launcher.set_desired(Hardware::Gpu, 2, &NOBODY).await.unwrap();
    let before = machine.launched();
    before[0].process.signal(Signal::SIGKILL).unwrap();
    while before[0].process.is_alive() {
        tokio::task::yield_now().await;
    }
    let workers = launcher.workers(Hardware::Gpu).await.unwrap();
    assert_eq!((workers.desired, workers.running), (2, 1));
    launcher.tend(Hardware::Gpu).await.unwrap();
    assert!(launcher.workers(Hardware::Gpu).await.unwrap().have_converged());
    let after = machine.launched();
    assert_eq!(after[0], before[1], "the other one is left alone");
    assert_eq!(after[1].name, before[0].name);
    assert_ne!(after[1].process, before[0].process);
}

/// The record cannot be written once the worker has been started, as if the launcher had died in between.
#[tokio::test]
async fn a_worker_is_found_that_the_launcher_did_not_live_to_record() {
    let machine = Machine::new();
    let kept = machine.folder.path().join("kept.json");
    let (record, aside) = (machine.record(), kept.clone());
    let command = machine.options().command;
    let dying = LocalLauncher::new(LocalOptions {
        command: Arc::new(move |hardware, name| {
            std::fs::rename(&record, &aside).unwrap();
            std::fs::create_dir(&record).unwrap();
            command(hardware, name)
        }),
        ..machine.options()
    });
    let died = dying.set_desired(Hardware::Gpu, 1, &NOBODY).await;
    assert!(matches!(died, Err(LauncherError::Record { .. })), "{died:?}");
    std::fs::remove_dir(machine.record()).unwrap();
    std::fs::rename(&kept, machine.record()).unwrap();

    let launcher = machine.launcher();
    let workers = launcher.workers(Hardware::Gpu).await.unwrap();
    assert_eq!((workers.desired, workers.running), (1, 1));
    launcher.tend(Hardware::Gpu).await.unwrap();
    let launched = machine.launched();
    assert_eq!(launched.len(), 1, "no second one is started");
    assert!(launched[0].process.is_alive());
    launcher.set_desired(Hardware::Gpu, 0, &NOBODY).await.unwrap();
    converged(&launcher, Hardware::Gpu).await.unwrap();
    assert!(!launched[0].process.is_alive());
}

#[tokio::test]
async fn a_start_that_came_to_nothing_leaves_no_worker() {
    let machine = Machine::new();
    let mut ledger = ProcessLedger::open(machine.folder.path()).unwrap();
    ledger.entries.starting = Some(Starting {
        name: "launched-gpu-1".to_owned(),
        hardware: Hardware::Gpu,
        mark: "launched-gpu-1@0.0".to_owned(),
    });
    ledger.save().unwrap();
    drop(ledger);
    assert_eq!(
        machine.launcher().workers(Hardware::Gpu).await.unwrap().running,
        0
    );
    let ledger = ProcessLedger::open(machine.folder.path()).unwrap();
    assert_eq!(ledger.entries.starting, None);
}

#[tokio::test]
async fn a_worker_that_does_not_stop_is_killed_in_the_end() {
    let machine = Machine::new();
    let deaf = LocalOptions {
        command: Arc::new(|_, _| {
            let mut command = Command::new("sh");
            command.args(["-c", "trap '' TERM; echo deaf; exec sleep 1000"]);
            command
        }),
        ..machine.options()
    };
    let patient = LocalLauncher::new(deaf.clone());
    patient.set_desired(Hardware::Gpu, 1, &NOBODY).await.unwrap();
    let log = machine.folder.path().join("launched-gpu-1.log");
    while std::fs::read_to_string(&log).unwrap() != "deaf\n" {
        tokio::task::yield_now().await;
    }
    patient.set_desired(Hardware::Gpu, 0, &NOBODY).await.unwrap();
    patient.tend(Hardware::Gpu).await.unwrap();
    let workers = patient.workers(Hardware::Gpu).await.unwrap();
    assert_eq!((workers.running, workers.stopping), (0, 1));
    let hasty = LocalLauncher::new(LocalOptions {
        timeout: Duration::ZERO,
        ..deaf
    });
    assert_eq!(converged(&hasty, Hardware::Gpu).await.unwrap().stopping, 0);
}

#[tokio::test]
async fn a_process_that_it_did_not_start_is_never_stopped() {
    let machine = Machine::new();
    let mut stranger: Child = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut process = Process::of(stranger.id()).unwrap();
    process.started += 1;
    let mut ledger = ProcessLedger::open(machine.folder.path()).unwrap();
    ledger.entries.desired.insert(Hardware::Gpu, 1);
    ledger.entries.launched.push(Launched {
        name: "launched-gpu-1".to_owned(),
        hardware: Hardware::Gpu,
        process,
        stopping_since: None,
    });
    ledger.save().unwrap();
    drop(ledger);
    let launcher = machine.launcher();
    assert_eq!(launcher.workers(Hardware::Gpu).await.unwrap().running, 0);
    launcher.set_desired(Hardware::Gpu, 0, &NOBODY).await.unwrap();
    assert!(stranger.try_wait().unwrap().is_none(), "it runs on");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_not_overwritten() {
    let machine = Machine::new();
    let launcher = machine.with_damaged_record();
    let refused = launcher.set_desired(Hardware::Gpu, 1, &NOBODY).await;
    assert!(
        matches!(refused, Err(LauncherError::Corrupt { .. })),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_to_string(machine.record()).unwrap(), "{");
    machine.repair();
}
