//! Workers and orchestrator of the first design: started with its flags and its variables, and nothing else.

use std::path::Path;
use std::process::{Command, Stdio};

use parkhang_state::EmbeddedPostgres;
use parkhang_test_s3::external::{Server, ministack};
use parkhang_test_s3::{BUCKET, Endpoint};
use sqlx::ConnectOptions;
use tokio::runtime::Runtime;

use crate::buckets::{keys, written};
use crate::nodes::{JOB, Node, Site, undisturbed};
use crate::support::{assert_same, files, finish, node};

const STAGES: [&str; 4] = ["line_detection", "line_extraction", "ocr", "reduce"];

/// Queues, buckets and a database that stand before the first process is started.
struct Services {
    queues: Server,
    buckets: Endpoint,
    database: String,
    _postgres: EmbeddedPostgres,
    _runtime: Runtime,
}

impl Services {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let postgres = EmbeddedPostgres::temporary().unwrap();
        let options = runtime.block_on(postgres.create_database("first")).unwrap();
        Self {
            queues: Server::start(ministack("sqs")),
            buckets: runtime.block_on(Endpoint::start()),
            database: options.to_url_lossy().into(),
            _postgres: postgres,
            _runtime: runtime,
        }
    }

    fn queue_url(&self, stage: &str) -> String {
        format!(
            "{}/000000000000/ocr-{}.fifo",
            self.queues.url,
            stage.replace('_', "-")
        )
    }

    /// Puts the scans of a site into the bucket.
    fn put_scans(&self, site: &Site) {
        for (path, bytes) in files(&site.path("scans")) {
            let key = format!("bdrc-images/{}", path.display());
            self.buckets.objects.insert(&key, bytes);
        }
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = keys();
        variables.push(("DATABASE_URL", self.database.clone()));
        variables.push(("AWS_REGION", "us-east-1".to_owned()));
        variables
    }

    /// The command line of the first design, with the addresses of servers that are not AWS.
    fn worker(&self, site: &Site, stage: &str) -> Command {
        let mut worker = node(["--stage", stage]);
        if ["line_detection", "ocr"].contains(&stage) {
            let model = match stage {
                "ocr" => "recogniser",
                _ => "line-segmenter",
            };
            let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/weights");
            worker.arg("--model").arg(weights.join(model));
        }
        worker
            .args(["--input-bucket", &format!("{BUCKET}/bdrc-images")])
            .args(["--output-bucket", &format!("{BUCKET}/ocr-results")])
            .args(["--endpoint", &self.buckets.url])
            .env("SQS_QUEUE_URL", self.queue_url(stage))
            .envs(self.variables())
            // Four machines have names and folders of their own.
            .env("PARKHANG_NODE__NAME", stage.replace('_', "-"))
            .env("PARKHANG_NODE__STATE_DIR", site.path(&format!("state-{stage}")))
            .current_dir(site.path(""))
            .stdout(Stdio::piped());
        worker
    }
}

/// Rows: 56, 57, 58, 59, 60.
#[test]
#[ignore = "needs ministack beside $PYTHON: tests/python/requirements.txt"]
fn workers_of_one_stage_each_are_started_as_in_the_first_design_over_sqs() {
    let services = Services::start();
    let mut site = Site::with_volumes(2, 2);
    services.put_scans(&site);
    site.settings = vec![
        ("pages.folder", String::new()),
        ("pages.s3.bucket", BUCKET.to_owned()),
        ("pages.s3.prefix", "bdrc-images".to_owned()),
        ("pages.s3.endpoint", services.buckets.url.clone()),
        ("storage.kind", "s3".to_owned()),
        ("storage.s3.bucket", BUCKET.to_owned()),
        ("storage.s3.prefix", "ocr-results".to_owned()),
        ("storage.s3.endpoint", services.buckets.url.clone()),
    ];
    site.variables = services.variables();
    let endpoint = format!("source.sqs.endpoint={}", services.queues.url);
    finish(site.command(["queue", "create", "--set", "source.kind=sqs", "--set", &endpoint])).exits(0);
    for (variable, stage) in [
        ("SQS_LINE_DETECTION_URL", STAGES[0]),
        ("SQS_LINE_EXTRACTION_URL", STAGES[1]),
        ("SQS_OCR_URL", STAGES[2]),
        ("SQS_REDUCE_URL", STAGES[3]),
    ] {
        site.variables.push((variable, services.queue_url(stage)));
    }
    let _orchestrator = Node::start(&site, "orchestrator", &[]);
    let volumes = [
        "--volume",
        "W1-I0",
        "--volume",
        "W1-I1",
        "--config",
        "checkpoint_pages=2",
    ];
    let mut create = site.command(["job", "create", JOB]);
    create.args(volumes);
    finish(create).exits(0);
    let _workers = STAGES.map(|stage| Node::started(stage, services.worker(&site, stage)));
    let status = finish(site.command(["job", "status", JOB, "--wait", "--json"])).exits(0);
    assert_eq!(status.json()["status"], "completed", "{}", status.stdout);

    assert_same(
        &written(&services.buckets, "ocr-results/jobs"),
        &files(&undisturbed(&site).join("jobs")),
    );
}
