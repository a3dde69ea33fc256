//! The store against a server in this process and, where the environment names one, against another.

mod external;
mod faults;
mod reading;
mod writing;

use std::time::Duration;

use bytes::Bytes;
use parkhang_test_s3::{ACCESS_KEY, BUCKET, Endpoint, SECRET_KEY};

use super::super::{ArtifactKey, StorageError};
use super::{S3Options, S3Store};

/// Patient enough for a busy machine, and quick to try again.
fn options(endpoint: &Endpoint) -> S3Options {
    let mut options = S3Options::new(BUCKET).with_endpoint(&endpoint.url);
    options.region = Some("us-east-1".to_owned());
    options.backoff = Duration::from_millis(1);
    options.part_bytes = 5 << 20;
    options
}

/// Gives up soon on a server that says nothing.
fn impatient(endpoint: &Endpoint) -> S3Options {
    S3Options {
        answer_timeout: Duration::from_millis(500),
        stall_timeout: Duration::from_millis(500),
        ..options(endpoint)
    }
}

async fn connect(options: S3Options, secret: &str) -> S3Store {
    S3Store::open_with_keys(options, ACCESS_KEY, secret)
        .await
        .unwrap()
}

pub(in crate::storage) async fn store_at(endpoint: &Endpoint) -> S3Store {
    connect(options(endpoint), SECRET_KEY).await
}

/// Options for servers of which a request may meet fault upon fault.
pub(in crate::storage) async fn stubborn_store_at(endpoint: &Endpoint) -> S3Store {
    let options = S3Options {
        attempts: 16,
        ..options(endpoint)
    };
    connect(options, SECRET_KEY).await
}

fn key(text: &str) -> ArtifactKey {
    ArtifactKey::new(text).unwrap()
}

/// Bytes in which no two stretches are alike.
fn noise(length: usize) -> Bytes {
    let step = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 24) as u8)
    };
    (0..length).scan(7, |state, _| step(state)).collect()
}

#[track_caller]
fn code_of(error: &StorageError) -> &str {
    match error {
        StorageError::Remote { code, .. } => code,
        other => panic!("not an error of the server: {other}"),
    }
}
