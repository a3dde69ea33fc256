//! Grammar of the command line. The arguments of each command are defined in the room that runs it.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::access::command::TokenArgs;
use crate::config::command::ConfigCommand;
use crate::device::DeviceArgs;
use crate::eval::EvalArgs;
use crate::export::ExportArgs;
use crate::manifests::ManifestsCommand;
use crate::manual::ManArgs;
use crate::models::ModelsCommand;
use crate::ocr::OcrArgs;
use crate::pages::PagesCommand;
use crate::repl::ReplArgs;
use crate::role::RoleArgs;
use crate::shards::ShardsCommand;
use crate::simulate::SimulateArgs;
use crate::tls::command::TlsCommand;

/// Read libraries of page scans, on one machine or on a cluster.
#[derive(Debug, Parser)]
#[command(name = "node", version, propagate_version = true)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub node: RoleArgs,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read folders of page scans, PDFs and images into text, on this machine.
    ///
    /// PAGES is a folder of images (one volume), a PDF or an image file (one volume each), a folder of any of these, or several. A second run with the same OUT
    /// continues where the first one stopped and repeats no page whose results are still valid.
    Ocr(Box<OcrArgs>),
    /// Export results as text, PageXML, ALTO, hOCR, IIIF, JSON lines, PDF or a viewer.
    ///
    /// Results are read from OUT or from a job of a cluster, and nothing there is changed. Earlier exports in the same folder are
    /// overwritten. Example: `node export out --format pagexml,jsonl`.
    Export(Box<ExportArgs>),
    /// Evaluate results against ground truth: character and word error rates, line recall and precision.
    ///
    /// Without --results the images are read now, with the given models and configuration, and the artifacts are deleted afterwards.
    Eval(EvalArgs),
    /// Manage jobs that are kept in the artifact store, without a database.
    #[command(subcommand)]
    Shards(ShardsCommand),
    /// Simulate a cluster that reads a library, in virtual time and with recorded stage times.
    ///
    /// Nothing is read or changed. `node simulate record` makes a profile of your own machines from a job that has ended.
    /// Example: `node simulate --sweep nodes=50,100,200`.
    Simulate(Box<SimulateArgs>),
    /// List the devices of this machine that networks can run on, with a self-test and their speed.
    ///
    /// The self-test compares each device with the processor. The exit status is 1 if one computes other results, or a named one does
    /// not exist.
    Device(DeviceArgs),
    /// List models, and install those that are not part of the program.
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Look at pages of PDFs.
    #[command(subcommand)]
    Pages(PagesCommand),
    /// Look at the records of pages that runs keep: slow ones, errors.
    #[command(subcommand)]
    Manifests(ManifestsCommand),
    /// Check or show the configuration of a node.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Create the certificates of a cluster.
    #[command(subcommand)]
    Tls(TlsCommand),
    /// Run commands on a cluster: interactively, from standard input, or from --command.
    ///
    /// The first command of a script that is refused ends it. Example: `node repl -c 'job list' -c 'nodes list'`.
    Repl(ReplArgs),
    /// Create a token for the HTTP interface of an orchestrator.
    ///
    /// Prints the line to add to the file that api.tokens_file names, and the token itself, which is stored nowhere. Changes nothing.
    Token(TokenArgs),
    /// Print the completion script of a shell: `source <(node completions bash)` in ~/.bashrc loads it.
    Completions {
        /// Shell to complete for.
        shell: Shell,
    },
    /// Print the manual page of this program, or write the manual pages of all commands.
    Man(ManArgs),
}

/// Name that the program goes by in help, completions and manual pages: `parkhang` where it was called so, else `node`.
///
/// It is installed under both, since Node.js owns the second on most machines.
pub fn program_name(called: Option<&OsStr>) -> &'static str {
    if called.and_then(|called| Path::new(called).file_name()) == Some(OsStr::new("parkhang")) {
        "parkhang"
    } else {
        "node"
    }
}
