//! Encoding of message bodies, which no other module knows: bincode with variable-length integers. Bincode writes no names and no
//! types, so an encoded type must be determined by its declaration alone: no untagged enum, no flattened or skipped field, no
//! `serde_json::Value`.

use bincode::config::{self, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::MAX_MESSAGE;

/// Limit on the bytes that decoding allocates, so that a length which a peer made up is refused. Numbers count with their decoded
/// size, so an honest message needs more than its own length.
const MAX_CLAIM: usize = 16 * MAX_MESSAGE;

fn config() -> impl Config {
    config::standard().with_limit::<MAX_CLAIM>()
}

/// Appends the encoded message to `bytes`.
pub(super) fn encode<M: Serialize>(message: &M, bytes: &mut Vec<u8>) -> Result<(), String> {
    bincode::serde::encode_into_std_write(message, bytes, config())
        .map(|_| ())
        .map_err(|error| error.to_string())
}

/// Reads a message that fills `bytes` exactly.
pub(super) fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, String> {
    match bincode::serde::decode_from_slice(bytes, config()) {
        Ok((message, read)) if read == bytes.len() => Ok(message),
        Ok((_, read)) => Err(format!("{} bytes after its end", bytes.len() - read)),
        Err(error) => Err(error.to_string()),
    }
}
