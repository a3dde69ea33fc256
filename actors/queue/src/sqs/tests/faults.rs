use parkhang_core::domain::ErrorCategory;

use super::*;
use crate::limits::MAX_BATCH;
use crate::{NewMessage, QueueError, QueueServer, QueueSpec, ReceiptStatus, Receive, TaskQueue};

const HOLD: Duration = Duration::from_secs(30);

/// Gives up soon on a server that says nothing.
fn impatient(endpoint: &Endpoint) -> SqsOptions {
    SqsOptions {
        answer_timeout: Duration::from_millis(500),
        patience: Duration::from_secs(10),
        ..options(endpoint)
    }
}

async fn queue(options: &SqsOptions, name: &str) -> Arc<dyn TaskQueue> {
    connect(options)
        .await
        .create(&QueueSpec::new(name))
        .await
        .unwrap()
}

fn grouped(body: &str, group: &str) -> NewMessage {
    NewMessage::new(body).in_group(group, body)
}

/// Rows: U22.
#[tokio::test]
async fn overload_and_silence_are_ridden_out() {
    let endpoint = Endpoint::start().await;
    let queue = queue(&impatient(&endpoint), "q").await;
    for fault in [
        Fault::Refuse(400, "RequestThrottled"),
        Fault::Refuse(503, "ServiceUnavailable"),
        Fault::Refuse(500, ""),
        Fault::Silence,
    ] {
        for action in [
            "SendMessageBatch",
            "ReceiveMessage",
            "ChangeMessageVisibilityBatch",
            "DeleteMessageBatch",
        ] {
            endpoint.faults().plan(action, &[fault, fault]);
        }
        queue.send(NewMessage::new("x")).await.unwrap();
        let delivery = queue.receive(Receive::one(HOLD)).await.unwrap().remove(0);
        assert_eq!(delivery.receives, 1, "{fault:?}");
        queue.extend(&delivery.receipt, HOLD).await.unwrap();
        assert_eq!(
            queue.delete(&delivery.receipt).await.unwrap(),
            ReceiptStatus::Honoured
        );
    }
}

#[tokio::test]
async fn only_the_entries_that_failed_are_sent_again() {
    let endpoint = Endpoint::start().await;
    let queue = queue(&options(&endpoint), "q.fifo").await;
    endpoint.faults().plan("SendMessageBatch", &[Fault::FailEntries]);
    let messages: Vec<NewMessage> = (0..6)
        .map(|place| grouped(&format!("m{place}"), &format!("g{place}")))
        .collect();
    let sent = queue.send_all(&messages).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    let faults = endpoint.faults();
    let entries: Vec<usize> = faults
        .of("SendMessageBatch")
        .iter()
        .map(|request| request["Entries"].as_array().unwrap().len())
        .collect();
    assert_eq!(entries, [6, 3]);
}

/// Rows: 53.
#[tokio::test]
async fn a_group_is_in_order_although_a_part_of_its_batch_failed() {
    let endpoint = Endpoint::start().await;
    let queue = queue(&options(&endpoint), "q.fifo").await;
    endpoint
        .faults()
        .plan("SendMessageBatch", &[Fault::FailEntries, Fault::FailEntries]);
    let bodies = ["a1", "b1", "a2", "b2", "b3"];
    let messages = bodies.map(|body| grouped(body, &body[..1]));
    for sent in queue.send_all(&messages).await {
        sent.unwrap();
    }
    let received = queue.receive(Receive::one(HOLD).up_to(MAX_BATCH)).await.unwrap();
    for group in ["a", "b"] {
        let of_group = received
            .iter()
            .filter(|delivery| delivery.body.starts_with(group));
        let sent = bodies.iter().filter(|body| body.starts_with(group));
        assert!(of_group.map(|delivery| delivery.body.as_str()).eq(sent.copied()));
    }
}

