//! `node models`: the models of this machine, and the installation of those that are not part of the program.
//!
//! An archive comes from elsewhere, so it is unpacked beside its place under bounds, every model in it is opened, and only then does it
//! take the place where nodes look. The room must not know what nodes do with models, only where they look for them.

mod contents;
mod install;
mod list;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::networks;

#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// Install models from FILE, an archive (tar.gz) or a folder: those that read print and see the layout of pages, those that embed texts,
    /// or both.
    ///
    /// FILE holds the folders orientation, detector and recognizer (for page_ocr), with layout and table beside them (for doctags), or dense
    /// and sparse (for chunk, embed and search), at its top or in folders. Every model is opened before any is put in place; models of the
    /// same purpose that are there already are replaced. Nodes load them when they start the next time.
    Install(InstallArgs),
    /// List the models that nodes of this machine load: those that are compiled in, and those that are installed.
    ///
    /// The files of each are compared with their checksums. The exit status is 1 if one is missing or damaged.
    List(ListArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Folder with the models that are not part of the program; by default the one beside it, where nodes look.
    #[arg(long, env = "PARKHANG_MODELS__DIR", value_name = "DIR")]
    pub models_dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct InstallArgs {
    /// Archive or folder with the models.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Folder to install them in, as its folders print and embeddings; by default the one beside the program, where nodes look.
    #[arg(long, env = "PARKHANG_MODELS__DIR", value_name = "DIR")]
    pub models_dir: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
///
/// If FILE does not hold the models, or they cannot be written. What was installed before then stays.
pub fn run(command: ModelsCommand) -> Result<ExitCode> {
    match command {
        ModelsCommand::Install(arguments) => run_install(arguments),
        ModelsCommand::List(arguments) => {
            let list = list::List::of(arguments.models_dir.as_deref());
            if arguments.json {
                println!("{}", serde_json::to_string_pretty(&list)?);
            } else {
                println!("{list}");
            }
            Ok(ExitCode::from(u8::from(!list.is_complete())))
        }
    }
}

fn run_install(arguments: InstallArgs) -> Result<ExitCode> {
    let folder = match arguments.models_dir {
        Some(folder) => folder,
        None => networks::folder_beside_program()?,
    };
    for installed in install::install(&arguments.file, &folder)? {
        println!("{} (sha256:{})", installed.place.display(), installed.sha256);
        if let Some(lack) = installed.lack {
            eprintln!("{lack}");
        }
    }
    Ok(ExitCode::SUCCESS)
}
