//! Scans from a bucket and artifacts into another folder of it, by real processes against an S3 server in this one.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use parkhang_store::pages::BdrcArchive;
use parkhang_test_s3::{ACCESS_KEY, BUCKET, Endpoint, Method, SECRET_KEY};
use tokio::runtime::Runtime;

use crate::nodes::{JOB, Node, Site, assert_exports};
use crate::support::{Finished, assert_same, files, finish, node, small_page};

const VOLUMES: [&str; 2] = ["W1-I1", "W22084-I0886"];
const PAGES: u8 = 3;

/// An archive of small volumes, in a bucket and as a copy in a folder, and the same scans in plain folders.
struct Archive {
    folder: tempfile::TempDir,
    endpoint: Endpoint,
    _runtime: Runtime,
}

impl Archive {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let archive = Self {
            folder: tempfile::tempdir().unwrap(),
            endpoint: runtime.block_on(Endpoint::start()),
            _runtime: runtime,
        };
        for (number, volume) in (0..).zip(VOLUMES) {
            let names: Vec<String> = (0..PAGES).map(|page| format!("{page:04}.tif")).collect();
            for (page, name) in (0..).zip(&names) {
                let mut scan = small_page();
                scan.extend([number, page]);
                archive.put(volume, name, &scan);
                let plain = archive.path("plain").join(volume);
                std::fs::create_dir_all(&plain).unwrap();
                std::fs::write(plain.join(name), scan).unwrap();
            }
            archive.list(volume, &names);
        }
        archive
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, volume: &str, name: &str, bytes: &[u8]) {
        let key = format!("{}/{name}", BdrcArchive::folder(&volume.parse().unwrap()));
        self.endpoint
            .objects
            .insert(&format!("archive/{key}"), bytes.to_vec());
        let copy = self.path("copy").join(key);
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::write(copy, bytes).unwrap();
    }

    /// Writes the list of a volume's images, with entries that name none.
    fn list(&self, volume: &str, names: &[String]) {
        let entries = names
            .iter()
            .map(String::as_str)
            .chain(["dimensions.json", "sub/0.tif"]);
        let entries: Vec<_> = entries
            .map(|name| serde_json::json!({ "filename": name }))
            .collect();
        let mut list = GzEncoder::new(Vec::new(), Compression::fast());
        list.write_all(&serde_json::to_vec(&entries).unwrap()).unwrap();
        self.put(volume, "dimensions.json", &list.finish().unwrap());
    }

    /// Arguments that name the bucket for the scans.
    fn input(&self) -> Vec<String> {
        let input = format!("{BUCKET}/archive");
        [
            "--input-bucket",
            &input,
            "--input-kind",
            "bdrc",
            "--endpoint",
            &self.endpoint.url,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Reads both volumes with `node ocr`.
    fn read(&self, out: &str, options: &[String]) -> Finished {
        let mut command = node(["ocr", "--json", "--job", JOB, "--config", "checkpoint_pages=2"]);
        command
            .args(VOLUMES)
            .arg("--out")
            .arg(self.path(out))
            .args(options)
            .envs(keys());
        finish(command)
    }

    /// Artifacts of the job below a folder of the bucket.
    fn written(&self, folder: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        written(&self.endpoint, folder)
    }

    fn scans_read(&self) -> usize {
        self.endpoint.faults.requests(&Method::GET, ".tif")
    }
}

/// Objects below a folder of the bucket.
pub(crate) fn written(endpoint: &Endpoint, folder: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let objects = endpoint.objects.below(&format!("{folder}/"));
    objects
        .into_iter()
        .map(|(name, bytes)| (PathBuf::from(name), bytes.to_vec()))
        .collect()
}

pub(crate) fn keys() -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
    ]
}

