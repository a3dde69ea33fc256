//! `volumes list`: the known volumes, page by page.

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_core::domain::VolumeId;
use parkhang_state::VolumeQuery;
use serde::Serialize;
use utoipa::ToSchema;

use super::VolumeLine;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::since::Since;
use crate::admin::text::{away, page, table};
use crate::admin::{Admin, Refusal};

/// List the volumes that were imported or are in a job, page by page.
#[derive(Debug, Args)]
pub struct List {
    /// Only volumes whose name contains this text; upper and lower case do not matter.
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Only volumes of collections whose name begins with this.
    #[arg(long, value_name = "PREFIX")]
    collection: Option<String>,
    /// Only volumes whose latest version was first imported after this: a time such as 2026-11-22T10:00:00Z, a day, or an age such as 7d.
    #[arg(long, value_name = "TIME")]
    imported_since: Option<Since>,
    /// Only volumes whose text, as it was read last, has a perplexity above this.
    #[arg(long, value_name = "N")]
    perplexity_above: Option<f32>,
    /// Only volumes that were read last with a mean confidence below this, from 0 to 1.
    #[arg(long, value_name = "SHARE")]
    confidence_below: Option<f32>,
    /// Continue where an earlier list stopped: `next` of its answer.
    #[arg(long, value_name = "VOLUME")]
    after: Option<VolumeId>,
    /// Largest number of volumes to list.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// Page of a list of volumes, in the order of their names.
#[derive(Debug, Serialize, ToSchema)]
pub struct Volumes {
    volumes: Vec<VolumeLine>,
    /// Value of `after` for the next page, if there is one.
    next: Option<String>,
}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["volumes", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/volumes";
    type Answer = Volumes;

    async fn run(self, admin: &Admin) -> Result<Volumes, Refusal> {
        let query = VolumeQuery {
            collection: self.collection,
            text: self.text,
            imported_since: self.imported_since.map(|since| since.before(Utc::now())),
            perplexity_above: self.perplexity_above,
            confidence_below: self.confidence_below,
            after: self.after,
            limit: Some(self.limit),
        };
        let page = admin.store.list_volumes(&query).await?;
        Ok(Volumes {
            volumes: page.volumes.into_iter().map(VolumeLine::from).collect(),
            next: page.next.map(|volume| volume.to_string()),
        })
    }
}

impl Answer for Volumes {
    fn text(&self) -> String {
        let now = Utc::now();
        let header = ["volume", "version", "imported", "images"];
        let rows = self.volumes.iter().map(|volume| {
            [
                volume.volume.clone(),
                volume.version.clone().unwrap_or_default(),
                volume.imported_at.map_or(String::new(), |at| away(at, now)),
                volume.images.map_or(String::new(), |images| images.to_string()),
            ]
        });
        page(table(header, rows, 3), self.next.as_ref())
    }
}
