//! Client of Google Vision, `images:annotate`, and of its operations.

use std::sync::Arc;

use chrono::Utc;
use serde_json::{Value, json};

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
        let endpoint = self.authorized(self.endpoint.for_answers(images)).await?;
        let answer = endpoint.post("/v1/images:annotate", body).await;
        self.believed(answer).await
    }

    /// Begins an operation, and returns what the service tells of it.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if there was no answer in JSON; the operation may have begun all the same.
    pub async fn begin(&self, body: &Value) -> Result<Value, ServiceError> {
        let endpoint = self.authorized(self.endpoint.clone()).await?;
        let answer = endpoint.post("/v1/images:asyncBatchAnnotate", body).await;
        self.believed(answer).await
    }

    /// Asks how an operation stands, by its name.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if there was no answer in JSON: 404 if the service does not know it any more.
    pub async fn operation(&self, name: &str) -> Result<Value, ServiceError> {
        let endpoint = self.authorized(self.endpoint.clone()).await?;
        let answer = endpoint.get(&format!("/v1/{name}")).await;
        self.believed(answer).await
    }

    /// Tells the service that an operation is no longer wanted.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if the service did not take it in.
    pub async fn cancel(&self, name: &str) -> Result<(), ServiceError> {
        let endpoint = self.authorized(self.endpoint.clone()).await?;
        let answer = endpoint.post(&format!("/v1/{name}:cancel"), &json!({})).await;
        match self.believed(answer).await {
            Err(ServiceError::NoContent) => Ok(()),
            answer => answer.map(drop),
        }
    }

    async fn authorized(&self, endpoint: Endpoint) -> Result<Endpoint, ServiceError> {
        match &self.tokens {
            Some(tokens) => Ok(endpoint.authorized(tokens.header(Utc::now()).await?)),
            None => Ok(endpoint),
        }
    }

    /// The answer; a token that was refused is used no more.
    async fn believed(&self, answer: Result<Value, ServiceError>) -> Result<Value, ServiceError> {
        if let (Some(tokens), Err(ServiceError::Status { status: 401, .. })) = (&self.tokens, &answer) {
            tokens.forget().await;
        }
        answer
    }
}

#[cfg(test)]
mod tests;
