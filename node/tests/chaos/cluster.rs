use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use parkhang_core::domain::{Job, JobKey, Task, TaskId, VolumeResults};
use parkhang_state::{EmbeddedPostgres, PostgresStore, StateStore};
use parkhang_test_support::Wait;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::journal::Journal;
use crate::library::Library;
use crate::link::{Link, Upstream};
use crate::recorded::Recorded;
use crate::service::SECRET;
use crate::site::Site;
use crate::support::finish;

/// Longest time until a cluster notices a fault, and what it does about it.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Between two looks at what the processes say and what the database holds: a lease that is about to be lost is soon gone.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// What a cluster is made of, beside its two orchestrators.
pub(crate) struct Plan {
    pub(crate) library: Library,
    /// Name and roles of each node.
    pub(crate) workers: Vec<(&'static str, &'static str)>,
    pub(crate) settings: Vec<(&'static str, &'static str)>,
    /// Value of FAILPOINTS for the first process of each node.
    pub(crate) failpoints: String,
    /// Its value for a process of a node that comes after one that died.
    pub(crate) failpoints_of_successors: String,
    /// Its value for the orchestrator that leads first.
    pub(crate) failpoints_of_leader: String,
    /// True if no other cluster may run beside it.
    alone: bool,
}

impl Plan {
    /// Two gpu nodes and two cpu nodes.
    pub(crate) fn full(library: Library) -> Self {
        Self {
            library,
            workers: vec![
                ("gpu-a", "gpu"),
                ("gpu-b", "gpu"),
                ("cpu-a", "cpu"),
                ("cpu-b", "cpu"),
            ],
            settings: Vec::new(),
            failpoints: String::new(),
            failpoints_of_successors: String::new(),
            failpoints_of_leader: String::new(),
            alone: false,
        }
    }

    /// One node that does everything.
    pub(crate) fn small(library: Library) -> Self {
        Self {
            workers: vec![("both", "cpu,gpu")],
            ..Self::full(library)
        }
    }

    fn site(&self) -> Site {
        let mut site = Site::new();
        let scans = self.library.scans();
        let settings = [
            ("pages.folder", scans.to_str().unwrap()),
            ("job.checkpoint_pages", "1"),
            ("cluster.heartbeat", "1s"),
            ("cluster.lease", "20s"),
            ("cluster.redial_max", "1s"),
        ];
        let settings = settings.iter().chain(&self.settings);
        site.settings = settings.map(|(key, value)| (*key, (*value).to_owned())).collect();
        site.variables = vec![
            ("PARKHANG_LOG", "info,ractor_cluster=warn".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("WEBHOOK_SECRET", SECRET.to_owned()),
        ];
        site
    }

    /// The same for a test that measures seconds.
    pub(crate) fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    pub(crate) fn with(mut self, settings: &[(&'static str, &'static str)]) -> Self {
        self.settings.extend_from_slice(settings);
        self
    }
}

/// An orchestrator's place: its process may die and another one take the place.
pub(crate) struct Orchestrator {
    name: String,
    listens: watch::Sender<Option<SocketAddr>>,
    pub(crate) database: Link,
    pub(crate) process: Option<Recorded>,
}

/// As [`Orchestrator`], for a node that works.
pub(crate) struct Worker {
    name: &'static str,
    roles: &'static str,
    /// To each of the orchestrators.
    pub(crate) links: Vec<Link>,
    pub(crate) process: Option<Recorded>,
}

/// A running cluster, its database and its folders; gone with the test.
pub(crate) struct Cluster {
    pub(crate) journal: Journal,
    pub(crate) store: PostgresStore,
    pub(crate) orchestrators: Vec<Orchestrator>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) plan: Plan,
    pub(crate) jobs: Vec<Job>,
    server: Option<EmbeddedPostgres>,
    site: Site,
    /// Program of another build with which processes are started from now on.
    pub(crate) program: Option<PathBuf>,
    _turn: SemaphorePermit<'static>,
}

/// Clusters at once: most of their time is spent in waiting for leases to end.
const AT_ONCE: u32 = 3;
static TURNS: Semaphore = Semaphore::const_new(AT_ONCE as usize);

