//! Checks of the values of keys against each other, which must pass before a node starts. They are pure; checks that depend on
//! files are in [`on_disk`](super::on_disk).

mod intake;
mod node;
mod scaling;

use std::net::SocketAddr;
use std::time::Duration;

use parkhang_queue::limits::{MAX_VISIBILITY, MAX_WAIT};
use parkhang_store::storage::ArtifactKey;
use secrecy::ExposeSecret;

use super::secrets::{self, Secrets};
use super::sections::{ClusterConfig, PagesKind, S3, StorageKind, Tls};
use super::values::Role;

/// Smallest length of a cookie, in characters. A shorter one could be guessed.
const MIN_COOKIE: usize = 16;
/// Longest silence of a live peer: the interval of the pings of `ractor_cluster`.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Key with the fault of its value.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub key: &'static str,
    /// Keys that the value contradicts. If the value is the built-in one, the user has set one of these.
    pub because: &'static [&'static str],
    pub message: String,
}

#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn require(&mut self, holds: bool, key: &'static str, message: impl Into<String>) {
        self.require_beside(holds, key, &[], message);
    }

    /// Does as [`Findings::require`], for a condition that depends on other keys.
    fn require_beside(
        &mut self,
        holds: bool,
        key: &'static str,
        because: &'static [&'static str],
        message: impl Into<String>,
    ) {
        if !holds {
            let message = message.into();
            self.0.push(Finding {
                key,
                because,
                message,
            });
        }
    }
}

/// Returns all faults. They are collected, not stopped at the first, so that a user can fix them at once.
pub fn findings(config: &ClusterConfig, secrets: &Secrets) -> Vec<Finding> {
    let mut findings = Findings::default();
    node::node(config, &mut findings);
    addresses(config, &mut findings);
    exposure(config, secrets, &mut findings);
    durations(config, &mut findings);
    state(config, secrets, &mut findings);
    pages(config, &mut findings);
    storage(config, &mut findings);
    source(config, &mut findings);
    intake::intake(config, &mut findings);
    scaling::launcher(config, &mut findings);
    scaling::autoscaler(config, &mut findings);
    findings.0
}

fn addresses(config: &ClusterConfig, findings: &mut Findings) {
    let cluster = &config.cluster;
    if is_orchestrator(config) {
        findings.require_beside(
            !cluster.listen.ip().is_unspecified() || cluster.advertise.is_some(),
            "cluster.advertise",
            &["cluster.listen"],
            format!(
                "required, since {} cannot be dialled; set the HOST:PORT at which nodes reach this one",
                cluster.listen
            ),
        );
    } else if config.source.kind.properties().is_assigned {
        findings.require_beside(
            !cluster.orchestrators.is_empty(),
            "cluster.orchestrators",
            &["node.roles"],
            "required by a node that is not an orchestrator and takes its work from one (source.kind)",
        );
    }
    let undialable = |ip: std::net::IpAddr| ip.is_unspecified();
    findings.require(
        !cluster
            .advertise
            .as_ref()
            .and_then(|address| address.ip())
            .is_some_and(undialable),
        "cluster.advertise",
        "this address cannot be dialled",
    );
    for orchestrator in &cluster.orchestrators {
        findings.require(
            !orchestrator.ip().is_some_and(undialable),
            "cluster.orchestrators",
            format!("{orchestrator} cannot be dialled"),
        );
    }
    if let (true, Some(listen)) = (is_household(config), config.health.listen) {
        findings.require_beside(
            beside(listen).is_some(),
            "health.listen",
            &["node.roles"],
            format!("{listen} has no next port, which the second process of these roles needs"),
        );
    }
    let listeners = listeners(config);
    for (index, (key, address)) in listeners.iter().enumerate() {
        let same = listeners[..index]
            .iter()
            // Port 0 takes any free port, so two of them do not collide.
            .find(|(_, other)| other.port() != 0 && other == address);
        if let Some((other, _)) = same {
            findings.require_beside(
                false,
                key,
                &["cluster.listen"],
                format!("{address} is used by {other} already"),
            );
        }
    }
}

