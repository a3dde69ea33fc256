//! Access tokens of Google's service accounts, by the grant of a signed assertion: RFC 7523, as
//! developers.google.com/identity/protocols/oauth2/service-account has it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Uri};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::error::ServiceError;
use crate::settings::{InvalidService, check_url};
use crate::transport::{Bounds, Transport};

/// Right that is asked for: to read images.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-vision";
/// Place of tokens, unless the key names another one.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const GRANT: &str = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
/// Time for which an assertion is good.
const ASSERTED_FOR: TimeDelta = TimeDelta::hours(1);
/// Time before the end of a token at which the next one is asked for.
const EARLY: TimeDelta = TimeDelta::minutes(5);

/// Key of a service account, from the file that Google's console gives out.
struct Key {
    email: String,
    id: Option<String>,
    token_uri: String,
    pair: RsaKeyPair,
}

/// Access tokens of a service account. Each is used for as long as it lasts.
pub(crate) struct AccessTokens {
    key: Key,
    transport: Transport,
    bounds: Bounds,
    grant: Mutex<Grant>,
    /// Number of times that the place of tokens was asked.
    asked: AtomicU64,
}

/// Outcome of the last time that a token was asked for.
#[derive(Default)]
struct Grant {
    issued: Option<Issued>,
    /// Reason for which there was none.
    error: Option<ServiceError>,
}

struct Issued {
    header: HeaderValue,
    until: DateTime<Utc>,
}

impl fmt::Debug for AccessTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessTokens")
            .field("email", &self.key.email)
            .finish_non_exhaustive()
    }
}

/// True for a text that is the key of a service account, and no token.
pub fn is_account(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

impl Key {
    fn read(text: &SecretString) -> Result<Self, InvalidService> {
        let invalid = |what: &str| InvalidService::Account(what.to_owned());
        let file: Value = serde_json::from_str(text.expose_secret()).map_err(|_| invalid("it is no JSON"))?;
        let member = |name: &str| file[name].as_str().map(str::to_owned);
        if member("type").as_deref() != Some("service_account") {
            return Err(invalid("its type is not service_account"));
        }
        let token_uri = member("token_uri").unwrap_or_else(|| TOKEN_URI.to_owned());
        check_url(&token_uri)?;
        let pem = member("private_key").ok_or_else(|| invalid("it has no private_key"))?;
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| invalid("its private_key is no PKCS #8 in PEM"))?;
        Ok(Self {
            email: member("client_email").ok_or_else(|| invalid("it has no client_email"))?,
            id: member("private_key_id"),
            token_uri,
            pair: RsaKeyPair::from_pkcs8(der.secret_pkcs8_der())
                .map_err(|_| invalid("its private_key is no RSA key"))?,
        })
    }

    /// Signed assertion of who asks for a token.
    fn assertion(&self, now: DateTime<Utc>) -> Result<String, ServiceError> {
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": self.id });
        let claims = json!({
            "iss": self.email,
            "scope": SCOPE,
            "aud": self.token_uri,
            "iat": now.timestamp(),
            "exp": (now + ASSERTED_FOR).timestamp(),
        });
        let encoded = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encoded(&header), encoded(&claims));
        let mut signature = vec![0; self.pair.public_modulus_len()];
        let random = SystemRandom::new();
        self.pair
            .sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)
            .map_err(|_| {
                ServiceError::Malformed("the key of the service account signs nothing".to_owned())
            })?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl AccessTokens {
    /// Reads the key of an account; nothing is sent.
    ///
    /// # Errors
    ///
    /// [`InvalidService::Account`] if the text is no such key.
    pub(crate) fn new(
        key: &SecretString,
        transport: Transport,
        bounds: Bounds,
    ) -> Result<Self, InvalidService> {
        Ok(Self {
            key: Key::read(key)?,
            transport,
            bounds,
            grant: Mutex::default(),
            asked: AtomicU64::new(0),
        })
    }

    /// Header with a token that is good at this time. One is asked for at once, however many requests wait for it, and all of them get the
    /// same answer.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if there is none: 401 if the account gets none, whatever the reason.
    pub(crate) async fn header(&self, now: DateTime<Utc>) -> Result<HeaderValue, ServiceError> {
        let asked = self.asked.load(Ordering::Relaxed);
        let mut grant = self.grant.lock().await;
        if let Some(issued) = grant.issued.as_ref().filter(|issued| now + EARLY < issued.until) {
            return Ok(issued.header.clone());
        }
        let was_asked_meanwhile = self.asked.load(Ordering::Relaxed) > asked;
        if let Some(error) = grant.error.as_ref().filter(|_| was_asked_meanwhile) {
            return Err(error.clone());
        }
        let fresh = self.ask(now).await.map_err(refused);
        self.asked.fetch_add(1, Ordering::Relaxed);
        grant.error = fresh.as_ref().err().cloned();
        let fresh = fresh?;
        let header = fresh.header.clone();
        grant.issued = Some(fresh);
        Ok(header)
    }

    /// Drops the token: it was refused.
    pub(crate) async fn forget(&self) {
        self.grant.lock().await.issued = None;
    }

    async fn ask(&self, now: DateTime<Utc>) -> Result<Issued, ServiceError> {
        let malformed = |error: &dyn fmt::Display| ServiceError::Malformed(error.to_string());
        let uri: Uri = self.key.token_uri.parse().map_err(|error| malformed(&error))?;
        // Base 64 of this kind has no characters that a form would escape.
        let form = format!("{GRANT}{}", self.key.assertion(now)?);
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(Full::new(form.into()))
            .map_err(|error| malformed(&error))?;
        let answer = self.transport.exchange(request, self.bounds).await?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|error| malformed(&error))?;
        let token = answer["access_token"].as_str();
        let token = token.ok_or_else(|| malformed(&"it has no access_token"))?;
        let mut header =
            HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| malformed(&error))?;
        header.set_sensitive(true);
        let lasts = TimeDelta::seconds(answer["expires_in"].as_i64().unwrap_or_default().clamp(0, 86_400));
        Ok(Issued {
            header,
            until: now + lasts,
        })
    }
}

