//! Reading and writing of messages about pages.

use proptest::prelude::*;

use chrono::DateTime;

use super::*;
use parkhang_core::domain::{PageSet, VolumeId};
use parkhang_store::storage::ArtifactKey;

/// The example of the form's document.
const EXAMPLE: &str = r#"{
  "version": 1,
  "exchange": "HKEX",
  "source_id": "11805134",
  "s3_bucket": "pdfs-128638789653",
  "s3_key": "hkex/2026/11805134.pdf",
  "broken_pages": [3,4,5,6],
  "submitted_at": "2026-02-18T00:00:00Z"
}"#;

fn example() -> Value {
    serde_json::from_str(EXAMPLE).unwrap()
}

/// Rows: 129.
#[test]
fn the_example_of_version_1_is_read_and_written() {
    let message = PageMessage::read(EXAMPLE).unwrap();
    assert_eq!(message.document.to_string(), "HKEX-11805134");
    assert_eq!(message.place.bucket, "pdfs-128638789653");
    assert_eq!(message.place.key.as_str(), "hkex/2026/11805134.pdf");
    assert_eq!(message.pages.to_string(), "3-6");
    let written: Value = serde_json::from_str(&message.to_json().unwrap()).unwrap();
    assert_eq!(written, example());
}

/// Rows: 130, 144.
#[test]
fn a_message_without_a_field_or_with_an_unusable_one_says_which() {
    for field in example().as_object().unwrap().keys() {
        let mut body = example();
        body.as_object_mut().unwrap().remove(field);
        let error = PageMessage::read(&body.to_string()).unwrap_err();
        assert!(error.to_string().contains(field.as_str()), "{field}: {error}");
    }
    for (field, value, reason) in [
        ("version", json!(2), "version 2"),
        ("exchange", json!("../x"), "W id"),
        ("source_id", json!(""), "I id"),
        ("source_id", json!("1@3"), "document"),
        ("source_id", json!(11_805_134), "invalid type"),
        ("s3_bucket", json!(""), "s3_bucket"),
        ("s3_key", json!("a/../b.pdf"), "s3_key"),
        ("broken_pages", json!([]), "broken_pages"),
        ("broken_pages", json!([0, 1]), "broken_pages"),
        ("broken_pages", json!([-1]), "invalid value"),
        (
            "broken_pages",
            json!((1..=10_001).collect::<Vec<_>>()),
            "broken_pages",
        ),
        ("submitted_at", json!("yesterday"), "submitted_at"),
    ] {
        let mut body = example();
        body[field] = value;
        let error = PageMessage::read(&body.to_string()).unwrap_err();
        assert!(error.to_string().contains(reason), "{field}: {error}");
    }
    assert!(matches!(PageMessage::read("{"), Err(MalformedPages::Body(_))));
}

#[test]
fn a_time_without_a_zone_is_utc() {
    let mut body = example();
    body["submitted_at"] = json!("2026-02-18T01:02:03.500000");
    let message = PageMessage::read(&body.to_string()).unwrap();
    assert_eq!(message.submitted_at.to_rfc3339(), "2026-02-18T01:02:03.500+00:00");
}

/// Rows: 131, 156.
#[test]
fn a_message_has_5_to_20_pages_and_10_by_default() {
    assert_eq!(ChunkSize::default().get(), 10);
    let sizes = (0..30).filter_map(ChunkSize::new).map(ChunkSize::get);
    assert_eq!(sizes.collect::<Vec<_>>(), (5..=20).collect::<Vec<_>>());
}

/// A world whose scans are in the bucket of the example.
async fn world_of_pdfs(prefix: Option<&str>) -> World {
    let world = World::new().await;
    let scans = ScanBucket {
        name: "pdfs-128638789653".to_owned(),
        prefix: prefix.map(str::to_owned),
    };
    World {
        intake: world.intake.with_documents_in(scans),
        ..world
    }
}

/// Volumes and documents of the tasks.
fn places(tasks: &[Task]) -> Vec<(String, String)> {
    let place = |task: &Task| task.document.clone().map_or_else(String::new, String::from);
    tasks
        .iter()
        .map(|task| (task.volume.to_string(), place(task)))
        .collect()
}