/// Returns the keys and addresses of all listeners of this node.
fn listeners(config: &ClusterConfig) -> Vec<(&'static str, SocketAddr)> {
    let listen = is_orchestrator(config).then_some(config.cluster.listen);
    let next = config.health.listen.and_then(beside);
    [
        ("cluster.listen", listen),
        ("health.listen", config.health.listen),
        // The second process answers at the next port.
        ("health.listen", next.filter(|_| is_household(config))),
        (
            "api.listen",
            config.api.listen.filter(|_| is_orchestrator(config)),
        ),
        (
            "webhook.listen",
            config.webhook.listen.filter(|_| hears_of_jobs(config)),
        ),
    ]
    .into_iter()
    .filter_map(|(key, address)| Some((key, address?)))
    .collect()
}

/// Returns whether services tell this node of the end of their jobs.
fn hears_of_jobs(config: &ClusterConfig) -> bool {
    config.node.roles.contains(&Role::Entity) || (is_orchestrator(config) && !config.stage.is_empty())
}

/// Checks that nothing goes beyond this machine without TLS and a cookie.
fn exposure(config: &ClusterConfig, secrets: &Secrets, findings: &mut Findings) {
    // All fields are named, so that a new file of TLS cannot be added without a check here.
    let Tls {
        certificate_file,
        key_file,
        ca_file,
        revoked_file,
    } = &config.cluster.tls;
    let files = [
        ("cluster.tls.certificate_file", certificate_file),
        ("cluster.tls.key_file", key_file),
        ("cluster.tls.ca_file", ca_file),
    ];
    let some = files.iter().any(|(_, file)| file.is_some());
    for (key, file) in files {
        findings.require_beside(
            file.is_some() || !some,
            key,
            &[
                "cluster.tls.certificate_file",
                "cluster.tls.key_file",
                "cluster.tls.ca_file",
            ],
            "TLS needs all three files",
        );
    }
    findings.require(
        revoked_file.is_none() || some,
        "cluster.tls.revoked_file",
        "has no effect without the three files of TLS",
    );
    let beyond = |listen: Option<SocketAddr>| listen.filter(|listen| !listen.ip().is_loopback());
    // Health shows no secrets and takes no orders, so allowing it explicitly is enough.
    if let Some(listen) = beyond(config.health.listen) {
        findings.require(
            config.health.public,
            "health.listen",
            format!("{listen} can be reached from other machines: that needs health.public = true"),
        );
    }
    let own = &config.api.tls;
    for (key, file) in [
        ("api.tls.certificate_file", &own.certificate_file),
        ("api.tls.key_file", &own.key_file),
    ] {
        findings.require_beside(
            file.is_some() || (own.certificate_file.is_none() && own.key_file.is_none()),
            key,
            &["api.tls.certificate_file", "api.tls.key_file"],
            "TLS needs both files",
        );
    }
    // Tokens cross the network, so the interface needs TLS, its own, the node's, or that of a proxy.
    if let Some(listen) = beyond(config.api.listen) {
        findings.require(
            some || own.certificate_file.is_some() || config.api.public,
            "api.listen",
            format!(
                "{listen} can be reached from other machines: that needs TLS (api.tls or cluster.tls), or \
                 api.public = true behind a proxy that has it"
            ),
        );
    }
    if let Some(cookie) = &secrets.cookie {
        findings.require(
            cookie.text.expose_secret().chars().count() >= MIN_COOKIE,
            "cluster.cookie",
            format!("is shorter than {MIN_COOKIE} characters"),
        );
    }
    // The transport between nodes carries work and orders: beyond this machine it needs both TLS and a cookie.
    let mut missing = Vec::new();
    if !some {
        missing.push("TLS (cluster.tls)");
    }
    if secrets.cookie.is_none() {
        missing.push("a cookie (cluster.cookie_file)");
    }
    if missing.is_empty() {
        return;
    }
    let missing = missing.join(" and ");
    let listen = config.cluster.listen;
    findings.require(
        !is_orchestrator(config) || listen.ip().is_loopback(),
        "cluster.listen",
        format!("{listen} can be reached from other machines: that needs {missing}"),
    );
    if let Some(distant) = config
        .cluster
        .orchestrators
        .iter()
        .find(|address| !address.is_loopback())
    {
        findings.require(
            false,
            "cluster.orchestrators",
            format!("{distant} is another machine: dialling it needs {missing}"),
        );
    }
}

