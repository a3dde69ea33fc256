//! Signatures of webhooks: `X-Signature: sha256=HMAC(secret, timestamp "." body)` beside `X-Timestamp`.

use aws_lc_rs::hmac;
use chrono::{DateTime, TimeDelta, Utc};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

/// Header with the signature.
pub const SIGNATURE: &str = "x-signature";
/// Header with the time at which it was made, in seconds since 1970.
pub const TIMESTAMP: &str = "x-timestamp";

const SCHEME: &str = "sha256=";
/// Age of a signature, into the past and the future, up to which it is taken.
const MAX_AGE: TimeDelta = TimeDelta::minutes(5);
/// Timestamps from here on are in milliseconds: in seconds they would lie beyond the year 5000.
const FIRST_MILLISECONDS: i64 = 100_000_000_000;

/// Reason why a webhook is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("there is no {TIMESTAMP}, or it is no time in seconds since 1970")]
    NoTime,
    #[error("the time of the signature is more than 5 minutes away")]
    Stale,
    #[error("there is no {SIGNATURE} of the form {SCHEME}HEX")]
    NoSignature,
    #[error("the signature is not that of the body")]
    Wrong,
}

/// Returns the signature of a body, for [`SIGNATURE`]; `timestamp` is the text of [`TIMESTAMP`].
pub fn sign(secret: &SecretString, timestamp: &str, body: &[u8]) -> String {
    format!("{SCHEME}{}", hex::encode(digest(secret, timestamp, body)))
}

/// Checks that whoever knows the secret has signed a body a moment ago.
///
/// # Errors
///
/// [`SignatureError`] if not.
pub fn verify(
    secret: &SecretString,
    timestamp: Option<&str>,
    signature: Option<&str>,
    body: &[u8],
    now: DateTime<Utc>,
) -> Result<(), SignatureError> {
    let text = timestamp.ok_or(SignatureError::NoTime)?;
    let made_at = time_of(text).ok_or(SignatureError::NoTime)?;
    let given = signature.and_then(|signature| signature.strip_prefix(SCHEME));
    let given = given.and_then(|given| hex::decode(given).ok());
    let given = given.ok_or(SignatureError::NoSignature)?;
    let is_same: bool = digest(secret, text, body)
        .as_slice()
        .ct_eq(given.as_slice())
        .into();
    if !is_same {
        return Err(SignatureError::Wrong);
    }
    // Last, so that the time is told to nobody who does not know the secret.
    match (now - made_at).abs() <= MAX_AGE {
        true => Ok(()),
        false => Err(SignatureError::Stale),
    }
}

fn time_of(text: &str) -> Option<DateTime<Utc>> {
    match text.trim().parse().ok()? {
        milliseconds @ FIRST_MILLISECONDS.. => DateTime::from_timestamp_millis(milliseconds),
        seconds => DateTime::from_timestamp(seconds, 0),
    }
}

fn digest(secret: &SecretString, timestamp: &str, body: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(timestamp.as_bytes());
    context.update(b".");
    context.update(body);
    context.sign().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(NOW + seconds, 0).unwrap()
    }

    fn secret() -> SecretString {
        SecretString::from("secret")
    }

    /// The value is that of `printf '1700000000.{}' | openssl dgst -sha256 -hmac secret`.
    ///
    /// Rows: 232.
    #[test]
    fn a_signature_is_that_of_other_programs() {
        let signature = sign(&secret(), &NOW.to_string(), b"{}");
        assert_eq!(signature, KNOWN);
    }

    const KNOWN: &str = "sha256=b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163";

    /// Rows: 232.
    #[test]
    fn a_signature_is_taken_for_five_minutes_and_for_its_body_alone() {
        let signature = sign(&secret(), &NOW.to_string(), b"body");
        let verified = |time: Option<&str>, signature: Option<&str>, body: &[u8], now| {
            verify(&secret(), time, signature, body, at(now))
        };
        let time = NOW.to_string();
        let (time, signature) = (Some(time.as_str()), Some(signature.as_str()));
        for now in [-300, 0, 300] {
            assert_eq!(verified(time, signature, b"body", now), Ok(()));
        }
        for now in [-301, 301] {
            assert_eq!(
                verified(time, signature, b"body", now),
                Err(SignatureError::Stale)
            );
        }
        assert_eq!(verified(time, signature, b"bodY", 0), Err(SignatureError::Wrong));
        let later = (NOW + 1).to_string();
        assert_eq!(
            verified(Some(&later), signature, b"body", 0),
            Err(SignatureError::Wrong)
        );
        let cut = signature.map(|signature| &signature[..signature.len() - 2]);
        assert_eq!(verified(time, cut, b"body", 0), Err(SignatureError::Wrong));
        assert_eq!(verified(time, None, b"body", 0), Err(SignatureError::NoSignature));
        assert_eq!(
            verified(time, Some("md5=00"), b"body", 0),
            Err(SignatureError::NoSignature)
        );
        assert_eq!(verified(None, signature, b"body", 0), Err(SignatureError::NoTime));
        assert_eq!(
            verified(Some("now"), signature, b"body", 0),
            Err(SignatureError::NoTime)
        );
        let other = verify(&SecretString::from("other"), time, signature, b"body", at(0));
        assert_eq!(other, Err(SignatureError::Wrong));
    }

    #[test]
    fn milliseconds_are_taken_too() {
        let time = format!("{NOW}000");
        let signature = sign(&secret(), &time, b"body");
        assert_eq!(
            verify(&secret(), Some(&time), Some(&signature), b"body", at(1)),
            Ok(())
        );
    }

    proptest! {
        #[test]
        fn whatever_is_signed_verifies_and_nothing_panics(
            body in prop::collection::vec(any::<u8>(), 0..50), time in "\\PC{0,12}", signature in "\\PC{0,80}",
        ) {
            let now = NOW.to_string();
            let own = sign(&secret(), &now, &body);
            prop_assert_eq!(verify(&secret(), Some(&now), Some(&own), &body, at(0)), Ok(()));
            prop_assert!(verify(&secret(), Some(&time), Some(&signature), &body, at(0)).is_err());
        }
    }

    /// Nothing that was changed is taken for what was signed.
    #[test]
    fn fuzz_signatures() {
        let body = br#"{"leadId":"7"}"#;
        let signed = |time: String| format!("{time}\n{}", sign(&secret(), &time, body));
        let corpus = [signed(NOW.to_string()), signed(format!("{NOW}000"))];
        let known = corpus.clone();
        parkhang_fuzz::Fuzz::of_texts("signatures", corpus).feeds_texts(|text| {
            let (time, signature) = text.split_once('\n').unwrap_or((text, ""));
            let verified = verify(&secret(), Some(time), Some(signature), body, at(1));
            let is_known = known.iter().any(|known| known.eq_ignore_ascii_case(text));
            assert!(verified.is_err() || is_known, "{text:?}");
        });
    }
}