impl Cluster {
    /// Database, folders and certificates; no process yet.
    pub(crate) async fn prepare(plan: Plan) -> Self {
        let turns = if plan.alone { AT_ONCE } else { 1 };
        let turn = TURNS.acquire_many(turns).await.unwrap();
        plan.library.shelve();
        let site = plan.site();
        let server = open_postgres(site.path("pg")).await;
        let options = server.create_database("parkhang").await.unwrap();
        let socket = server.folder().join("sockets/.s.PGSQL.5432");
        let mut orchestrators = Vec::new();
        for name in ["orchestrator-a", "orchestrator-b"] {
            orchestrators.push(Orchestrator {
                name: name.to_owned(),
                listens: watch::Sender::new(None),
                database: Link::to(Upstream::Socket(socket.clone())).await,
                process: None,
            });
        }
        let mut workers = Vec::new();
        for &(name, roles) in &plan.workers {
            let mut links = Vec::new();
            for orchestrator in &orchestrators {
                let upstream = Upstream::Process(orchestrator.listens.subscribe());
                links.push(Link::to(upstream).await);
            }
            workers.push(Worker {
                name,
                roles,
                links,
                process: None,
            });
        }
        Self {
            journal: Journal::new(),
            store: PostgresStore::connect_with(options).await.unwrap(),
            orchestrators,
            workers,
            plan,
            jobs: Vec::new(),
            server: Some(server),
            site,
            program: None,
            _turn: turn,
        }
    }

    /// With all processes: the first orchestrator leads.
    pub(crate) async fn start(plan: Plan) -> Self {
        let mut cluster = Self::prepare(plan).await;
        cluster.start_all().await;
        cluster
    }

    pub(crate) async fn start_all(&mut self) {
        let failpoints = self.plan.failpoints_of_leader.clone();
        self.start_orchestrator(0, &failpoints).await;
        let leads = "this process leads";
        self.until("the first orchestrator leads", async |cluster| {
            cluster.journal.find_of("orchestrator-a", 0, leads).is_some()
        })
        .await;
        self.start_orchestrator(1, "").await;
        for worker in 0..self.workers.len() {
            let failpoints = self.plan.failpoints.clone();
            self.start_worker(worker, &failpoints).await;
        }
    }

    pub(crate) fn artifacts(&self) -> PathBuf {
        self.site.path("artifacts")
    }

    pub(crate) fn postgres_folder(&self) -> PathBuf {
        self.site.path("pg")
    }

    /// Joins the server anew, and starts it if it is not running.
    pub(crate) async fn reopen_postgres(&mut self) {
        self.server = Some(open_postgres(self.postgres_folder()).await);
    }

    /// A command with the database behind this address, of the build that is in use.
    fn with_database(&self, command: Command, database: SocketAddr) -> Command {
        let mut command = match &self.program {
            Some(program) => of_program(program, &command),
            None => command,
        };
        command.env("DATABASE_URL", url_of(database));
        command
    }

    /// URL of the database, as the first orchestrator knows it.
    pub(crate) fn database_url(&self) -> String {
        url_of(self.orchestrators[0].database.address())
    }

    /// `failpoints` is what FAILPOINTS is set to.
    pub(crate) async fn start_orchestrator(&mut self, place: usize, failpoints: &str) {
        let orchestrator = &self.orchestrators[place];
        let command = self
            .site
            .node(&orchestrator.name, "orchestrator", &["127.0.0.1:1"]);
        let mut command = self.with_database(command, orchestrator.database.address());
        command.env("FAILPOINTS", failpoints);
        let process = match failpoints {
            "" => Recorded::start(&orchestrator.name, command, &self.journal).await,
            _ => Recorded::start_armed(&orchestrator.name, command, &self.journal).await,
        };
        let orchestrator = &mut self.orchestrators[place];
        if process.is_ready() {
            orchestrator.listens.send_replace(Some(process.listens()));
        }
        orchestrator.process = Some(process);
    }

    pub(crate) async fn start_worker(&mut self, place: usize, failpoints: &str) {
        let worker = &self.workers[place];
        let links: Vec<String> = worker
            .links
            .iter()
            .map(|link| link.address().to_string())
            .collect();
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        let command = self.site.node(worker.name, worker.roles, &links);
        // One that is assigned its work makes no use of it.
        let database = self.orchestrators[0].database.address();
        let mut command = self.with_database(command, database);
        command.env("FAILPOINTS", failpoints);
        let process = Recorded::start(worker.name, command, &self.journal).await;
        self.workers[place].process = Some(process);
    }

    /// A command of an operator.
    pub(crate) fn command<const N: usize>(&self, words: [&str; N]) -> Command {
        self.with_database(self.site.command(words), self.orchestrators[0].database.address())
    }

    /// Makes a job over all volumes, as an operator does.
    pub(crate) async fn create_job(&mut self, name: &str) {
        let command = self.command(["job", "create", name, "--pipeline", self.plan.library.pipeline]);
        // The links are tasks of this thread's runtime.
        let finished = tokio::task::spawn_blocking(move || finish(command))
            .await
            .unwrap();
        finished.exits(0);
        let job = self.store.job(&JobKey::new(name).unwrap()).await.unwrap();
        self.jobs.push(job.unwrap());
    }

