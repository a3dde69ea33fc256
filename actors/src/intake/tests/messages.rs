//! Reading of messages, against what the archive's program sends and reads.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::time::Instant;

use super::*;

/// A message as SQS delivers it, of its fields in the protocol.
fn delivery(message: &Value) -> Delivery {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attribute = |(name, value): (&String, &Value)| {
        let attribute = match value["StringValue"].as_str() {
            Some(text) => Attribute::Text(text.to_owned()),
            None => Attribute::Binary(Bytes::from_static(b"x")),
        };
        (name.clone(), attribute)
    };
    let attributes = message["MessageAttributes"].as_object();
    Delivery {
        id: text(&message["MessageId"]),
        receipt: Receipt {
            handle: text(&message["ReceiptHandle"]),
            received: Instant::now(),
        },
        // Entries that are sent and messages that are received name it differently.
        body: message["Body"]
            .as_str()
            .or(message["MessageBody"].as_str())
            .unwrap_or_default()
            .to_owned(),
        attributes: attributes
            .into_iter()
            .flatten()
            .map(attribute)
            .collect::<BTreeMap<_, _>>(),
        fifo: None,
        sequence: None,
        receives: 1,
        sent: None,
        moved_from: None,
    }
}

/// Text of an id, which is a number in some bodies.
fn id(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Rows: U15.
#[tokio::test]
async fn messages_are_read_as_the_archive_reads_them() {
    let (mut read, mut refused) = (0, 0);
    for case in golden("receive_cases.jsonl") {
        let message = VolumeMessage::read(&delivery(&case["message"]));
        let expected = &case["expect"]["volume"];
        if case["expect_error"].is_object() {
            let volume = message.and_then(|message| message.volume());
            assert!(volume.is_err(), "{case}");
            refused += 1;
            continue;
        }
        let expected = VolumeMessage {
            w_id: id(&expected["w_id"]).unwrap(),
            i_id: id(&expected["i_id"]).unwrap(),
            source: id(&expected["source"]).unwrap(),
            i_version: id(&expected["i_version"]),
        };
        assert_eq!(message, Ok(expected), "{case}");
        read += 1;
    }
    assert!(read >= 18 && refused >= 12, "{read} {refused}");
}

/// Each entry that `bec queue enqueue` sends is read alike with its attributes, by its body alone, and by its attributes alone.
#[tokio::test]
async fn what_is_enqueued_is_read_in_every_version_of_the_message() {
    let mut read = 0;
    for case in golden("enqueue_cases.jsonl") {
        let batches = case["batches"].as_array().unwrap().iter();
        for entry in batches.flat_map(|batch| batch.as_array().unwrap()) {
            let whole = delivery(entry);
            let message = VolumeMessage::read(&whole).unwrap();
            let body: Value = serde_json::from_str(&whole.body).unwrap();
            assert_eq!(Some(&message.w_id), id(&body["w_id"]).as_ref());
            assert_eq!(message.source, id(&body["source"]).unwrap_or("bdrc".to_owned()));
            let mut old = whole.clone();
            old.attributes.clear();
            assert_eq!(VolumeMessage::read(&old).as_ref(), Ok(&message), "{entry}");
            for body in ["", "any text", "[]", "null", "3"] {
                let mut bare = whole.clone();
                bare.body = body.to_owned();
                assert_eq!(VolumeMessage::read(&bare).as_ref(), Ok(&message), "{entry}");
            }
            read += 1;
        }
    }
    assert!(read >= 20, "{read}");
}

#[tokio::test]
async fn a_message_names_a_volume_of_its_source() {
    let volume = |w_id: &str, source: &str, version: Option<&str>| {
        let message = VolumeMessage {
            w_id: w_id.to_owned(),
            i_id: "I0886".to_owned(),
            source: source.to_owned(),
            i_version: version.map(str::to_owned),
        };
        message.volume().map(|volume| volume.to_string())
    };
    assert_eq!(volume("W22084", "bdrc", None).unwrap(), "W22084-I0886");
    // The archive has one version of a volume, the latest, whatever a message says.
    assert_eq!(volume("W22084", "bdrc", Some("7")).unwrap(), "W22084-I0886");
    assert_eq!(
        volume("W22084", "ocr_benchmark", Some("202603")).unwrap(),
        "ocr_benchmark:W22084-I0886-202603"
    );
    for (w_id, source, version) in [
        ("W22084", "ocr_benchmark", None),
        ("W22084", "#", None),
        ("\u{feff}W22084", "bdrc", None),
        ("\"W22084\"", "bdrc", None),
        ("དཔེ", "bdrc", None),
        (" W22084 ", "bdrc", None),
    ] {
        assert!(volume(w_id, source, version).is_err(), "{w_id} {source}");
    }
}

/// Messages that anybody may put into a queue: each names a volume or is refused.
#[tokio::test]
async fn fuzz_requests() {
    let corpus = golden("receive_cases.jsonl")
        .into_iter()
        .map(|case| case["message"].to_string());
    parkhang_fuzz::Fuzz::of_texts("requests", corpus).feeds_texts(|text| {
        if let Ok(message) = serde_json::from_str::<Value>(text) {
            let _ = VolumeMessage::read(&delivery(&message)).and_then(|message| message.volume());
        }
    });
}

#[test]
fn a_message_of_many_levels_is_malformed_and_nothing_else() {
    let deep = "[".repeat(100_000);
    for body in [
        deep.clone(),
        format!("{{\"w_id\":\"W1\",\"i_id\":{deep}"),
        format!("{{\"broken_pages\":{deep}"),
    ] {
        let mut delivery = delivery(&json!({}));
        delivery.body = body;
        assert!(VolumeMessage::read(&delivery).is_err());
        assert!(PageMessage::read(&delivery.body).is_err());
        assert!(request::requests(&delivery, None).is_err());
    }
}
