//! Time of one network call on one thread of the processor.

#![expect(clippy::expect_used, reason = "a bench has nobody to report an error to")]

mod networks_of;

use criterion::{Criterion, criterion_group, criterion_main};

fn networks(criterion: &mut Criterion) {
    for network in networks_of::networks() {
        criterion.bench_function(network.name, |bencher| bencher.iter(|| network.run()));
    }
}

criterion_group!(benches, networks);
criterion_main!(benches);
