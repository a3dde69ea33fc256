//! Cost of a message in the queue in memory, beside a backlog: sent, received, extended and deleted. The backlog stays as long as it
//! was, in as many groups as messages or in a hundred, of which half, a thousand at most, have a message that is held.

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use parkhang_queue::{MemoryServer, NewMessage, QueueServer, QueueSpec, Receive, TaskQueue};
use tokio::runtime::Runtime;

const HOLD: Duration = Duration::from_secs(3600);

/// A queue with so many messages in so many groups.
struct Backlog {
    queue: Arc<dyn TaskQueue>,
    sent: usize,
}

impl Backlog {
    async fn new(messages: usize, groups: usize) -> Self {
        let queue = MemoryServer::new()
            .create(&QueueSpec::new("bench.fifo"))
            .await
            .unwrap();
        let mut backlog = Self { queue, sent: 0 };
        for number in 0..messages {
            backlog.send((number % groups).to_string()).await;
        }
        for _ in 0..(groups / 2).min(1_000) {
            backlog.queue.receive(Receive::one(HOLD)).await.unwrap();
        }
        backlog
    }

    async fn send(&mut self, group: String) {
        let message = NewMessage::new("x").in_group(group, self.sent.to_string());
        self.queue.send(message).await.unwrap();
        self.sent += 1;
    }

    /// One message goes, and another one of its group comes.
    async fn exchange(&mut self) {
        let delivery = self.queue.receive(Receive::one(HOLD)).await.unwrap().remove(0);
        self.queue.extend(&delivery.receipt, HOLD).await.unwrap();
        self.queue.delete(&delivery.receipt).await.unwrap();
        self.send(delivery.fifo.unwrap().group).await;
    }
}

fn memory(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("memory queue");
    group.throughput(Throughput::Elements(1));
    group.sample_size(10);
    for messages in [1_000, 10_000, 100_000] {
        for groups in [100, messages] {
            let mut backlog = runtime.block_on(Backlog::new(messages, groups));
            let name = BenchmarkId::new(format!("{groups} groups"), messages);
            group.bench_function(name, |bencher| {
                bencher.iter(|| runtime.block_on(backlog.exchange()))
            });
        }
    }
    group.finish();
}

criterion_group!(benches, memory);
criterion_main!(benches);
