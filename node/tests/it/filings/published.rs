//! Requests for pages, sent to a queue of a server of other people's.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use parkhang_actors::intake::PageMessage;
use parkhang_queue::{QueueServer, QueueSpec, Receive, SqsOptions, SqsServer, TaskQueue};
use parkhang_test_s3::BUCKET;
use parkhang_test_s3::external::{Server, ministack};
use serde_json::{Value, json};

use super::{Bucket, Database, pdf, single_page};
use crate::support::finish;

/// A queue of a server of other people's.
struct Queue {
    url: String,
    queue: Arc<dyn TaskQueue>,
    _server: Server,
}

impl Queue {
    fn new(bucket: &Bucket, name: &str) -> Self {
        let server = Server::start(ministack("sqs"));
        let mut options = SqsOptions::default().with_endpoint(server.url.clone());
        options.region = Some("us-east-1".to_owned());
        let queue = bucket.runtime.block_on(async {
            let sqs = SqsServer::open_with_keys(&options, "test", "test").await.unwrap();
            sqs.create(&QueueSpec::new(name)).await.unwrap()
        });
        Self {
            url: queue.url().to_owned(),
            queue,
            _server: server,
        }
    }

    /// Takes the messages that are there.
    fn take(&self, bucket: &Bucket) -> Vec<Value> {
        let mut taken = Vec::new();
        bucket.runtime.block_on(async {
            loop {
                let request = Receive::one(Duration::from_secs(60)).up_to(10);
                let received = self
                    .queue
                    .receive(request.waiting(Duration::from_secs(1)))
                    .await
                    .unwrap();
                if received.is_empty() {
                    return;
                }
                for delivery in received {
                    PageMessage::read(&delivery.body).unwrap();
                    taken.push(serde_json::from_str(&delivery.body).unwrap());
                    self.queue.delete_all(&[delivery.receipt]).await[0]
                        .as_ref()
                        .unwrap();
                }
            }
        });
        taken
    }
}

/// The message about pages of a filing, but for its time.
fn request(id: &str, pages: &[u32]) -> Value {
    json!({
        "version": 1,
        "exchange": "HKEX",
        "source_id": id,
        "s3_bucket": BUCKET,
        "s3_key": format!("hkex/{id}.pdf"),
        "broken_pages": pages,
    })
}

fn without_time(mut messages: Vec<Value>) -> Vec<Value> {
    for message in &mut messages {
        let time = message.as_object_mut().unwrap().remove("submitted_at").unwrap();
        let age = Utc::now() - time.as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
        assert!((0..600).contains(&age.num_seconds()), "{time}");
    }
    messages.sort_by_key(|message| message["source_id"].to_string());
    messages
}

/// A manifest with filings that are good, missing, no PDFs and encrypted, and with lines that are none.
/// Rows: 121, 123, 124, 129, 132, 133, 146, 148, 149.
#[test]
#[ignore = "needs ministack beside $PYTHON: tests/python/requirements.txt"]
fn a_manifest_is_detected_recorded_and_published_over_sqs() {
    for name in ["ocr-pages", "ocr-pages.fifo"] {
        let bucket = Bucket::new();
        let (queue, database) = (Queue::new(&bucket, name), Database::with_filings(&bucket));
        bucket.put("hkex/11805137.pdf", b"no PDF");
        bucket.manifest(&[
            "{\"source_id\": \"11805134\", \"s3_key\": \"hkex/11805134.pdf\"}",
            "{\"source_id\": \"404\", \"s3_key\": \"hkex/404.pdf\"}",
            "s3://pages/hkex/11805136.pdf",
            "{\"source_id\": 7}",
            "hkex/11805137.pdf",
            "hkex/11805135.pdf",
        ]);
        let detect = || {
            let mut command = bucket.detect_manifest(&["--chunk-size", "4", "--json"]);
            command
                .env("DATABASE_URL", database.owner())
                .env("OCR_QUEUE_URL", &queue.url);
            finish(command).exits(1)
        };
        let first = detect();
        let lines: Vec<Value> = first
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let files: Vec<&str> = lines.iter().map(|line| line["file"].as_str().unwrap()).collect();
        let (one, other) = ("s3://pages/hkex/11805134.pdf", "s3://pages/hkex/11805135.pdf");
        assert_eq!(files, [one, one, one, other, other]);
        for said in [
            "chunk 1 of 2: 4 filings, 3 failed; 3 pages, 1 to be read; 1 request\n",
            "chunk 2 of 2: 2 filings, 1 failed; 2 pages, 2 to be read; 1 request\n",
            "error: s3://pages/hkex/404.pdf: it does not exist\n",
            "error: manifest s3://pages/lists/hkex.jsonl, line 4: {\"source_id\": 7}: missing field `s3_key`",
        ] {
            assert!(first.stderr.contains(said), "{said}: {}", first.stderr);
        }
        for failed in ["hkex/11805136.pdf", "hkex/11805137.pdf"] {
            let line = first
                .stderr
                .lines()
                .find(|line| line.starts_with("error: ") && line.contains(failed));
            assert!(line.is_some(), "{failed}: {}", first.stderr);
        }
        let row =
            |exchange: &str, id: &str, pages: &[i32]| (exchange.to_owned(), id.to_owned(), pages.to_vec());
        assert_eq!(
            database.rows(&bucket),
            [
                row("HKEX", "11805134", &[3]),
                row("HKEX", "11805135", &[1, 2]),
                row("HKEX", "11805136", &[8]),
                row("SGX", "11805134", &[9]),
            ],
            "what cannot be judged keeps its list"
        );
        let expected = [request("11805134", &[3]), request("11805135", &[1, 2])];
        assert_eq!(without_time(queue.take(&bucket)), expected);

        let second = detect();
        assert!(
            second.stderr.contains("chunk 1 of 2 goes on: 1 of 4 filings"),
            "{}",
            second.stderr
        );
        assert_eq!(
            queue.take(&bucket),
            [json!(null); 0],
            "what was done is not done again"
        );
        let mut again = bucket.detect_manifest(&["--again", "--queue", &queue.url]);
        // A filing that was repaired has no pages to be read any more.
        bucket.put("hkex/11805135.pdf", &single_page());
        again.env("DATABASE_URL", database.owner());
        finish(again).exits(1);
        assert_eq!(without_time(queue.take(&bucket)), expected[..1]);
        assert_eq!(database.rows(&bucket)[1], row("HKEX", "11805135", &[]));
    }
}