    pub(crate) fn orchestrator(&self, place: usize) -> &Recorded {
        self.orchestrators[place].process.as_ref().unwrap()
    }

    pub(crate) fn worker(&self, place: usize) -> &Recorded {
        self.workers[place].process.as_ref().unwrap()
    }

    pub(crate) fn kill_orchestrator(&mut self, place: usize) {
        self.orchestrators[place].process.take().unwrap().kill();
    }

    pub(crate) fn kill_worker(&mut self, place: usize) {
        self.workers[place].process.take().unwrap().kill();
    }

    /// All tasks, or none while the database is away.
    pub(crate) async fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for job in &self.jobs {
            match self.store.tasks(job.id).await {
                Ok(of_job) => tasks.extend(of_job),
                Err(_) => return Vec::new(),
            }
        }
        tasks
    }

    /// A task that a node holds the lease of.
    pub(crate) async fn task_at(&self, worker: usize) -> Option<Task> {
        let node = self.worker(worker).node();
        let mut tasks = self.tasks().await.into_iter();
        tasks.find(|task| has_lease(node, task))
    }

    pub(crate) async fn results(&self, task: TaskId) -> VolumeResults {
        self.store.volume_results(task).await.unwrap().unwrap()
    }

    /// Waits until a node has work, and sees to it that there is some.
    pub(crate) async fn until_busy(&mut self, worker: usize) {
        let what = format!("{} works", self.workers[worker].name);
        let wait = Wait::until(&what).at_most(TIMEOUT).looking_every(LOOK);
        let look = async || {
            self.keep_busy().await;
            self.task_at(worker).await.is_some()
        };
        if let Err(error) = wait.try_sees(look, |is_busy| *is_busy).await {
            self.fail(&error.to_string()).await;
        }
    }

    /// Waits for a line of any process from `start` on.
    pub(crate) async fn until_said(&self, start: usize, part: &str) {
        self.until(part, async |cluster| cluster.journal.find(start, part).is_some())
            .await;
    }

    pub(crate) async fn until(&self, what: &str, condition: impl AsyncFn(&Self) -> bool) {
        self.until_after(Duration::ZERO, what, condition).await;
    }

    /// Waits for what may take as long as usual after so much time.
    pub(crate) async fn until_after(
        &self,
        time: Duration,
        what: &str,
        condition: impl AsyncFn(&Self) -> bool,
    ) {
        let wait = Wait::until(what).at_most(time + TIMEOUT).looking_every(LOOK);
        let waited = wait
            .try_sees(async || condition(self).await, |holds| *holds)
            .await;
        if let Err(error) = waited {
            self.fail(&error.to_string()).await;
        }
    }

    /// Fails the test with everything that is known.
    pub(crate) async fn fail(&self, why: &str) -> ! {
        let mut known = String::new();
        for task in self.tasks().await {
            known.push_str(&format!("{task:?}\n"));
            for run in self.store.stage_runs(task.id).await.unwrap_or_default() {
                known.push_str(&format!("    {run:?}\n"));
            }
        }
        panic!("{why}\n{known}{}", self.journal);
    }

    /// Everybody leaves in order: a node that does not get rid of its work holds a slot that leaked.
    pub(crate) async fn leave(&mut self) {
        let workers = self.workers.iter_mut().map(|worker| &mut worker.process);
        let orchestrators = self.orchestrators.iter_mut().map(|place| &mut place.process);
        for process in workers.chain(orchestrators).filter_map(Option::as_mut) {
            process.leave().await;
        }
    }
}

/// The same command of another build.
fn of_program(program: &Path, command: &Command) -> Command {
    let mut other = Command::new(program);
    other.args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => other.env(key, value),
            None => other.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        other.current_dir(folder);
    }
    other
}

fn url_of(database: SocketAddr) -> String {
    format!("postgres://postgres@{database}/parkhang?sslmode=disable")
}

async fn open_postgres(folder: PathBuf) -> EmbeddedPostgres {
    let opened = tokio::task::spawn_blocking(move || EmbeddedPostgres::open(Some(folder)));
    opened.await.unwrap().unwrap()
}

/// True if a node holds the lease of a task.
pub(crate) fn has_lease(node: &str, task: &Task) -> bool {
    let worker = task.lease.as_ref().map(|lease| lease.worker.0.as_str());
    let pool = worker.and_then(|worker| worker.strip_prefix(node));
    pool.is_some_and(|pool| pool.starts_with('/'))
}