/// Error of whatever needed a token: what shuts the account out shuts every page out.
fn refused(error: ServiceError) -> ServiceError {
    match error {
        ServiceError::Status {
            status: 400..=407,
            retry_after,
            message,
        } => ServiceError::Status {
            status: 401,
            retry_after,
            message: format!("the service account gets no token: {message}"),
        },
        // It is the exchange for the token that failed; whatever needed it was not sent.
        ServiceError::Timeout { host, limit } => ServiceError::Unconnected {
            host,
            reason: format!("no token within {limit:?}"),
        },
        ServiceError::Broken { host, reason } => ServiceError::Unconnected { host, reason },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aws_lc_rs::encoding::AsDer;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use base64::prelude::BASE64_STANDARD;

    use super::*;
    use crate::category::FailureCategory;
    use crate::testing::Answering;

    /// Key of an account whose tokens are at a URL, and its public half.
    fn account(token_uri: &str) -> (SecretString, Vec<u8>) {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let der = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            BASE64_STANDARD.encode(der.as_ref())
        );
        let file = json!({
            "type": "service_account",
            "project_id": "press",
            "private_key_id": "k1",
            "private_key": pem,
            "client_email": "reader@press.iam.gserviceaccount.com",
            "token_uri": token_uri,
        });
        (
            SecretString::from(file.to_string()),
            pair.public_key().as_ref().to_vec(),
        )
    }

    fn tokens(key: &SecretString) -> AccessTokens {
        let bounds = Bounds {
            time: Duration::from_secs(20),
            body: 10_000,
        };
        AccessTokens::new(key, Transport::new().unwrap(), bounds).unwrap()
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
    }

    /// Rows: 84.
    #[tokio::test]
    async fn a_token_is_asked_for_by_a_signed_assertion_and_used_for_as_long_as_it_lasts() {
        let google = Answering::with(
            200,
            &[],
            "{\"access_token\": \"ya29.x\", \"expires_in\": 3600, \"token_type\": \"Bearer\"}",
        )
        .await;
        let uri = format!("{}/token", google.url);
        let (key, public) = account(&uri);
        let tokens = tokens(&key);
        for seconds in [0, 1, 3299, 3300] {
            assert_eq!(tokens.header(at(seconds)).await.unwrap(), "Bearer ya29.x");
        }
        tokens.forget().await;
        tokens.header(at(3301)).await.unwrap();
        let seen = google.seen.lock().unwrap().clone();
        assert_eq!(
            seen.len(),
            3,
            "at first, five minutes before its end, and when it was refused"
        );
        assert_eq!(seen[0].0, "POST /token");
        let assertion = seen[0].2.strip_prefix(GRANT).unwrap();
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        let decoded = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap();
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public)
            .verify(signed.as_bytes(), &decoded(signature))
            .unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let read = |part| serde_json::from_slice::<Value>(&decoded(part)).unwrap();
        assert_eq!(read(header), json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
        let expected = json!({
            "iss": "reader@press.iam.gserviceaccount.com", "scope": SCOPE, "aud": uri,
            "iat": 1_700_000_000, "exp": 1_700_003_600,
        });
        assert_eq!(read(claims), expected);
        assert!(!format!("{tokens:?}").contains("ya29"));
    }

    /// Rows: 84.
    #[tokio::test]
    async fn a_place_of_tokens_that_gives_none_is_asked_once_by_all_who_wait() {
        let google = Answering::with(503, &[], "{}").await;
        let (key, _) = account(&google.url);
        let tokens = tokens(&key);
        let waiting = futures::future::join_all((0..20).map(|_| tokens.header(at(0)))).await;
        assert!(
            waiting
                .iter()
                .all(|header| header == &waiting[0] && header.is_err())
        );
        assert_eq!(google.seen.lock().unwrap().len(), 1);
        tokens.header(at(0)).await.unwrap_err();
        assert_eq!(
            google.seen.lock().unwrap().len(),
            2,
            "whoever comes later asks again"
        );
    }

    /// Rows: 84.
    #[tokio::test]
    async fn an_account_that_gets_no_token_is_shut_out() {
        let google = Answering::with(
            400,
            &[],
            "{\"error\": \"invalid_grant\", \"error_description\": \"Invalid JWT Signature.\"}",
        )
        .await;
        let (key, _) = account(&google.url);
        let error = tokens(&key).header(at(0)).await.unwrap_err();
        assert!(
            error.is_of_the_service() && error.category() == FailureCategory::Access,
            "{error}"
        );
        assert!(error.to_string().contains("Invalid JWT Signature"), "{error}");
        for (text, fault) in [
            ("{", "it is no JSON"),
            (
                "{\"type\": \"authorized_user\"}",
                "its type is not service_account",
            ),
            ("{\"type\": \"service_account\"}", "it has no private_key"),
            (
                "{\"type\": \"service_account\", \"private_key\": \"x\"}",
                "its private_key is no PKCS #8 in PEM",
            ),
        ] {
            let read = Key::read(&SecretString::from(text)).err();
            assert_eq!(read, Some(InvalidService::Account(fault.to_owned())));
        }
    }
}
