//! Keys below names that whoever writes a configuration chooses, such as `pipeline.NAME.stages` and `service.NAME.url`.

use serde::Serialize;
use toml::{Table, Value};

use super::entities::{ConfiguredEntity, ConfiguredService, ConfiguredStage};

/// Section of the pipelines.
pub const PIPELINE: &str = "pipeline";
const STAGES: &str = "stages";
const SERVICE: &str = "service";
const ENTITY: &str = "entity";
/// Section of the stages that services do; those of an entity are below it.
const STAGE: &str = "stage";

/// Returns the usual value of such a key, whose type is the type of the key; `None` if it is none.
pub fn usual_value(key: &str) -> Option<Value> {
    let (section, name) = key.rsplit_once('.')?;
    keys_of(section)?
        .get(name)
        .filter(|value| !value.is_table())
        .cloned()
}

/// Returns whether there are such keys below this one.
pub fn is_section(key: &str) -> bool {
    let parts: Vec<&str> = key.split('.').collect();
    match parts[..] {
        [PIPELINE | SERVICE | ENTITY | STAGE] => true,
        [ENTITY, _, STAGE] => true,
        _ => keys_of(key).is_some(),
    }
}

/// Returns the keys of the section in which an unknown one stands.
pub fn beside(unknown: &str) -> Vec<String> {
    let Some((section, _)) = unknown.rsplit_once('.') else {
        return Vec::new();
    };
    let keys = keys_of(section).unwrap_or_default();
    keys.into_iter()
        .filter(|(_, value)| !value.is_table())
        .map(|(name, _)| format!("{section}.{name}"))
        .collect()
}

/// True for the key of a pipeline's stages.
pub fn is_pipeline(key: &str) -> bool {
    matches!(key.split('.').collect::<Vec<_>>()[..], [PIPELINE, _, STAGES])
}

fn keys_of(section: &str) -> Option<Table> {
    let parts: Vec<&str> = section.split('.').collect();
    match parts[..] {
        [PIPELINE, _] => Some(Table::from_iter([(STAGES.to_owned(), Value::Array(Vec::new()))])),
        [SERVICE, _] => table(&ConfiguredService::default()),
        [ENTITY, _] => table(&ConfiguredEntity::default()),
        [STAGE, _] | [ENTITY, _, STAGE, _] => table(&ConfiguredStage::default()),
        _ => None,
    }
}

fn table(section: &impl Serialize) -> Option<Table> {
    Table::try_from(section).ok()
}
