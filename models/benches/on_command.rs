//! Runs networks when it is told to on standard input, so that a program beside it can measure the time that they take:
//! `compare_with_onnxruntime.py` does.
//!
//! A command is the name of a network and how many times to run it. The networks are the shipped ones and those in the
//! folder that `NETWORKS` names.

#![expect(clippy::expect_used, reason = "a bench has nobody to report an error to")]

mod networks_of;

use std::io::stdin;

use networks_of::networks;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let networks = networks();
    for command in stdin().lines() {
        let command = command.expect("a command");
        let mut words = command.split(' ');
        let (name, times) = (words.next(), words.next().and_then(|times| times.parse().ok()));
        let network = networks.iter().find(|network| Some(network.name) == name);
        let network = network.expect("a network of this name");
        for _ in 0..times.unwrap_or(1) {
            network.run();
        }
        println!("{}", network.name);
    }
}
