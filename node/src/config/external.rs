//! Checks of pipelines, and of their stages that services do.

use parkhang_actors::stage::{Pipelines, StageTable};
use parkhang_core::domain::{Pipeline, StageName};

use super::entities::ServiceKind;
use super::sections::{ClusterConfig, StorageKind};

/// Reason why nobody would do a stage of a pipeline: its service is not configured.
pub fn missing_service(config: &ClusterConfig, pipeline: &Pipeline) -> Option<String> {
    pipeline.stages().iter().find_map(|name| {
        let stage = config.stage.get(name.as_str())?;
        let (key, message) = stage.faults(&config.service).into_iter().next()?;
        Some(format!("stage.{name}.{key}: {message}"))
    })
}

/// Keys with the faults of their values.
pub fn faults(config: &ClusterConfig) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let built_in = StageTable::built_in();
    for (name, stage) in &config.stage {
        let key = |key: &str| format!("stage.{name}.{key}");
        for (of, message) in stage.faults(&config.service) {
            faults.push((key(of), message));
        }
        if let Err(error) = StageName::new(name.as_str()) {
            faults.push((key("service"), error.to_string()));
        }
        if built_in.named(name).is_ok() {
            let message = format!("{name} is a stage of this program, which its nodes run");
            faults.push((key("service"), message));
        }
        // Names of services are part of the names of those who hold leases.
        if let Err(error) = StageName::new(stage.service.as_str())
            && config.service.contains_key(&stage.service)
        {
            faults.push((key("service"), error.to_string()));
        }
        let service = config.service.get(&stage.service);
        if service.is_some_and(|service| service.kind == ServiceKind::GoogleVision)
            && config.storage.kind != StorageKind::S3
        {
            let message = "operations of Google read pages from a bucket of Google's: that needs storage.kind = \"s3\", see docs/services.md";
            faults.push((key("service"), message.to_owned()));
        }
        if stage.next.is_some() {
            let message = "is for stages of entities; a pipeline has an order".to_owned();
            faults.push((key("next"), message));
        }
        if !config.source.kind.properties().has_services {
            let message = "services get their work from an orchestrator: that needs source.kind = \"direct\" or \"postgres\"";
            faults.push((key("service"), message.to_owned()));
        }
    }
    let table = config.stage_table();
    for (name, pipeline) in &config.pipeline {
        if let Err(error) = Pipelines::built_in().define(name, &pipeline.stages, &table) {
            faults.push((format!("pipeline.{name}.stages"), error.to_string()));
        }
    }
    faults
}