/// Rows: 131, 146.
#[test]
#[ignore = "needs ministack beside $PYTHON: tests/python/requirements.txt"]
fn a_request_has_as_many_pages_as_it_may_over_sqs() {
    let bucket = Bucket::new();
    let queue = Queue::new(&bucket, "ocr-pages");
    let ask = |size: &str| {
        let mut command = bucket.detect(&["s3://pages/hkex/11805135.pdf", "--exchange", "HKEX"]);
        command
            .env("OCR_QUEUE_URL", &queue.url)
            .env("OCR_PAGE_CHUNK_SIZE", size);
        finish(command)
    };
    for size in ["4", "21"] {
        let refused = ask(size).exits(1).stderr;
        assert!(
            refused.contains("OCR_PAGE_CHUNK_SIZE") && refused.contains("5 to 20"),
            "{refused}"
        );
    }
    bucket.put("hkex/11805135.pdf", &many_pages(12));
    let done = ask("5").exits(0);
    assert!(
        done.stderr
            .contains("s3://pages/hkex/11805135.pdf: 12 pages, 12 to be read; 3 requests\n"),
        "{}",
        done.stderr
    );
    let mut pages: Vec<Vec<u32>> = queue
        .take(&bucket)
        .iter()
        .map(|message| serde_json::from_value(message["broken_pages"].clone()).unwrap())
        .collect();
    pages.sort();
    assert_eq!(pages, [vec![1, 2, 3, 4, 5], vec![6, 7, 8, 9, 10], vec![11, 12]]);

    let mut local = bucket.detect(&["local.pdf", "--exchange", "HKEX", "--queue", &queue.url]);
    std::fs::write(bucket.path("local.pdf"), pdf("letter_form.pdf")).unwrap();
    let refused = finish(local).exits(1).stderr;
    assert!(refused.contains("it is in no bucket"), "{refused}");
    local = bucket.detect(&[
        "local.pdf",
        "--exchange",
        "HKEX",
        "--queue",
        &queue.url,
        "--ocr-queue=false",
    ]);
    finish(local).exits(0);
    assert_eq!(queue.take(&bucket), [json!(null); 0]);
}

/// A PDF of so many pages, each a black square.
fn many_pages(pages: usize) -> Vec<u8> {
    let kids: Vec<String> = (0..pages).map(|page| format!("{} 0 R", page + 4)).collect();
    let mut file = format!(
        "%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Count {pages}/Kids[{}]>>\nendobj\n\
         3 0 obj\n<</Length 22>>\nstream\n20 20 80 40 re f      \nendstream\nendobj\n",
        kids.join(" ")
    );
    for page in 0..pages {
        file += &format!(
            "{} 0 obj\n<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 3 0 R>>\nendobj\n",
            page + 4
        );
    }
    file += "trailer\n<</Root 1 0 R>>\n%%EOF\n";
    file.into_bytes()
}
