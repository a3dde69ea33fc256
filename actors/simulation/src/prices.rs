//! Requests to SQS, and what AWS takes for them.

use serde::Serialize;

use parkhang_queue::QueueKind;

/// Requests of an account in a month that cost nothing.
pub const FREE_REQUESTS: u64 = 1_000_000;
/// Dollars for a million requests to standard queues, and to any queue for its settings or its address, in us-east-1 on 24 November
/// 2026: <https://aws.amazon.com/sqs/pricing/>.
pub const STANDARD_PRICE: f64 = 0.40;
/// Dollars for a million requests to FIFO queues about messages, there and then.
pub const FIFO_PRICE: f64 = 0.50;
/// Bytes of a request's messages that are billed as one request; what is longer counts as several.
pub const BILLED_BYTES: u64 = 64 * 1024;
/// Bytes of a message about a task, rounded up generously.
pub const MESSAGE_BYTES: u64 = 1024;

/// Requests to queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QueueRequests {
    /// Messages that were published.
    pub messages: u64,
    /// `SendMessageBatch`, of ten messages at most.
    pub sends: u64,
    /// `ReceiveMessage`.
    pub receives: u64,
    /// Those of them that waited for a message in vain.
    pub empty_receives: u64,
    /// `ChangeMessageVisibilityBatch`: extensions, and messages that were given back.
    pub visibility_changes: u64,
    /// `DeleteMessageBatch`.
    pub deletes: u64,
    /// `GetQueueAttributes`.
    pub looks: u64,
    /// `GetQueueUrl`.
    pub finds: u64,
}

impl QueueRequests {
    /// Requests about messages.
    pub fn about_messages(&self) -> u64 {
        self.sends + self.receives + self.visibility_changes + self.deletes
    }

    /// All requests.
    pub fn total(&self) -> u64 {
        self.about_messages() + self.looks + self.finds
    }

    /// Dollars for these requests, were they all of a month and the only ones of the account.
    pub fn dollars(&self, kind: QueueKind) -> f64 {
        let price = match kind {
            QueueKind::Standard => STANDARD_PRICE,
            QueueKind::Fifo => FIFO_PRICE,
        };
        let others = self.looks + self.finds;
        let messages = self.about_messages().saturating_sub(FREE_REQUESTS);
        let others = others.saturating_sub(FREE_REQUESTS.saturating_sub(self.about_messages()));
        (messages as f64 * price + others as f64 * STANDARD_PRICE) / 1e6
    }
}

/// Requests that one with so many messages about tasks is billed as.
pub(crate) fn billed(messages: u64) -> u64 {
    (messages * MESSAGE_BYTES).div_ceil(BILLED_BYTES).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_million_is_free_and_the_kind_decides_the_price_of_the_rest() {
        let requests = QueueRequests {
            receives: 3_000_000,
            looks: 500_000,
            ..QueueRequests::default()
        };
        assert_eq!(requests.dollars(QueueKind::Fifo), 2.0 * 0.50 + 0.5 * 0.40);
        assert_eq!(requests.dollars(QueueKind::Standard), 2.5 * 0.40);
        let few = QueueRequests {
            sends: 600_000,
            looks: 500_000,
            ..QueueRequests::default()
        };
        assert_eq!(few.dollars(QueueKind::Fifo), 0.04);
        assert_eq!(QueueRequests::default().dollars(QueueKind::Fifo), 0.0);
    }

    #[test]
    fn the_documented_sums_and_prices_are_those_of_the_documented_requests() {
        let page = include_str!("../../../docs/scale.md");
        let cell = |row: &str, column: usize| {
            let begin = format!("| {row}");
            let line = page.lines().find(|line| line.starts_with(&begin)).unwrap();
            line.split('|').nth(column).unwrap().trim().replace(',', "")
        };
        // Three lengths of the wait, behind the name of the request.
        for column in 2..5 {
            let number = |row| -> u64 { cell(row, column).parse().unwrap() };
            let requests = QueueRequests {
                sends: number("SendMessageBatch"),
                receives: number("ReceiveMessage"),
                visibility_changes: number("ChangeMessageVisibilityBatch"),
                deletes: number("DeleteMessageBatch"),
                looks: number("GetQueueAttributes"),
                finds: number("GetQueueUrl"),
                ..QueueRequests::default()
            };
            assert_eq!(requests.total(), number("in all"));
            let [fifo, standard] = [QueueKind::Fifo, QueueKind::Standard].map(|kind| requests.dollars(kind));
            assert_eq!(
                cell("price with FIFO queues", column),
                format!("${fifo:.2} ${standard:.2}")
            );
        }
    }

    #[test]
    fn a_full_batch_of_tasks_is_one_request() {
        assert_eq!((billed(1), billed(10), billed(65)), (1, 1, 2));
    }
}
