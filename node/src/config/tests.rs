//! The layers together, from files and variables to the verdict.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use parkhang_core::domain::LayoutName;

use super::*;
use crate::config::source_kind::SourceKind;
use crate::config::values::Role;

/// A folder for configuration files and what they name.
struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, mode: u32, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn file(&self, text: &str) -> PathBuf {
        self.write("cluster.toml", 0o644, text)
    }
}

fn load(file: Option<&Path>, variables: &[(&str, &str)], flags: &[&str]) -> Loaded {
    let variables = variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    Loaded::from_layers(file, None, &variables.collect::<BTreeMap<_, _>>(), &flags, &[]).unwrap()
}

fn problems(file: Option<&Path>, variables: &[(&str, &str)], flags: &[&str]) -> Vec<String> {
    match load(file, variables, flags).validated() {
        Ok(_) => Vec::new(),
        Err(Problems(problems)) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// Settings that no node of a cluster starts without.
const COOKIE: (&str, &str) = ("PARKHANG_CLUSTER__COOKIE", "0123456789abcdef");

/// The only problem of flags upon the built-in values.
#[track_caller]
fn the_problem(flags: &[&str]) -> String {
    let found = problems(None, &[], flags);
    assert_eq!(found.len(), 1, "{found:#?}");
    found[0].clone()
}

#[test]
fn the_built_in_configuration_is_sound() {
    assert_eq!(problems(None, &[], &[]), Vec::<String>::new());
}

#[test]
fn a_generation_brings_its_usual_values_unless_somebody_says_otherwise() {
    let fixture = Fixture::new();
    let file = fixture.file("[job]\ngeneration = \"gen1\"\nk_factor = 1.7\n");
    let job = load(Some(&file), &[], &["job.merge_lines=true"]).config.job;
    let defaults = JobConfig::defaults_for(job.generation);
    assert_eq!((job.k_factor, job.merge_lines), (1.7, true));
    assert_eq!(
        (job.bbox_tolerance, job.use_tps),
        (defaults.bbox_tolerance, defaults.use_tps)
    );
    assert_eq!(
        load(None, &[], &["job.generation=gen2"]).config.job,
        JobConfig::default()
    );
}

#[test]
fn a_layout_needs_a_model_that_knows_one() {
    let lines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/fixtures/bdrc/deeplab");
    let lines = format!("node.models={}", lines.display());
    let message = the_problem(&[&lines, "job.line_mode=layout"]);
    assert!(
        message.starts_with("--set: job.line_mode: line_mode=layout needs"),
        "{message}"
    );
    assert_eq!(
        problems(None, &[], &["job.line_mode=layout"]),
        Vec::<String>::new()
    );
    let message = the_problem(&["node.models=/nowhere/at/all"]);
    assert!(
        message.starts_with("--set: node.models: /nowhere/at/all is no model"),
        "{message}"
    );
}

#[test]
fn the_second_process_of_a_node_has_a_port_of_its_own() {
    let last = the_problem(&["health.listen=127.0.0.1:65535"]);
    assert!(
        last.contains("health.listen: 127.0.0.1:65535 has no next port"),
        "{last}"
    );
    let taken = the_problem(&["health.listen=127.0.0.1:7399"]);
    assert!(
        taken.contains("health.listen: 127.0.0.1:7400 is used by cluster.listen already"),
        "{taken}"
    );
    for port in [65535, 7399] {
        let listen = format!("health.listen=127.0.0.1:{port}");
        assert_eq!(problems(None, &[], &[&listen, "node.roles=cpu,gpu"]), [""; 0]);
    }
}

/// Rows: F13.
#[test]
fn later_layers_win_and_each_value_knows_its_own() {
    let fixture = Fixture::new();
    let path = fixture.file("[node]\nname = 'a'\ndevice = 'wgpu'\n[cluster]\nlease = '90s'\n");
    let variables = [("PARKHANG_NODE__NAME", "b"), ("PARKHANG_NODE__ROLES", "cpu,gpu")];
    let loaded = load(Some(&path), &variables, &["node.name=c"]);
    assert_eq!(loaded.config.node.name.as_deref(), Some("c"));
    assert_eq!(loaded.config.node.roles, [Role::Cpu, Role::Gpu].into());
    assert_eq!(loaded.config.cluster.lease.as_secs(), 90);
    let origin = |key: &str| loaded.settings[key].origin.to_string();
    assert_eq!(origin("node.name"), "--set");
    assert_eq!(origin("node.roles"), "PARKHANG_NODE__ROLES");
    assert_eq!(origin("node.device"), format!("{}:3", path.display()));
    assert_eq!(origin("cluster.listen"), "built in");
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let fixture = Fixture::new();
    let path = fixture
        .file("[cluster]\nlisen = '127.0.0.1:1'\nlease = 'soon'\n\n[job]\nk_factor = 99\nbeam_width = -1\n");
    let variables = [
        ("PARKHANG_NODE__COLOUR", "red"),
        ("PARKHANG_CLUSTER_LISTEN", "x"),
        ("PARKHANG_LOG", "x"),
    ];
    let found = problems(
        Some(&path),
        &variables,
        &["node.slots.cpu=many", "node", "tls=1", "node.roles=cpuu"],
    );
    let message = |part: &str| {
        let count = found.iter().filter(|problem| problem.contains(part)).count();
        assert_eq!(count, 1, "{part}: {found:#?}");
    };
    message("cluster.toml:2: cluster.lisen: there is no such key; did you mean cluster.listen?");
    message("cluster.toml:3: cluster.lease: \"soon\" is not a duration");
    message("cluster.toml:6: job.k_factor: must be 0.1 to 10, not 99");
    message("cluster.toml:7: job.beam_width: ");
    message("PARKHANG_NODE__COLOUR: node.colour: there is no such key");
    message("PARKHANG_CLUSTER_LISTEN: did you mean PARKHANG_CLUSTER__LISTEN?");
    message("--set: node.slots.cpu: \"many\" is not a whole number");
    message("--set: expected SECTION.KEY=VALUE");
    message("--set: tls: there is no such key");
    message("--set: node.roles: unknown variant `cpuu`");
    assert_eq!(found.len(), 10, "{found:#?}");
}

#[test]
fn what_is_not_toml_or_not_there_is_told() {
    let fixture = Fixture::new();
    let path = fixture.file("[node]\nname = \n");
    let found = problems(Some(&path), &[], &[]);
    assert!(
        found.len() == 1 && found[0].contains("cluster.toml:2: "),
        "{found:?}"
    );
    let found = problems(Some(&fixture.0.path().join("none.toml")), &[], &[]);
    assert!(
        found.len() == 1 && found[0].contains("none.toml: No such file"),
        "{found:?}"
    );
}

#[test]
fn a_mistake_leaves_the_layer_below_in_force() {
    let loaded = load(
        None,
        &[("PARKHANG_CLUSTER__LEASE", "90s")],
        &["cluster.lease=soon"],
    );
    assert_eq!(loaded.config.cluster.lease.as_secs(), 90);
    assert_eq!(loaded.problems.len(), 1);
}

#[test]
fn paths_in_a_file_start_from_the_file() {
    let fixture = Fixture::new();
    let path = fixture.file("[storage]\nfolder = 'pages'\n[storage.cache]\nfolder = '/var/cache/x'\n");
    let loaded = load(Some(&path), &[], &[]);
    assert_eq!(loaded.config.storage.folder, Some(fixture.0.path().join("pages")));
    assert_eq!(
        loaded.config.storage.cache.folder,
        Some(PathBuf::from("/var/cache/x"))
    );
    let loaded = load(None, &[], &["storage.folder=pages"]);
    assert_eq!(loaded.config.storage.folder, Some(PathBuf::from("pages")));
}

#[test]
fn nothing_leaves_the_machine_without_tls_and_a_cookie() {
    let fixture = Fixture::new();
    let problem = the_problem(&["cluster.listen=10.0.0.7:7400"]);
    assert!(
        problem.contains("needs TLS (cluster.tls) and a cookie"),
        "{problem}"
    );
    let problem = the_problem(&["health.listen=[::]:80"]);
    assert!(problem.contains("needs health.public = true"), "{problem}");
    let allowed = problems(None, &[], &["health.listen=[::]:80", "health.public=true"]);
    assert_eq!(allowed, Vec::<String>::new());
    let problem = the_problem(&["api.listen=[::]:7480"]);
    assert!(
        problem.contains("needs TLS (api.tls or cluster.tls)"),
        "{problem}"
    );
    let allowed = problems(None, &[], &["api.listen=[::]:7480", "api.public=true"]);
    assert_eq!(allowed, Vec::<String>::new());
    let problem = the_problem(&["api.tls.key_file=/nowhere/api.key"]);
    assert!(
        problem.contains("api.tls.certificate_file: TLS needs both files"),
        "{problem}"
    );
    let dialling = the_problem(&["node.roles=cpu", "cluster.orchestrators=orch.example:7400"]);
    assert!(
        dialling.contains("orch.example:7400 is another machine"),
        "{dialling}"
    );
    // A node that does not listen may name an address to listen on.
    let idle = problems(None, &[], &["node.roles=cpu", "cluster.listen=10.0.0.7:7400"]);
    assert_eq!(idle, Vec::<String>::new());

    let cookie = fixture.write("cookie", 0o600, "0123456789abcdef\n");
    let cookie = format!("cluster.cookie_file={}", cookie.display());
    let problem = the_problem(&["cluster.listen=10.0.0.7:7400", &cookie]);
    assert!(problem.ends_with("needs TLS (cluster.tls)"), "{problem}");
}

#[test]
fn an_address_for_everybody_needs_one_to_dial() {
    let found = problems(None, &[], &["cluster.listen=0.0.0.0:7400"]).join("\n");
    assert!(found.contains("cluster.advertise: required"), "{found}");
    let found = problems(
        None,
        &[],
        &["cluster.listen=0.0.0.0:7400", "cluster.advertise=orch:7400"],
    )
    .join("\n");
    assert!(!found.contains("cluster.advertise"), "{found}");
}

#[test]
fn what_cannot_work_together_is_refused() {
    let cases: [(&[&str], &str); 21] = [
        (
            &["telemetry.otlp_endpoint=collector:4318"],
            "telemetry.otlp_endpoint: must be a URL such as",
        ),
        (
            &["cluster.heartbeat=30s"],
            "cluster.heartbeat: must be less than half of cluster.lease, 30s",
        ),
        (
            &["cluster.heartbeat=0s"],
            "cluster.heartbeat: must be a millisecond",
        ),
        (
            &["cluster.idle_timeout=5s"],
            "cluster.idle_timeout: must be more than 5s",
        ),
        (
            &["cluster.redial_first=1m"],
            "cluster.redial_max: must not be less",
        ),
        (
            &["orchestrator.leadership.renew=3s"],
            "renew: must be less than half",
        ),
        (
            &["orchestrator.leadership.idle_in_transaction=7s"],
            "a frozen leader would block",
        ),
        (&["storage.kind=s3"], "storage.s3.bucket: required"),
        (
            &["storage.s3.bucket=pages"],
            "storage.s3.bucket: has no effect while",
        ),
        (
            &["storage.kind=s3", "storage.s3.bucket=b/c"],
            "storage.s3.bucket: must be a name without slashes",
        ),
        (
            &["storage.s3.endpoint=127.0.0.1:9000"],
            "storage.s3.endpoint: must begin with http",
        ),
        (
            &["storage.kind=s3", "storage.s3.bucket=b", "storage.s3.prefix=/a"],
            "storage.s3.prefix: must be a folder such as",
        ),
        (
            &["pages.s3.bucket=b", "pages.folder=scans"],
            "pages.s3.bucket: has no effect while pages.folder is set",
        ),
        (
            &["pages.benchmark_bucket=b", "pages.kind=bdrc"],
            "pages.benchmark_bucket: has no effect unless",
        ),
        (&["pages.s3.bucket=b/c"], "belongs into pages.s3.prefix"),
        (
            &["pages.kind=bdrc", "pages.intro_pages_file=absent"],
            "pages.intro_pages_file: absent: No such file",
        ),
        (
            &["state.embedded=false"],
            "state.embedded: an orchestrator, or a node that takes work from the database, needs DATABASE_URL",
        ),
        (&["node.roles="], "node.roles: a node needs a role"),
        (&["node.device=abacus"], "node.device: unknown device `abacus`"),
        (
            &["node.slots.gpu=0"],
            "node.slots.gpu: a node with the role gpu needs a slot",
        ),
        (
            &["health.listen=127.0.0.1:7400"],
            "health.listen: 127.0.0.1:7400 is used by cluster.listen already",
        ),
    ];
    for (flags, expected) in cases {
        let problem = the_problem(flags);
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn the_configuration_of_a_fleet_on_sqs_is_sound_for_each_role() {
    let page = include_str!("../../../docs/sqs.md");
    let section = page
        .split("\n## ")
        .find(|section| section.starts_with("Configuration"));
    let lines = section
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("    "));
    let file: Vec<&str> = lines
        .take_while(|line| !line.starts_with("DATABASE_URL"))
        .collect();
    let fixture = Fixture::new();
    let file = fixture.file(&file.join("\n"));
    for role in ["node.roles=orchestrator", "node.roles=gpu", "node.roles=cpu"] {
        let loaded = load(Some(&file), &[], &[role]).validated().unwrap();
        assert_eq!(loaded.config.source.kind, SourceKind::Sqs);
        assert_eq!(
            loaded.config.storage.s3.bucket.as_deref(),
            Some("results.example")
        );
    }
}

#[test]
fn flags_for_buckets_are_short_for_keys() {
    let fixture = Fixture::new();
    let file = fixture.file("[pages]\nfolder = 'scans'\n[storage.s3]\nregion = 'eu-1'\n");
    let buckets = BucketArgs {
        input_bucket: Some("s3://archive/scans".to_owned()),
        input_folder: None,
        input_kind: Some("bdrc".to_owned()),
        output_bucket: Some("results".to_owned()),
        endpoint: Some("http://127.0.0.1:9000".to_owned()),
        region: None,
        layout: Some("bdrc_v1".to_owned()),
    };
    let loaded = Loaded::from_layers(Some(&file), None, &BTreeMap::new(), &[], &buckets.shortcuts()).unwrap();
    let loaded = loaded.validated().unwrap();
    let (pages, storage) = (&loaded.config.pages, &loaded.config.storage);
    assert_eq!((pages.kind, &pages.folder), (PagesKind::Bdrc, &None));
    assert_eq!(pages.s3.bucket.as_deref(), Some("archive"));
    assert_eq!(pages.s3.prefix.as_deref(), Some("scans"));
    assert_eq!(storage.kind, StorageKind::S3);
    assert_eq!(storage.s3.bucket.as_deref(), Some("results"));
    assert_eq!(storage.s3.endpoint, pages.s3.endpoint);
    assert_eq!(storage.s3.region.as_deref(), Some("eu-1"));
    assert_eq!(loaded.config.job.layout, LayoutName::BdrcV1);
    let shown = show::toml(&loaded, true);
    assert!(
        shown.contains("bucket = \"results\"  # --output-bucket"),
        "{shown}"
    );

    let unknown = BucketArgs {
        layout: Some("bdrc_v3".to_owned()),
        ..BucketArgs::default()
    };
    let Err(Problems(found)) = Loaded::apart(&unknown).unwrap().validated() else {
        panic!("an unknown layout was taken");
    };
    assert!(
        found[0].to_string().starts_with("--layout: job.layout: "),
        "{}",
        found[0]
    );
}

#[test]
fn a_value_that_nobody_set_is_blamed_on_what_it_does_not_go_with() {
    let cases = [
        ("cluster.lease=8s", "--set: cluster.heartbeat: "),
        ("cluster.redial_first=1m", "--set: cluster.redial_max: "),
        (
            "orchestrator.leadership.idle_session=2s",
            "--set: orchestrator.leadership.renew: ",
        ),
        ("storage.kind=s3", "--set: storage.s3.bucket: "),
    ];
    for (flag, expected) in cases {
        let found = problems(None, &[], &[flag]);
        assert!(
            found.iter().any(|problem| problem.starts_with(expected)),
            "{found:?}"
        );
        assert!(
            !found.iter().any(|problem| problem.contains("built in")),
            "{found:?}"
        );
    }
}

#[test]
fn what_is_shown_can_be_read_again() {
    let fixture = Fixture::new();
    let loaded = load(
        None,
        &[],
        &["node.name=\"quoted\"", "storage.cache.size=7GiB", "job.limit=3"],
    );
    for origins in [false, true] {
        let path = fixture.file(&show::toml(&loaded, origins));
        let again = load(Some(&path), &[], &[]);
        assert_eq!(again.config, loaded.config);
        assert_eq!(again.problems, []);
    }
}

#[test]
fn a_mistake_is_told_by_the_flag_that_made_it() {
    let role = Shortcut {
        flag: "--role",
        key: "node.roles",
        value: "king".to_owned(),
    };
    let loaded = Loaded::from_layers(None, None, &BTreeMap::new(), &[], &[role]).unwrap();
    let Err(Problems(problems)) = loaded.validated() else {
        panic!("there is no such role");
    };
    let message = problems[0].to_string();
    assert!(
        message.starts_with("--role: node.roles: unknown variant `king`"),
        "{message}"
    );
}

mod engines;
mod entities;
mod files;
mod implied;
mod pipelines;
mod profiles;
mod queues;
mod scaling;
mod secrets;
