//! `manifests errors`: pages that failed, by stage and category.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use clap::Args;
use parkhang_core::domain::StageError;
use serde::Serialize;

use super::records::files;
use super::{RecordArgs, print};
use crate::admin::text::table;

#[derive(Debug, Args)]
pub struct ErrorsArgs {
    #[command(flatten)]
    pub records: RecordArgs,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorCount {
    pub stage: String,
    pub category: String,
    pub pages: u64,
    /// Message of the first of them.
    pub message: String,
    /// Volume and page of the first of them.
    pub such_as: String,
}

pub fn run(arguments: &ErrorsArgs) -> Result<()> {
    let found = count(&arguments.records)?;
    print(&found, &text(&found), arguments.json)
}

/// Counts the pages whose last record is a failure.
pub fn count(records: &RecordArgs) -> Result<Vec<ErrorCount>> {
    let mut counts: BTreeMap<(String, &'static str), ErrorCount> = BTreeMap::new();
    for file in files(records)? {
        // Runs append, and a page that failed in one of them may have been done in the next.
        let mut last: HashMap<String, StageError> = HashMap::new();
        let mut order = Vec::new();
        file.read(|record| {
            match record.error {
                Some(error) => {
                    order.push(record.doc_id.clone());
                    last.insert(record.doc_id, error);
                }
                None => drop(last.remove(&record.doc_id)),
            }
            Ok(())
        })?;
        for page in order {
            let Some(error) = last.remove(&page) else {
                continue;
            };
            let category = error.category.as_str();
            let kind = counts
                .entry((error.stage.clone(), category))
                .or_insert_with(|| ErrorCount {
                    stage: error.stage,
                    category: category.to_owned(),
                    pages: 0,
                    message: error.message,
                    such_as: format!("{} {page}", file.volume),
                });
            kind.pages += 1;
        }
    }
    Ok(counts.into_values().collect())
}

fn text(found: &[ErrorCount]) -> String {
    if found.is_empty() {
        return "no page failed at last".to_owned();
    }
    let header = ["stage", "kind", "such as", "in", "pages"];
    let rows = found.iter().map(|kind| {
        [
            kind.stage.clone(),
            kind.category.clone(),
            kind.message.clone(),
            kind.such_as.clone(),
            kind.pages.to_string(),
        ]
    });
    table(header, rows, 4)
}