/// Rows: 145, 151.
#[tokio::test(start_paused = true)]
async fn a_message_becomes_a_task_for_its_pages_and_the_same_pages_none() {
    let world = world_of_pdfs(None).await;
    world.send(EXAMPLE).await;
    assert_eq!(world.take_all().await, 1);
    let expected = [(
        "HKEX-11805134@3-6".to_owned(),
        "hkex/2026/11805134.pdf".to_owned(),
    )];
    assert_eq!(places(&world.tasks().await), expected);
    // Published again, with the pages in another order.
    let mut again = example();
    again["broken_pages"] = json!([6, 5, 4, 3, 3]);
    world.send(&again.to_string()).await;
    assert_eq!(world.take_all().await, 1);
    assert_eq!(places(&world.tasks().await), expected);
    assert_eq!(world.counts().await.2, 0, "no letter is dead");
}

#[tokio::test(start_paused = true)]
async fn a_message_with_many_pages_becomes_several_tasks() {
    let world = world_of_pdfs(None).await;
    let mut many = example();
    many["broken_pages"] = json!((1..=45).collect::<Vec<_>>());
    world.send(&many.to_string()).await;
    world.take_all().await;
    let tasks = world.tasks().await;
    let pages: Vec<String> = tasks
        .iter()
        .map(|task| task.volume.pages().unwrap().to_string())
        .collect();
    assert_eq!(pages, ["1-20", "21-40", "41-45"]);
}

/// Rows: 130, 144.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_here_is_a_dead_letter_with_the_reason() {
    let world = world_of_pdfs(Some("hkex/2026/")).await;
    for (field, value) in [
        ("s3_bucket", json!("elsewhere")),
        ("s3_key", json!("hkex/2025/1.pdf")),
        ("broken_pages", json!([0])),
    ] {
        let mut body = example();
        body[field] = value;
        world.send(&body.to_string()).await;
    }
    world.send(EXAMPLE).await;
    world.take_all().await;
    let expected = [("HKEX-11805134@3-6".to_owned(), "11805134.pdf".to_owned())];
    assert_eq!(places(&world.tasks().await), expected, "relative to the prefix");
    let reasons = world.reasons().await;
    let [pages, bucket, key] = &reasons[..] else {
        panic!("{reasons:?}")
    };
    assert!(pages.contains("broken_pages"), "{pages}");
    assert!(bucket.contains("elsewhere"), "{bucket}");
    assert!(key.contains("hkex/2025/1.pdf"), "{key}");
}

#[tokio::test(start_paused = true)]
async fn messages_wait_where_the_scans_are_in_no_bucket() {
    let world = World::new().await;
    world.send(EXAMPLE).await;
    let error = world.intake.round().await.unwrap_err().to_string();
    assert!(error.contains("pages.s3.bucket"), "{error}");
    assert_eq!(world.tasks().await, []);
    assert_eq!(world.counts().await.2, 0, "no letter is dead");
}

proptest! {
    /// Rows: 129, 131.
    #[test]
    fn chunks_read_back_and_hold_every_page_once(
        pages in proptest::collection::btree_set(1u32..3000, 1..120), size in 5usize..=20, seconds in 0i64..4_000_000_000,
    ) {
        let message = PageMessage {
            document: VolumeId::new("HKEX", "11805134").unwrap(),
            place: DocumentPlace { bucket: "pdfs".to_owned(), key: ArtifactKey::new("a b/ü.pdf").unwrap() },
            pages: PageSet::of(pages.iter().copied()).unwrap(),
            submitted_at: DateTime::from_timestamp(seconds, 0).unwrap(),
        };
        let size = ChunkSize::new(size).unwrap();
        let all: Vec<u32> = pages.iter().copied().collect();
        let chunks = PageMessage::chunks(&message.document, &message.place, &all, size, message.submitted_at);
        let mut held = Vec::new();
        for chunk in &chunks {
            prop_assert_eq!(&PageMessage::read(&chunk.to_json().unwrap()).unwrap(), chunk);
            prop_assert!(chunk.pages.pages().count() <= size.get());
            prop_assert_eq!(chunk.volumes(), [chunk.document.part(&chunk.pages)], "a chunk is one task");
            held.extend(chunk.pages.pages());
        }
        prop_assert_eq!(held, pages.into_iter().collect::<Vec<_>>());
    }
}
