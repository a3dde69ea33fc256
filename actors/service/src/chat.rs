//! Client of chat completions and embeddings: vLLM and other servers of OpenAI's interface.

use serde_json::Value;

use crate::endpoint::{Credential, Endpoint};
use crate::error::ServiceError;
use crate::settings::InvalidService;
use crate::transport::{Bounds, Transport};

/// Last part of the base URL, below which the paths of the interface lie; what a server tells of itself lies beside it.
const BASE: &str = "/v1";

/// Client of one server. Clones share its connections.
#[derive(Debug, Clone)]
pub struct ChatClient {
    endpoint: Endpoint,
    /// The server itself, above the interface.
    server: Endpoint,
}

impl ChatClient {
    /// Makes a client of the interface at a base URL, such as `http://localhost:8000/v1`; nothing is sent.
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
        let trimmed = url.trim_end_matches('/');
        let server = trimmed.strip_suffix(BASE).unwrap_or(trimmed);
        Ok(Self {
            endpoint: Endpoint::new(url, credential.clone(), bounds, transport.clone())?,
            server: Endpoint::new(server, credential, bounds, transport)?,
        })
    }

    /// Asks for a completion, and waits for it.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if there was no answer in JSON.
    pub async fn complete(&self, body: &Value) -> Result<Value, ServiceError> {
        self.endpoint.post("/chat/completions", body).await
    }

    /// Asks for the vectors of texts, and waits for them.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if there was no answer in JSON.
    pub async fn embed(&self, body: &Value) -> Result<Value, ServiceError> {
        self.endpoint.post("/embeddings", body).await
    }

    /// Asks for the list of models.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if there was no answer in JSON.
    pub async fn models(&self) -> Result<Value, ServiceError> {
        self.endpoint.get("/models").await
    }

    /// Asks for the version of the server, which vLLM tells.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if there was no answer in JSON.
    pub async fn version(&self) -> Result<Value, ServiceError> {
        self.server.get("/version").await
    }
}

#[cfg(test)]
mod tests;
