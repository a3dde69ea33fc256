//! Order in which a run works on its volumes.

use std::time::SystemTime;

use crate::site::put_pages;
use crate::support::{Fixture, layout};

#[test]
fn volumes_are_read_before_lines_are_found_in_all() {
    let fixture = Fixture::new();
    let volumes = ["W1-I1", "W1-I2", "W1-I3", "W1-I4"];
    for (number, volume) in (0..).zip(volumes) {
        put_pages(&fixture.pages().join(volume), number, 2);
    }
    fixture.read(&[]).exits(0);
    let written = |key: &dyn Fn(&str) -> String| -> Vec<SystemTime> {
        let time = |volume: &&str| {
            let table = fixture.out().join(key(volume));
            table.metadata().unwrap().modified().unwrap()
        };
        let mut times: Vec<SystemTime> = volumes.iter().map(time).collect();
        times.sort_unstable();
        times
    };
    let found = written(&|volume| layout(volume).line_detection().to_string());
    let read = written(&|volume| layout(volume).ocr_results().to_string());
    assert!(
        read[0] < found[2],
        "a third volume is begun when one of the first two is read"
    );
}
