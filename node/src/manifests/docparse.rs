//! `manifests docparse`: records under the names and in the form of programs that parse documents, a file for each stage.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use tempfile::{Builder, NamedTempFile};

use super::RecordArgs;
use super::records::files;

/// Folder of the files.
const FOLDER: &str = "Data/Manifests";

/// Version of the form of their lines.
const SCHEMA_VERSION: &str = "docparse/1.1.0";

#[derive(Debug, Args)]
pub struct DocparseArgs {
    #[command(flatten)]
    pub records: RecordArgs,
    /// Folder to write to; files that are there already are replaced.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
}

pub fn run(arguments: &DocparseArgs) -> Result<()> {
    for path in write(&arguments.records, &arguments.to)? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Writes the files, each of them as a whole, and returns their paths. The id of a document is its volume and page, as a file has those of
/// all volumes.
pub fn write(records: &RecordArgs, to: &Path) -> Result<Vec<PathBuf>> {
    let folder = to.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let failed = || format!("cannot write to {}", folder.display());
    let mut written: BTreeMap<String, BufWriter<NamedTempFile>> = BTreeMap::new();
    for file in files(records)? {
        file.read(|mut record| {
            record.doc_id = format!("{}/{}", file.volume, record.doc_id);
            SCHEMA_VERSION.clone_into(&mut record.schema_version);
            let stage = record.stage.to_string();
            if !written.contains_key(&stage) {
                let new = Builder::new()
                    .prefix(".new-")
                    .tempfile_in(&folder)
                    .with_context(failed)?;
                written.insert(stage.clone(), BufWriter::new(new));
            }
            let line = record.to_line()?;
            if let Some(file) = written.get_mut(&stage) {
                file.write_all(line.as_bytes()).with_context(failed)?;
            }
            Ok(())
        })?;
    }
    let mut paths = Vec::new();
    for (stage, file) in written {
        let path = folder.join(format!("docparse.{stage}.manifest.jsonl"));
        let file = file
            .into_inner()
            .map_err(|error| error.into_error())
            .with_context(failed)?;
        file.persist(&path).with_context(failed)?;
        paths.push(path);
    }
    Ok(paths)
}
