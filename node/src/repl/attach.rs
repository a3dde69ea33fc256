//! Connecting to an orchestrator.

use std::time::Duration;

use anyhow::{Result, bail};
use parkhang_actors::cluster::{Cluster, LinkError, Phase, RemoteDesk, Troubles};
use tokio::time::timeout;

/// Waits until an orchestrator takes commands. Fails after `patience`, and before that when all of them refuse.
pub async fn attach(
    cluster: &Cluster,
    desk: &RemoteDesk,
    orchestrators: usize,
    patience: Duration,
) -> Result<()> {
    let mut troubles = cluster.troubles();
    let apart = desk.in_touch();
    let mut told_to_wait = false;
    let attached = async {
        loop {
            if !desk.in_touch().desks.is_empty() {
                return true;
            }
            let (all_in_trouble, may_pass) = {
                let troubles = troubles.borrow_and_update();
                (
                    troubles.len() == orchestrators,
                    troubles.values().any(|error| may_pass(error)),
                )
            };
            if all_in_trouble && !may_pass {
                return false;
            }
            if all_in_trouble && !told_to_wait {
                let patience = humantime::format_duration(patience);
                eprintln!("no orchestrator is in touch; waiting for one, {patience} at most (--patience)");
                told_to_wait = true;
            }
            tokio::select! {
                _ = desk.changed_from(&apart) => {}
                // The cluster holds the sender.
                _ = troubles.changed() => {}
            }
        }
    };
    let attached = timeout(patience, attached).await;
    if let Ok(true) = attached {
        return Ok(());
    }
    let troubles = told(&cluster.troubles().borrow());
    match troubles.is_empty() {
        true => bail!("no orchestrator takes commands; those in touch are of an earlier build"),
        false => bail!("cannot attach to an orchestrator\n{troubles}"),
    }
}

/// Returns whether nobody is there now, as while an orchestrator starts anew; who refuses would do so again.
fn may_pass(error: &LinkError) -> bool {
    matches!(
        error,
        LinkError::Io {
            phase: Phase::Connecting,
            ..
        }
    )
}

fn told(troubles: &Troubles) -> String {
    let told = troubles.iter().map(|(peer, error)| {
        let causes: Vec<String> = anyhow::Chain::new(&**error).map(ToString::to_string).collect();
        format!("  {peer}: {}{}", causes.join(": "), advice(error))
    });
    told.collect::<Vec<_>>().join("\n")
}

fn advice(error: &LinkError) -> &'static str {
    match error {
        LinkError::Refused => "; and the certificate (cluster.tls) must be of its authority",
        LinkError::Io {
            phase: Phase::TlsHandshake,
            ..
        } => "; both certificates (cluster.tls) must be of the cluster's authority",
        LinkError::Io {
            phase: Phase::Connecting,
            ..
        } => "; is an orchestrator running there?",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_refusal_says_what_to_look_at() {
        let troubles = [("orch-1:1".to_owned(), Arc::new(LinkError::Refused))];
        let told = told(&troubles.into());
        assert!(
            told.starts_with("  orch-1:1: the peer ended the session"),
            "{told}"
        );
        assert!(
            told.contains("cluster.cookie_file; and the certificate"),
            "{told}"
        );
    }
}
