//! The launchers of AWS against a server of somebody else that speaks its protocols.

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use aws_sdk_ecs::types::{ContainerDefinition, DeploymentController, DeploymentControllerType};

use super::*;
use parkhang_store::storage::s3::keys;
use parkhang_test_s3::external::{Server, moto};

/// Largest number of tasks of a service.
const LIMIT: u32 = 100;

fn options(server: &Server, hardware: &[Hardware]) -> AwsOptions {
    let named = hardware
        .iter()
        .map(|hardware| (*hardware, format!("workers-{}", hardware.as_str())));
    AwsOptions {
        endpoint: Some(server.url.clone()),
        region: Some("us-east-1".to_owned()),
        names: named.collect(),
    }
}

/// Account of whoever makes the services and groups, by the SDK's own clients.
async fn account(server: &Server) -> SdkConfig {
    let options = options(server, &[]);
    let found = aws::shared_config(&options, Some(keys("test", "test"))).await;
    let account = found.unwrap().into_builder();
    account.endpoint_url(&server.url).build()
}

async fn ecs(server: &Server, hardware: &[Hardware]) -> EcsLauncher {
    let keys = Some(keys("test", "test"));
    EcsLauncher::connect(
        options(server, hardware),
        (Some("library".to_owned()), LIMIT),
        keys,
    )
    .await
    .unwrap()
}

async fn asg(server: &Server, hardware: &[Hardware]) -> AsgLauncher {
    let keys = Some(keys("test", "test"));
    AsgLauncher::connect(options(server, hardware), keys)
        .await
        .unwrap()
}

#[tokio::test]
async fn of_an_ecs_service_no_more_tasks_are_asked_for_than_may_be() {
    let options = AwsOptions {
        // Nobody is asked.
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        region: Some("eu-central-1".to_owned()),
        names: BTreeMap::from([(Hardware::Gpu, "workers-gpu".to_owned())]),
    };
    let launcher = EcsLauncher::connect(options, (None, 3), Some(keys("test", "test")))
        .await
        .unwrap();
    let refused = launcher.set_desired(Hardware::Gpu, 4, &BTreeSet::new()).await;
    assert!(
        matches!(
            refused,
            Err(LauncherError::OverLimit {
                count: 4,
                limit: 3,
                ..
            })
        ),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto_server beside $PYTHON: tests/python/requirements.txt"]
async fn ecs_conforms() {
    let server = Server::start(moto());
    let launcher = ecs(&server, &Hardware::ALL).await;
    let client = aws_sdk_ecs::Client::new(&account(&server).await);
    client
        .create_cluster()
        .cluster_name("library")
        .send()
        .await
        .unwrap();
    let container = ContainerDefinition::builder()
        .name("node")
        .image("parkhang")
        .memory(64)
        .build();
    let task = client.register_task_definition().family("node");
    task.container_definitions(container).send().await.unwrap();
    for name in ["workers-gpu", "workers-cpu"] {
        let controller = DeploymentController::builder().r#type(DeploymentControllerType::Ecs);
        let service = client.create_service().cluster("library").service_name(name);
        let service = service.task_definition("node").desired_count(0);
        let service = service.deployment_controller(controller.build().unwrap());
        service.send().await.unwrap();
    }
    conformance::suite(&launcher, &ecs(&server, &Hardware::ALL).await).await;
    conformance::refuses(&ecs(&server, &[Hardware::Gpu]).await, Hardware::Cpu).await;

    let deleted = client.delete_service().cluster("library").service("workers-gpu");
    deleted.send().await.unwrap();
    let missing = launcher.workers(Hardware::Gpu).await.unwrap_err().to_string();
    assert_eq!(missing, "there is no ECS service workers-gpu");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs moto_server beside $PYTHON: tests/python/requirements.txt"]
async fn asg_conforms() {
    let server = Server::start(moto());
    let launcher = asg(&server, &Hardware::ALL).await;
    let client = aws_sdk_autoscaling::Client::new(&account(&server).await);
    let configuration = client.create_launch_configuration();
    let configuration = configuration
        .launch_configuration_name("node")
        .image_id("ami-12c6146b");
    configuration.instance_type("m5.large").send().await.unwrap();
    for name in ["workers-gpu", "workers-cpu"] {
        let group = client.create_auto_scaling_group().auto_scaling_group_name(name);
        let group = group.launch_configuration_name("node").min_size(0).max_size(3);
        let group = group.desired_capacity(0).availability_zones("us-east-1a");
        group.send().await.unwrap();
    }
    conformance::suite(&launcher, &asg(&server, &Hardware::ALL).await).await;
    conformance::refuses(&asg(&server, &[Hardware::Gpu]).await, Hardware::Cpu).await;

    let mut elsewhere = options(&server, &Hardware::ALL);
    elsewhere.names = BTreeMap::from([(Hardware::Gpu, "nobody".to_owned())]);
    let elsewhere = AsgLauncher::connect(elsewhere, Some(keys("test", "test")))
        .await
        .unwrap();
    let missing = elsewhere.workers(Hardware::Gpu).await.unwrap_err().to_string();
    assert_eq!(missing, "there is no auto scaling group nobody");
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_named() {
    let options = AwsOptions {
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        region: Some("us-east-1".to_owned()),
        names: BTreeMap::from([(Hardware::Gpu, "workers".to_owned())]),
    };
    let launcher = EcsLauncher::connect(options, (None, LIMIT), Some(keys("test", "test")))
        .await
        .unwrap();
    let refused = launcher.workers(Hardware::Gpu).await.unwrap_err().to_string();
    assert!(
        refused.starts_with("cannot look at the ECS service workers: "),
        "{refused}"
    );
}