#[test]
fn a_cluster_reads_an_archive_into_a_bucket_as_a_folder_is_read_into_a_folder() {
    let archive = Archive::new();
    let mut site = Site::with_volumes(0, 0);
    let url = archive.endpoint.url.clone();
    site.variables = keys();
    site.settings = vec![
        ("pages.folder", String::new()),
        ("pages.kind", "bdrc".to_owned()),
        ("pages.s3.bucket", BUCKET.to_owned()),
        ("pages.s3.prefix", "archive".to_owned()),
        ("pages.s3.endpoint", url.clone()),
        ("storage.kind", "s3".to_owned()),
        ("storage.s3.bucket", BUCKET.to_owned()),
        ("storage.s3.prefix", "results".to_owned()),
        ("storage.s3.endpoint", url),
    ];
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _gpu = Node::start(&site, "gpu", &[orchestrator.address()]);
    let _cpu = Node::start(&site, "cpu", &[orchestrator.address()]);

    let [first, second] = VOLUMES;
    let create = |other| finish(site.command(["job", "create", JOB, "--volume", first, "--volume", other]));
    let refused = create("W1-I404").exits(1);
    assert!(refused.stderr.contains("W1-I404"), "{}", refused.stderr);
    create(second).exits(0);
    let status = finish(site.command(["job", "status", JOB, "--wait", "--json"])).exits(0);
    assert_eq!(status.json()["status"], "completed");

    let copy = archive.path("copy").to_str().unwrap().to_owned();
    let local = ["--input-kind", "bdrc", "--input-folder", &copy].map(str::to_owned);
    archive.read("local", &local).exits(0);
    assert_same(
        &archive.written("results/jobs"),
        &files(&archive.path("local/jobs")),
    );
    assert_exports(&site, &[], &archive.path("local"));
}

/// Rows: F8, F18, F19.
#[test]
fn volumes_of_a_bucket_are_read_again_only_where_they_changed() {
    let archive = Archive::new();
    let mut buckets = archive.input();
    buckets.extend(["--output-bucket".to_owned(), format!("{BUCKET}/results")]);
    buckets.extend(["--layout", "bdrc_v1"].map(str::to_owned));
    let exporting = |formats: &str| [&buckets[..], &["--export".to_owned(), formats.to_owned()]].concat();
    let first = archive.read("out", &exporting("text,html")).exits(0);
    assert_eq!(first.json()["volumes"][1]["pages_read"], PAGES);
    assert!(!archive.path("out/jobs").exists(), "artifacts are in the bucket");
    let written = archive.written("results/output/jobs");
    let results = format!("{JOB}/volumes/{}/artifacts/ocr/ocr_results.parquet", VOLUMES[0]);
    assert!(written.contains_key(Path::new(&results)), "{:?}", written.keys());

    // The text is that of the same scans in folders.
    let mut plain = node(["ocr", "--json", "--export", "text,html"]);
    plain
        .arg(archive.path("plain"))
        .arg("--out")
        .arg(archive.path("folders"));
    finish(plain).exits(0);
    let export = |out: &str| files(&archive.path(out).join("export"));
    assert_same(&export("out"), &export("folders"));

    let read = archive.scans_read();
    let second = archive.read("out", &exporting("text")).exits(0).json();
    assert_eq!(second["volumes"][0]["pages_read"], 0);
    assert_eq!(archive.scans_read(), read, "what has not changed is not read");
    // The marker of a volume says when it was last run and how long that took.
    let but_markers = |mut files: BTreeMap<PathBuf, Vec<u8>>| {
        files.retain(|path, _| !path.ends_with("_done.json"));
        files
    };
    assert_same(
        &but_markers(archive.written("results/output/jobs")),
        &but_markers(written),
    );

    archive.list(VOLUMES[0], &["0000.tif".to_owned(), "0001.tif".to_owned()]);
    let third = archive.read("out", &exporting("text")).exits(0).json();
    assert_eq!(third["volumes"][0]["pages_read"], 2);
    assert_eq!(third["volumes"][0]["results"]["total_images"], 2);
    assert_eq!(third["volumes"][1]["pages_read"], 0);

    let scattered = archive.read("out", &archive.input()).exits(1);
    assert!(scattered.stderr.contains("another --out"), "{}", scattered.stderr);
}
