//! Engines of a process: the services of its configuration that read pages.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use parkhang_actors::engines::Engine;
use parkhang_service::Transport;

use crate::config::{ConfigArgs, Loaded};

/// Opens all services of the configuration that read pages; nothing is sent.
///
/// # Errors
///
/// If the settings of one are none.
pub fn open(loaded: &Loaded) -> Result<Vec<Engine>> {
    let transport = Transport::new()?;
    let services = loaded.config.service.iter();
    let settings = services.filter_map(|(name, service)| {
        let token = loaded.secrets.tokens.get(name);
        service.engine(name, token.map(|token| token.text.clone()))
    });
    settings
        .map(|settings| {
            let name = settings.name.clone();
            Engine::new(settings, transport.clone()).with_context(|| format!("service.{name}"))
        })
        .collect()
}

/// Opens the services of these names that a command outside of a cluster is to ask.
///
/// # Errors
///
/// If the configuration has no such service, or is none.
pub fn named(names: &BTreeSet<String>, config: &ConfigArgs) -> Result<Vec<Engine>> {
    let mut engines = open(&Loaded::read(config)?.validated()?)?;
    let known: Vec<String> = engines.iter().map(|engine| engine.model().name.clone()).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        if known.is_empty() {
            bail!(
                "--engine {name}: the configuration has no service of the kind openai or google_vision, see docs/engines.md"
            );
        }
        bail!(
            "--engine {name}: there is no such service; there are: {}",
            known.join(", ")
        );
    }
    engines.retain(|engine| names.contains(&engine.model().name));
    Ok(engines)
}
