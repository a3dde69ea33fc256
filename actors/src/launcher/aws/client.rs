//! Client of a service of AWS for the few operations that are called here. The SDK's crate of a service has all of them, hundreds, and
//! took longer to compile than everything that called it. Signatures, retries, limits of time and connections are the SDK's.

use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{
    AuthSchemeOptionResolverParams, SharedAuthScheme, SharedAuthSchemeOptionResolver,
};
use aws_smithy_runtime_api::client::identity::SharedIdentityResolver;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use aws_types::SigningName;
use aws_types::region::{Region, SigningRegion};

use super::endpoint::Service;
use crate::launcher::LauncherError;

/// Body of a request, and how it is declared.
#[derive(Debug, Clone)]
pub(in crate::launcher) struct Call {
    pub(in crate::launcher) content_type: &'static str,
    /// Operation, where the body does not name it.
    pub(in crate::launcher) target: Option<String>,
    pub(in crate::launcher) body: String,
}

/// Reason for which a call has no answer.
pub(in crate::launcher) type CallError = SdkError<ErrorMetadata, HttpResponse>;

/// Client of one service. Clones share its connections.
#[derive(Debug, Clone)]
pub(in crate::launcher) struct Client {
    operation: Operation<Call, String, ErrorMetadata>,
}

impl Client {
    /// Makes a client; `endpoint` is a server that stands in for AWS. `refusal` reads the error of an answer that is none of success.
    ///
    /// # Errors
    ///
    /// [`LauncherError::Credentials`] if `shared` has no region or no credentials.
    pub(in crate::launcher) fn new(
        shared: &SdkConfig,
        service: Service,
        endpoint: Option<&str>,
        refusal: fn(&str) -> ErrorMetadata,
    ) -> Result<Self, LauncherError> {
        let missing = |what: &str| LauncherError::Credentials(format!("there is no {what}"));
        let region = shared.region().ok_or_else(|| missing("region"))?;
        let credentials = shared.credentials_provider();
        let credentials = credentials.ok_or_else(|| missing("source of any"))?;
        let endpoint = endpoint.map_or_else(|| service.endpoint(shared, region.as_ref()), str::to_owned);

        let mut operation = Operation::builder()
            .service_name(service.name())
            .operation_name("call")
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&endpoint)
            .standard_retry(shared.retry_config().unwrap_or(&RetryConfig::standard()))
            .retry_classifier(HttpStatusCodeClassifier::default())
            .retry_classifier(TransientErrorClassifier::<ErrorMetadata>::new())
            .retry_classifier(AwsErrorCodeClassifier::<ErrorMetadata>::new())
            .runtime_plugin(signatures(service, region, credentials));
        if let Some(limits) = shared.timeout_config() {
            operation = operation.timeout_config(limits.clone());
        }
        if let Some(client) = shared.http_client() {
            operation = operation.http_client(client);
        }
        let operation = operation.serializer(request);
        let operation = operation.deserializer(move |response: &HttpResponse| answer(response, refusal));
        Ok(Self {
            operation: operation.build(),
        })
    }

    pub(in crate::launcher) async fn call(&self, call: Call) -> Result<String, CallError> {
        self.operation.invoke(call).await
    }
}

/// Signs requests for a service in a region.
fn signatures(
    service: Service,
    region: &Region,
    credentials: SharedCredentialsProvider,
) -> StaticRuntimePlugin {
    let mut config = Layer::new("signatures");
    config.store_put(AuthSchemeOptionResolverParams::new(()));
    config.store_put(SigV4OperationSigningConfig {
        region: Some(SigningRegion::from(region.clone())),
        name: Some(SigningName::from(service.name())),
        ..SigV4OperationSigningConfig::default()
    });
    let mut components = RuntimeComponentsBuilder::new("signatures");
    let scheme = StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]);
    components.set_auth_scheme_option_resolver(Some(SharedAuthSchemeOptionResolver::new(scheme)));
    components.push_auth_scheme(SharedAuthScheme::new(SigV4AuthScheme::new()));
    components.set_identity_resolver(SCHEME_ID, SharedIdentityResolver::new(credentials));
    StaticRuntimePlugin::new()
        .with_config(config.freeze())
        .with_runtime_components(components)
}

fn request(call: Call) -> Result<HttpRequest, BoxError> {
    let mut request = HttpRequest::new(SdkBody::from(call.body));
    request.set_method("POST")?;
    request.set_uri("/")?;
    let headers = request.headers_mut();
    headers.try_insert("content-type", call.content_type)?;
    if let Some(target) = call.target {
        headers.try_insert("x-amz-target", target)?;
    }
    Ok(request)
}

fn answer(
    response: &HttpResponse,
    refusal: fn(&str) -> ErrorMetadata,
) -> Result<String, OrchestratorError<ErrorMetadata>> {
    // It was read to its end before, as none is asked for as a stream.
    let body = response.body().bytes().unwrap_or_default();
    let body = String::from_utf8_lossy(body);
    if response.status().is_success() {
        Ok(body.into_owned())
    } else {
        Err(OrchestratorError::operation(refusal(&body)))
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_types::error::metadata::ProvideErrorMetadata;
    use parkhang_store::storage::s3::keys;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_request_is_signed_for_its_service_and_region_and_its_refusal_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"{}") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "cut off");
            }
            let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 7\r\n\r\nRefused";
            stream.write_all(answer).await.unwrap();
            String::from_utf8(request).unwrap().to_lowercase()
        });
        let shared = SdkConfig::builder()
            .region(Region::new("eu-west-1"))
            .credentials_provider(keys("key", "secret"))
            .build();
        let refusal = |body: &str| ErrorMetadata::builder().code(body).build();
        let client = Client::new(&shared, Service::Ecs, Some(&endpoint), refusal).unwrap();
        let call = Call {
            content_type: "application/x-amz-json-1.1",
            target: Some("Protocol.Operation".to_owned()),
            body: "{}".to_owned(),
        };
        let refused = client.call(call).await.unwrap_err();
        assert_eq!(refused.code(), Some("Refused"));
        let request = server.await.unwrap();
        assert!(
            request.contains("x-amz-target: protocol.operation\r\n"),
            "{request}"
        );
        assert!(request.contains("credential=key/"), "{request}");
        assert!(request.contains("/eu-west-1/ecs/aws4_request"), "{request}");
    }
}
