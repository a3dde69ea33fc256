//! Operations of EC2 auto scaling, which are forms, and answered in XML.

use aws_config::SdkConfig;
use aws_smithy_types::error::ErrorMetadata;
use roxmltree::{Document, Node};

use crate::launcher::LauncherError;
use crate::launcher::aws::{self, Call, Service, failed, unreadable};

/// Version of the protocol.
const VERSION: &str = "2011-01-01";
const LOOK: &str = "look at the auto scaling group";

/// Client of EC2 auto scaling.
#[derive(Debug, Clone)]
pub(super) struct Client(aws::Client);

impl Client {
    pub(super) fn new(shared: &SdkConfig, endpoint: Option<&str>) -> Result<Self, LauncherError> {
        aws::Client::new(shared, Service::AutoScaling, endpoint, refusal).map(Self)
    }

    /// Looks at the group `name`; `None` if there is none.
    pub(super) async fn describe_auto_scaling_groups(
        &self,
        name: &str,
    ) -> Result<Option<Group>, LauncherError> {
        let input = [("AutoScalingGroupNames.member.1", name)];
        let answer = self.0.call(call("DescribeAutoScalingGroups", &input)).await;
        let answer = answer.map_err(|error| failed(LOOK, name, error))?;
        first_group(&answer).map_err(|error| unreadable(LOOK, name, error))
    }

    pub(super) async fn set_desired_capacity(&self, name: &str, count: u32) -> Result<(), LauncherError> {
        let input = [
            ("AutoScalingGroupName", name),
            ("DesiredCapacity", &count.to_string()),
            // The autoscaler has delays of its own, which the group's would come on top of.
            ("HonorCooldown", "false"),
        ];
        let answer = self.0.call(call("SetDesiredCapacity", &input)).await;
        answer.map_err(|error| failed("set the desired capacity of the auto scaling group", name, error))?;
        Ok(())
    }
}

/// Capacities of a group, and the states of its instances.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) desired: u32,
    pub(super) limit: Option<u32>,
    pub(super) states: Vec<String>,
}

fn call(operation: &str, input: &[(&str, &str)]) -> Call {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.append_pair("Action", operation)
        .append_pair("Version", VERSION);
    body.extend_pairs(input);
    Call {
        content_type: "application/x-www-form-urlencoded",
        target: None,
        body: body.finish(),
    }
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(node, name).and_then(|child| child.text())
}

/// The group of an answer that describes groups, `None` if it describes none.
fn first_group(answer: &str) -> Result<Option<Group>, roxmltree::Error> {
    let document = Document::parse(answer)?;
    let groups = document
        .descendants()
        .find(|node| node.has_tag_name("AutoScalingGroups"));
    let Some(group) = groups.and_then(|groups| child(groups, "member")) else {
        return Ok(None);
    };
    let number = |name: &str| text(group, name).and_then(|number| number.parse().ok());
    let instances = child(group, "Instances")
        .into_iter()
        .flat_map(|list| list.children());
    Ok(Some(Group {
        desired: number("DesiredCapacity").unwrap_or(0),
        limit: number("MaxSize"),
        states: instances
            .filter_map(|instance| text(instance, "LifecycleState").map(str::to_owned))
            .collect(),
    }))
}

/// Error of an answer: `<ErrorResponse><Error><Code>NAME</Code><Message>...</Message></Error></ErrorResponse>`.
fn refusal(body: &str) -> ErrorMetadata {
    let mut refusal = ErrorMetadata::builder();
    if let Ok(document) = Document::parse(body)
        && let Some(error) = document.descendants().find(|node| node.has_tag_name("Error"))
    {
        if let Some(name) = text(error, "Code") {
            refusal = refusal.code(name);
        }
        if let Some(message) = text(error, "Message") {
            refusal = refusal.message(message);
        }
    }
    refusal.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_from_its_description() {
        let described = |groups: &str| {
            format!(
                r#"<DescribeAutoScalingGroupsResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/">
                <DescribeAutoScalingGroupsResult><AutoScalingGroups>{groups}</AutoScalingGroups></DescribeAutoScalingGroupsResult>
                </DescribeAutoScalingGroupsResponse>"#
            )
        };
        let group = "<member><MaxSize>3</MaxSize><DesiredCapacity>2</DesiredCapacity><Instances>
            <member><LifecycleState>InService</LifecycleState></member>
            <member><LifecycleState>Pending:Wait</LifecycleState></member></Instances></member>";
        let expected = Group {
            desired: 2,
            limit: Some(3),
            states: vec!["InService".to_owned(), "Pending:Wait".to_owned()],
        };
        assert_eq!(first_group(&described(group)).unwrap(), Some(expected));
        assert_eq!(first_group(&described("")).unwrap(), None);
        assert!(first_group("{}").is_err());
    }

    #[test]
    fn a_refusal_is_read() {
        let refused = refusal(
            "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>",
        );
        assert_eq!(refused.code(), Some("Throttling"));
        assert_eq!(refused.message(), Some("Rate exceeded"));
        assert_eq!(refusal("not found").code(), None);
    }

    #[test]
    fn a_call_is_a_form() {
        let body = call("SetDesiredCapacity", &[("AutoScalingGroupName", "a b&c")]).body;
        assert_eq!(
            body,
            "Action=SetDesiredCapacity&Version=2011-01-01&AutoScalingGroupName=a+b%26c"
        );
    }
}
