//! Operations of ECS, which are JSON.

use aws_config::SdkConfig;
use aws_smithy_types::error::ErrorMetadata;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::launcher::LauncherError;
use crate::launcher::aws::{self, Call, Service, failed, unreadable};

/// The protocol, which goes before the names of operations.
const PROTOCOL: &str = "AmazonEC2ContainerServiceV20141113";
const LOOK: &str = "look at the ECS service";

/// Client of ECS.
#[derive(Debug, Clone)]
pub(super) struct Client(aws::Client);

impl Client {
    pub(super) fn new(shared: &SdkConfig, endpoint: Option<&str>) -> Result<Self, LauncherError> {
        aws::Client::new(shared, Service::Ecs, endpoint, refusal).map(Self)
    }

    /// Looks at the service `name` of a cluster; of none it describes none.
    pub(super) async fn describe_services(
        &self,
        cluster: Option<&str>,
        name: &str,
    ) -> Result<Vec<Described>, LauncherError> {
        let input = json!({ "cluster": cluster, "services": [name] });
        let answer = self.0.call(call("DescribeServices", &input)).await;
        let answer = answer.map_err(|error| failed(LOOK, name, error))?;
        let description: Description =
            serde_json::from_str(&answer).map_err(|error| unreadable(LOOK, name, error))?;
        Ok(description.services)
    }

    pub(super) async fn update_service(
        &self,
        cluster: Option<&str>,
        name: &str,
        desired_count: u32,
    ) -> Result<(), LauncherError> {
        let input = json!({ "cluster": cluster, "service": name, "desiredCount": desired_count });
        let answer = self.0.call(call("UpdateService", &input)).await;
        answer.map_err(|error| failed("set the desired count of the ECS service", name, error))?;
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
struct Description {
    #[serde(default)]
    services: Vec<Described>,
}

/// Counts of tasks of a service.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Described {
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) desired_count: u32,
    #[serde(default)]
    pub(super) running_count: u32,
    #[serde(default)]
    pub(super) pending_count: u32,
}

fn call(operation: &str, input: &Value) -> Call {
    Call {
        content_type: "application/x-amz-json-1.1",
        target: Some(format!("{PROTOCOL}.{operation}")),
        body: input.to_string(),
    }
}

/// Error of an answer: `{"__type": "com.amazonaws.ecs#NAME", "message": "..."}`, with the name alone in part of them.
fn refusal(body: &str) -> ErrorMetadata {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let mut refusal = ErrorMetadata::builder();
    if let Some(name) = text("__type") {
        refusal = refusal.code(name.rsplit('#').next().unwrap_or(name));
    }
    if let Some(message) = text("message").or_else(|| text("Message")) {
        refusal = refusal.message(message);
    }
    refusal.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_with_and_without_its_namespace() {
        for name in ["com.amazonaws.ecs#ThrottlingException", "ThrottlingException"] {
            let refused = refusal(&json!({ "__type": name, "message": "Rate exceeded" }).to_string());
            assert_eq!(refused.code(), Some("ThrottlingException"));
            assert_eq!(refused.message(), Some("Rate exceeded"));
        }
        assert_eq!(refusal("<html>").code(), None);
    }

    #[test]
    fn an_operation_is_named_beside_its_body() {
        let call = call(
            "DescribeServices",
            &json!({ "cluster": null, "services": ["workers"] }),
        );
        let target = "AmazonEC2ContainerServiceV20141113.DescribeServices";
        assert_eq!(call.target.as_deref(), Some(target));
        assert_eq!(call.body, r#"{"cluster":null,"services":["workers"]}"#);
    }
}