fn durations(config: &ClusterConfig, findings: &mut Findings) {
    let (cluster, leadership) = (&config.cluster, &config.orchestrator.leadership);
    let positive = [
        ("node.drain_deadline", config.node.drain_deadline),
        ("cluster.dial_timeout", cluster.dial_timeout),
        ("cluster.handshake_timeout", cluster.handshake_timeout),
        ("cluster.unacknowledged_timeout", cluster.unacknowledged_timeout),
        ("cluster.redial_first", cluster.redial_first),
        ("cluster.call_timeout", cluster.call_timeout),
        ("cluster.heartbeat", cluster.heartbeat),
        ("orchestrator.full_pass", config.orchestrator.full_pass),
        ("source.poll", config.source.poll),
        ("orchestrator.leadership.renew", leadership.renew),
        (
            "orchestrator.leadership.idle_in_transaction",
            leadership.idle_in_transaction,
        ),
        ("orchestrator.leadership.standby_retry", leadership.standby_retry),
        ("health.progress_window", config.health.progress_window),
        ("health.restart_window", config.health.restart_window),
        ("health.restart_backoff", config.health.restart_backoff),
    ];
    for (key, value) in positive {
        findings.require(
            // Zero would make a loop without a pause, or a timeout that always passes; fractions of a
            // millisecond are mistyped.
            value >= Duration::from_millis(1),
            key,
            "must be a millisecond or more",
        );
    }
    let mut shorter = |key, value: Duration, limit: Duration, because, what: &str| {
        let message = format!("must be less than {what}, {}", humantime::format_duration(limit));
        findings.require_beside(value < limit, key, because, message);
    };
    // A single lost heartbeat must not end a lease.
    shorter(
        "cluster.heartbeat",
        cluster.heartbeat,
        cluster.lease / 2,
        &["cluster.lease"],
        "half of cluster.lease",
    );
    // The end of a silent session ends the leases of its node early; after they have run out that would change nothing.
    shorter(
        "cluster.idle_timeout",
        cluster.idle_timeout,
        cluster.lease,
        &["cluster.lease"],
        "cluster.lease",
    );
    // A single slow query must not end the leadership.
    shorter(
        "orchestrator.leadership.renew",
        leadership.renew,
        leadership.idle_session / 2,
        &["orchestrator.leadership.idle_session"],
        "half of orchestrator.leadership.idle_session",
    );
    findings.require(
        cluster.idle_timeout > PING_INTERVAL,
        "cluster.idle_timeout",
        format!(
            "must be more than {}: live nodes may be silent for that long",
            humantime::format_duration(PING_INTERVAL)
        ),
    );
    findings.require_beside(
        cluster.redial_first <= cluster.redial_max,
        "cluster.redial_max",
        &["cluster.redial_first"],
        "must not be less than cluster.redial_first",
    );
    findings.require_beside(
        leadership.idle_in_transaction <= leadership.idle_session,
        "orchestrator.leadership.idle_in_transaction",
        &["orchestrator.leadership.idle_session"],
        "must not be more than orchestrator.leadership.idle_session: a frozen leader would block its successor",
    );
}

fn state(config: &ClusterConfig, secrets: &Secrets, findings: &mut Findings) {
    match &secrets.database_url {
        Some(url) => {
            if let Some(fault) = secrets::fault_of_database(url) {
                findings.require(false, "state.database_url", fault);
            }
        }
        None => findings.require_beside(
            config.state.embedded || !uses_database(config),
            "state.embedded",
            &["node.roles"],
            "an orchestrator, or a node that takes work from the database, needs DATABASE_URL or state.database_url_file if it \
            runs no private Postgres",
        ),
    }
}