#[tokio::test]
async fn a_receive_whose_answer_is_lost_gets_the_same_messages_of_a_fifo_queue() {
    let endpoint = Endpoint::start().await;
    let queue = queue(&options(&endpoint), "q.fifo").await;
    queue.send(grouped("x", "g")).await.unwrap();
    endpoint.faults().plan("ReceiveMessage", &[Fault::LoseAnswer]);
    let delivery = queue.receive(Receive::one(HOLD)).await.unwrap().remove(0);
    assert_eq!((delivery.body.as_str(), delivery.receives), ("x", 1));
    // Another receive is another request.
    assert!(queue.receive(Receive::one(HOLD)).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_request_that_keeps_failing_ends_at_the_deadline_and_says_so() {
    let endpoint = Endpoint::start().await;
    let mut options = options(&endpoint);
    options.patience = Duration::from_millis(300);
    let queue = queue(&options, "q").await;
    endpoint
        .faults()
        .come_round(1, vec![Fault::Refuse(400, "RequestThrottled")]);
    let messages = ["a", "b"].map(NewMessage::new);
    for sent in queue.send_all(&messages).await {
        let error = sent.unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Network);
        assert!(
            matches!(&error, QueueError::Remote { attempts: 2.., .. }),
            "{error}"
        );
        assert!(error.to_string().contains("RequestThrottled"), "{error}");
    }
    let error = queue.receive(Receive::one(HOLD)).await.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Network);

    endpoint
        .faults()
        .come_round(1, vec![Fault::Refuse(403, "AccessDenied")]);
    let before = endpoint.faults().of("ReceiveMessage").len();
    let error = queue.receive(Receive::one(HOLD)).await.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Config);
    assert_eq!(
        endpoint.faults().of("ReceiveMessage").len(),
        before + 1,
        "a closed door is closed"
    );

    endpoint
        .faults()
        .come_round(1, vec![Fault::Refuse(403, "OverLimit")]);
    let error = queue.receive(Receive::one(HOLD)).await.unwrap_err();
    assert!(matches!(error, QueueError::InFlight { .. }), "{error}");
    drop(endpoint);
    let error = queue.counts().await.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Network);
}

/// Whoever puts a message aside and dies, or loses an answer, leaves it in one of the queues or both, and once in each.
#[tokio::test]
async fn a_dead_letter_is_sent_once_whatever_is_lost() {
    let endpoint = Endpoint::start().await;
    let queue = queue(&options(&endpoint), "q.fifo").await;
    queue.send(grouped("x", "g")).await.unwrap();
    let first = queue
        .receive(Receive::one(Duration::from_secs(1)))
        .await
        .unwrap()
        .remove(0);
    let letters = queue.dead_letters().await.unwrap();
    endpoint.faults().plan("SendMessageBatch", &[Fault::LoseAnswer]);
    // It dies before it deletes.
    let refusal = [Fault::Refuse(403, "AccessDenied")];
    endpoint.faults().plan("DeleteMessageBatch", &refusal);
    queue.dead_letter(&first, "bad").await.unwrap_err();
    let again = Receive::one(HOLD).waiting(Duration::from_secs(10));
    let second = queue.receive(again).await.unwrap().remove(0);
    assert_eq!(
        queue.dead_letter(&second, "bad").await.unwrap(),
        ReceiptStatus::Honoured
    );
    let letters = letters.receive(Receive::one(HOLD).up_to(10)).await.unwrap();
    assert_eq!(letters.len(), 1);
}

/// A move that failed without a word is done by hand; one that began is left to the server.
/// Rows: U18.
#[tokio::test]
async fn messages_leave_a_dead_letter_queue_though_the_server_cannot_move_them() {
    use crate::Redrive;
    let endpoint = Endpoint::start().await;
    let mut options = options(&endpoint);
    options.patience = Duration::from_secs(1);
    let queue = queue(&options, "q").await;
    let letters = queue.dead_letters().await.unwrap();
    for place in 0..23 {
        letters.send(NewMessage::new(format!("m{place}"))).await.unwrap();
    }
    endpoint
        .faults()
        .plan("StartMessageMoveTask", &[Fault::Refuse(400, "InvalidAction")]);
    assert_eq!(
        letters.redrive(&*queue).await.unwrap(),
        Redrive::Moved { messages: 23 }
    );
    assert_eq!(queue.counts().await.unwrap().visible, 23);
    let speechless = [Fault::Refuse(500, ""); 100];
    endpoint.faults().plan("StartMessageMoveTask", &speechless);
    assert_eq!(
        letters.redrive(&*queue).await.unwrap(),
        Redrive::Moved { messages: 0 }
    );
}
