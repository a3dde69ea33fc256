//! Client of Google Vision, `images:annotate`.

use std::sync::Arc;

use chrono::Utc;
use serde_json::Value;

use crate::account::AccessTokens;
use crate::endpoint::{Credential, Endpoint};
use crate::error::ServiceError;
use crate::settings::InvalidService;
use crate::transport::{Bounds, Transport};

/// Client of one project. Clones share its connections.
#[derive(Debug, Clone)]
pub struct VisionClient {
    endpoint: Endpoint,
    /// Tokens, where a service account asks.
    tokens: Option<Arc<AccessTokens>>,
}

impl VisionClient {
    /// Makes a client of the service at a URL, `https://vision.googleapis.com` or one that speaks its protocol; nothing is sent. The
    /// largest body of `bounds` is that of the answer about one image.
    ///
    /// # Errors
    ///
    /// [`InvalidService`] if the URL or the token is none.
    pub fn new(
        url: &str,
        credential: Option<Credential>,
        bounds: Bounds,
        transport: Transport,
    ) -> Result<Self, InvalidService> {
        let tokens = match &credential {
            Some(Credential::GoogleAccount(key)) => {
                Some(Arc::new(AccessTokens::new(key, transport.clone(), bounds)?))
            }
            _ => None,
        };
        let endpoint = Endpoint::new(url, credential, bounds, transport)?;
        Ok(Self { endpoint, tokens })
    }

    /// Asks for the text of `images` images that stand in the body, and waits for it.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if there was no answer in JSON. An answer may hold errors of images.
    pub async fn annotate(&self, body: &Value, images: usize) -> Result<Value, ServiceError> {
        let mut endpoint = self.endpoint.for_answers(images);
        if let Some(tokens) = &self.tokens {
            endpoint = endpoint.authorized(tokens.header(Utc::now()).await?);
        }
        let answer = endpoint.post("/v1/images:annotate", body).await;
        if let (Some(tokens), Err(ServiceError::Status { status: 401, .. })) = (&self.tokens, &answer) {
            tokens.forget().await;
        }
        answer
    }
}

#[cfg(test)]
mod tests;
