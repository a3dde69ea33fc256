//! All roles on one machine with one command. The orchestrator and the roles that work are two processes of this same program,
//! as they are on a cluster of many machines: a stage that takes its process down leaves the orchestrator standing, and the
//! other way round. This process starts both, starts again what fell over, and passes on the command to stop.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use parkhang_actors::cluster::NodeName;
use parkhang_actors::launcher::{Process, start_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::readiness::ReadinessReporter;
use super::stop::ShutdownSignals;
use crate::config::{ConfigArgs, Loaded, Role, beside};
use crate::launcher::GRACE;

/// Restarts of one part within [`RESTART_WINDOW`] after which everything stops, so that whatever watches can see it.
const MAX_RESTARTS: usize = 5;
const RESTART_WINDOW: Duration = Duration::from_secs(60);
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// What one part of the process says.
enum Word {
    /// What follows the name in its READY line.
    Ready(String),
    Ended(std::io::Result<std::process::ExitStatus>),
}

/// A child process and how to start it again.
struct Part {
    name: &'static str,
    arguments: Vec<String>,
    config_file: Option<std::path::PathBuf>,
    process: Option<Process>,
    restarts: VecDeque<Instant>,
}

pub async fn run(
    loaded: &Loaded,
    config: &ConfigArgs,
    node: NodeName,
    ready_fd: Option<RawFd>,
) -> Result<ExitCode> {
    let mut stop = ShutdownSignals::listen()?;
    let mut readiness = ReadinessReporter::unwatched(node, ready_fd);
    let (said, mut words) = mpsc::unbounded_channel();
    let others: Vec<&str> = loaded
        .config
        .node
        .roles
        .iter()
        .filter(|role| **role != Role::Orchestrator)
        .map(|role| role.as_str())
        .collect();
    let health = loaded.config.health.listen.map(|address| {
        let next = beside(address).context("health.listen has no port after it")?;
        Ok::<_, anyhow::Error>(format!("health.listen={next}"))
    });
    let health = health.transpose()?;
    let drain = loaded.config.node.drain_deadline;
    let mut parts = [
        Part::new("orchestrator", "orchestrator", None, config),
        Part::new("work", &others.join(","), health, config),
    ];
    let mut ready: [Option<String>; 2] = [None, None];
    // The orchestrator alone at first: pools that dial before it listens would only wait for their next try.
    parts[0].start(0, &said)?;
    loop {
        let (index, word): (usize, Word) = tokio::select! {
            () = stop.next() => break,
            word = words.recv() => word.context("both parts are silent")?,
        };
        match word {
            Word::Ready(details) => {
                let all_were = ready.iter().all(Option::is_some);
                ready[index] = Some(details);
                // Only with the first READY of the orchestrator; a restarted one must not start a second
                // working part.
                if parts[1].process.is_none() && ready[1].is_none() {
                    parts[1].start(1, &said)?;
                // Ready once, when both have been; restarts of a part are in the log and not in the READY
                // line.
                } else if let ([Some(leads), Some(_)], false) = (&ready, all_were) {
                    readiness.ready(&leads.replacen("orchestrator", &super::roles(loaded), 1))?;
                }
            }
            Word::Ended(status) => {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                warn!(part = parts[index].name, status, "a part of this node ended");
                // The other part is stopped too, so that a service manager sees the failure and starts both
                // anew.
                if let Err(error) = parts[index].start_again(index, &said).await {
                    error!(%error, "giving up");
                    stop_all(&mut parts, &mut words, &mut stop, drain).await;
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
    }
    info!("stopping");
    readiness.stopping();
    match stop_all(&mut parts, &mut words, &mut stop, drain).await {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

/// Those that work first: they hand their work back to the orchestrator. Says whether both ended in order; one that does not
/// end in time is killed.
async fn stop_all(
    parts: &mut [Part; 2],
    words: &mut mpsc::UnboundedReceiver<(usize, Word)>,
    stop: &mut ShutdownSignals,
    drain: Duration,
) -> bool {
    let mut in_order = true;
    // The working part may drain for as long as its configuration says; the grace is for what comes after.
    for (index, timeout) in [(1, drain + GRACE), (0, GRACE)] {
        parts[index].signal(Signal::SIGTERM);
        let deadline = tokio::time::sleep(timeout);
        tokio::pin!(deadline);
        let mut killed = false;
        while parts[index].process.is_some() {
            tokio::select! {
                // A second signal, passed on as it came to this process.
                () = stop.next() => parts[index].signal(Signal::SIGTERM),
                // Killed once; the loop then waits for the end of the process.
                () = &mut deadline, if !killed => {
                    error!(part = parts[index].name, ?timeout, "a part of this node does not stop and is killed");
                    parts[index].signal(Signal::SIGKILL);
                    killed = true;
                }
                word = words.recv() => match word {
                    Some((ended, Word::Ended(status))) => {
                        parts[ended].process = None;
                        in_order &= status.is_ok_and(|status| status.success());
                    }
                    Some((_, Word::Ready(_))) => {}
                    None => return false,
                }
            }
        }
    }
    in_order
}

impl Part {
    fn new(name: &'static str, roles: &str, setting: Option<String>, config: &ConfigArgs) -> Self {
        let shortcuts = config.shortcuts().into_iter();
        let shortcuts = shortcuts.map(|shortcut| format!("{}={}", shortcut.key, shortcut.value));
        // Flags of their own win over --set.
        let settings = config.set.iter().cloned().chain(shortcuts).chain(setting);
        let mut arguments = vec!["--with-parent".to_owned(), std::process::id().to_string()];
        // A part that left would be started again.
        let own = [format!("node.roles={roles}"), "node.idle_exit=0s".to_owned()];
        // These come last and so win over what the user has set for the roles of the whole node.
        for setting in settings.chain(own) {
            arguments.extend(["--set".to_owned(), setting]);
        }
        if let Some(profile) = &config.config_profile {
            arguments.extend(["--config-profile".to_owned(), profile.clone()]);
        }
        Self {
            name,
            arguments,
            config_file: config.config_file.clone(),
            process: None,
            restarts: VecDeque::new(),
        }
    }

    fn start(&mut self, index: usize, said: &mpsc::UnboundedSender<(usize, Word)>) -> Result<()> {
        let program = std::env::current_exe().context("where this program is")?;
        let mut command = Command::new(program);
        command.args(&self.arguments).stdout(Stdio::piped());
        if let Some(file) = &self.config_file {
            command.arg("--config-file").arg(file);
        }
        // A group of its own: the parts are told to stop one after the other.
        let (process, child) = start_process(command).context("starting a part of this node")?;
        self.process = Some(process);
        tokio::spawn(attend(index, child, said.clone()));
        Ok(())
    }

    async fn start_again(&mut self, index: usize, said: &mpsc::UnboundedSender<(usize, Word)>) -> Result<()> {
        self.process = None;
        let now = Instant::now();
        self.restarts.retain(|then| now - *then <= RESTART_WINDOW);
        if self.restarts.len() >= MAX_RESTARTS {
            bail!(
                "{} fell over {MAX_RESTARTS} times in {RESTART_WINDOW:?}",
                self.name
            );
        }
        self.restarts.push_back(now);
        tokio::time::sleep(RESTART_PAUSE).await;
        self.start(index, said)
    }

    fn signal(&self, command: Signal) {
        if let Some(process) = &self.process
            && let Err(error) = process.signal(command)
        {
            warn!(part = self.name, %command, %error, "a part of this node cannot be told");
        }
    }
}

/// Hears what a child says until it ends.
async fn attend(index: usize, mut child: Child, said: mpsc::UnboundedSender<(usize, Word)>) {
    if let Some(output) = child.stdout.take() {
        let mut lines = BufReader::new(output).lines();
        // Read to the end even after READY: a full pipe would block the child.
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some((_, details)) = line.strip_prefix("READY ").and_then(|line| line.split_once(' ')) {
                // Fails only when this process is ending.
                let _ = said.send((index, Word::Ready(details.to_owned())));
            }
        }
    }
    // After the output has ended, so that a READY line is never handled behind the end of its process.
    let _ = said.send((index, Word::Ended(child.wait().await)));
}
