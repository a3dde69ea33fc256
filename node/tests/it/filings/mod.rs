//! Filings in a bucket: their pages are judged, the list of those to be read goes to a database of other people's, requests for them go to
//! a queue, or they are read at once.

mod detected;
mod published;

use std::path::PathBuf;
use std::process::Command;

use parkhang_state::EmbeddedPostgres;
use parkhang_test_s3::{BUCKET, Endpoint, Method};
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tokio::runtime::Runtime;

use crate::buckets::keys;
use crate::support::{Finished, finish, node, workspace};

/// Filings of the usual manifest, with the file that each is.
const FILINGS: [(&str, &str); 3] = [
    ("11805134", "letter_form.pdf"),
    ("11805135", "gib_noencoding.pdf"),
    ("11805136", "enc_password.pdf"),
];

/// A bucket with PDFs, and folders of this machine.
struct Bucket {
    folder: tempfile::TempDir,
    endpoint: Endpoint,
    runtime: Runtime,
}

impl Bucket {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let bucket = Self {
            folder: tempfile::tempdir().unwrap(),
            endpoint: runtime.block_on(Endpoint::start()),
            runtime,
        };
        for (id, file) in FILINGS {
            bucket.put(&format!("hkex/{id}.pdf"), &pdf(file));
        }
        bucket
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        self.endpoint.objects.insert(key, bytes.to_vec());
    }

    fn manifest(&self, lines: &[&str]) {
        self.put("lists/hkex.jsonl", lines.join("\n").as_bytes());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn detect(&self, words: &[&str]) -> Command {
        let mut command = node(["pages", "detect", "--endpoint", &self.endpoint.url]);
        command
            .args([
                "--set",
                &format!("node.state_dir={}", self.path("state").display()),
            ])
            .args(["--set", &format!("pages.s3.bucket={BUCKET}")])
            .args(words)
            .current_dir(self.folder.path())
            .env("AWS_REGION", "us-east-1")
            .envs(keys());
        for variable in [
            "OCR_QUEUE_URL",
            "ENABLE_OCR_QUEUE",
            "ENABLE_INLINE_OCR",
            "OCR_PAGE_CHUNK_SIZE",
            "AWS_BATCH_JOB_ARRAY_INDEX",
        ] {
            command.env_remove(variable);
        }
        command
    }

    /// The manifest of the bucket, as the scripts of the archive name it.
    fn detect_manifest(&self, words: &[&str]) -> Command {
        let mut command = self.detect(&["--manifest-bucket", BUCKET, "--manifest-key", "lists/hkex.jsonl"]);
        command.args(["--exchange", "HKEX"]).args(words);
        command
    }

    fn pdfs_read(&self) -> usize {
        self.endpoint.faults.requests(&Method::GET, ".pdf")
    }
}

fn pdf(name: &str) -> Vec<u8> {
    std::fs::read(workspace().join("tests/fixtures/pdf").join(name)).unwrap()
}

/// A database with the table of another program; gone with the test.
struct Database {
    _server: EmbeddedPostgres,
    options: PgConnectOptions,
}

impl Database {
    fn new(bucket: &Bucket) -> Self {
        let server = EmbeddedPostgres::temporary().unwrap();
        let options = bucket.runtime.block_on(server.create_database("web")).unwrap();
        Self {
            _server: server,
            options,
        }
    }

    fn with_filings(bucket: &Bucket) -> Self {
        let database = Self::new(bucket);
        database.run(
            bucket,
            "create table filings (exchange text, source_id text, broken_pages integer[] default '{}');
             insert into filings (exchange, source_id, broken_pages) values
                 ('HKEX', '11805134', '{}'), ('HKEX', '11805135', '{7}'), ('HKEX', '11805136', '{8}'), ('SGX', '11805134', '{9}');",
        );
        database
    }

    fn run(&self, bucket: &Bucket, statements: &'static str) {
        bucket.runtime.block_on(async {
            let mut connection = self.options.connect().await.unwrap();
            sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
        });
    }

    /// Exchange, id and pages of each row.
    fn rows(&self, bucket: &Bucket) -> Vec<(String, String, Vec<i32>)> {
        bucket.runtime.block_on(async {
            let mut connection = self.options.connect().await.unwrap();
            let rows = sqlx::query_as("select exchange, source_id, broken_pages from filings order by 1, 2");
            rows.fetch_all(&mut connection).await.unwrap()
        })
    }

    fn url(&self, user: &str) -> String {
        self.options.clone().username(user).to_url_lossy().into()
    }

    fn owner(&self) -> String {
        self.url(self.options.get_username())
    }

    fn detect(&self, bucket: &Bucket, user: &str) -> Finished {
        let mut command = bucket.detect_manifest(&[]);
        command.env("DATABASE_URL", self.url(user));
        finish(command)
    }
}

/// A PDF with an empty page.
fn single_page() -> Vec<u8> {
    b"%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Count 1/Kids[3 0 R]>>\nendobj\n\
      3 0 obj\n<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]>>\nendobj\ntrailer\n<</Root 1 0 R>>\n%%EOF\n"
        .to_vec()
}