fn storage(config: &ClusterConfig, findings: &mut Findings) {
    let s3 = &config.storage.s3;
    if config.storage.kind == StorageKind::S3 {
        findings.require_beside(
            s3.bucket.is_some(),
            "storage.s3.bucket",
            &["storage.kind"],
            "required for storage in S3",
        );
    } else {
        findings.require(
            s3.bucket.is_none(),
            "storage.s3.bucket",
            "has no effect while storage.kind is \"local\"",
        );
    }
    let keys = ["storage.s3.bucket", "storage.s3.prefix", "storage.s3.endpoint"];
    bucket(s3, keys, findings);
}

fn pages(config: &ClusterConfig, findings: &mut Findings) {
    let pages = &config.pages;
    findings.require(
        pages.folder.is_none() || pages.s3.bucket.is_none(),
        "pages.s3.bucket",
        "has no effect while pages.folder is set: the scans are in one place",
    );
    findings.require(
        pages.intro_pages_file.is_none() || pages.kind == PagesKind::Bdrc,
        "pages.intro_pages_file",
        "has no effect while pages.kind is \"folder\"",
    );
    findings.require(
        pages.benchmark_bucket.is_none() || (pages.kind == PagesKind::Bdrc && pages.s3.bucket.is_some()),
        "pages.benchmark_bucket",
        "has no effect unless the scans are in the bucket of an archive (pages.kind, pages.s3.bucket)",
    );
    let keys = ["pages.s3.bucket", "pages.s3.prefix", "pages.s3.endpoint"];
    bucket(&pages.s3, keys, findings);
}

fn bucket(s3: &S3, [bucket, prefix, endpoint]: [&'static str; 3], findings: &mut Findings) {
    let holds = |value: &Option<String>, holds: fn(&str) -> bool| value.as_deref().is_none_or(holds);
    findings.require(
        holds(&s3.bucket, |name| !name.contains('/')),
        bucket,
        format!("must be a name without slashes; a folder of the bucket belongs into {prefix}"),
    );
    findings.require(
        holds(&s3.prefix, |folder| ArtifactKey::new(folder).is_ok()),
        prefix,
        "must be a folder such as scans/2026, without a slash at either end",
    );
    findings.require(
        holds(&s3.endpoint, |url| {
            url.starts_with("http://") || url.starts_with("https://")
        }),
        endpoint,
        "must begin with http:// or https://",
    );
}

fn source(config: &ClusterConfig, findings: &mut Findings) {
    let (needs_names, named) = (
        config.source.kind.properties().is_of_named_jobs,
        !config.source.jobs.is_empty(),
    );
    findings.require(
        named || !needs_names,
        "source.jobs",
        "a node that takes shards needs the names of jobs: --job NAME, or source.jobs; `node shards create NAME` creates one",
    );
    findings.require(
        needs_names || !named,
        "source.jobs",
        "has no effect unless source.kind is \"shards\"",
    );
    let sqs = &config.source.sqs;
    let second = Duration::from_secs(1);
    findings.require(
        (second..=MAX_VISIBILITY).contains(&sqs.visibility),
        "source.sqs.visibility",
        "must be 1s to 12h",
    );
    findings.require(
        (sqs.visibility..=MAX_VISIBILITY).contains(&sqs.visibility_max_total),
        "source.sqs.visibility_max_total",
        "must be source.sqs.visibility or more, and 12h at most",
    );
    findings.require(sqs.wait <= MAX_WAIT, "source.sqs.wait", "must be 20s at most");
}

/// Returns the health address of the second process of a node that is both orchestrator and worker: the next port. `None` if
/// there is no higher port.
pub fn beside(address: SocketAddr) -> Option<SocketAddr> {
    let port = match address.port() {
        0 => 0,
        port => port.checked_add(1)?,
    };
    Some(SocketAddr::new(address.ip(), port))
}

fn is_household(config: &ClusterConfig) -> bool {
    is_orchestrator(config) && config.node.roles.len() > 1
}

fn uses_database(config: &ClusterConfig) -> bool {
    let source = config.source.kind.properties();
    let leases = source.is_in_database && !source.is_assigned;
    let is_entity_node = config.node.roles.contains(&Role::Entity);
    is_orchestrator(config) || is_entity_node || leases && !config.node.roles.contains(&Role::Autoscaler)
}

fn is_orchestrator(config: &ClusterConfig) -> bool {
    config.node.roles.contains(&Role::Orchestrator)
}
