//! Grammar of the command line. The arguments of each command are in the room that carries it out.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::access::command::TokenArgs;
use crate::config::command::ConfigCommand;
use crate::device::DeviceArgs;
use crate::eval::EvalArgs;
use crate::export::ExportArgs;
use crate::manual::ManArgs;
use crate::ocr::OcrArgs;
use crate::repl::ReplArgs;
use crate::role::RoleArgs;
use crate::shards::ShardsCommand;
use crate::simulate::SimulateArgs;
use crate::tls::command::TlsCommand;

/// Reads libraries of page scans.
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
    /// Read folders of page scans into text, on this machine.
    ///
    /// PAGES is a folder of images (one volume), a folder of such folders, or several of either. A second run over the
    /// same OUT goes on where the first one stopped and repeats nothing that still stands.
    Ocr(Box<OcrArgs>),
    /// Write the results in OUT, or of a cluster's job, as text, PageXML, ALTO, hOCR, IIIF, JSON lines or a viewer.
    Export(Box<ExportArgs>),
    /// Score readings against truth: character and word error rates, line recall and precision.
    Eval(EvalArgs),
    /// Make a job that lives in the storage alone, or look at one.
    #[command(subcommand)]
    Shards(ShardsCommand),
    /// Say what a fleet would do with a library: a cluster in simulated time, with recorded stage times.
    Simulate(Box<SimulateArgs>),
    /// Say which devices networks can run on here, whether they compute what the processor does, and how fast.
    Device(DeviceArgs),
    /// Check or show the configuration of a cluster's node.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Make the certificates of a secure cluster.
    #[command(subcommand)]
    Tls(TlsCommand),
    /// Give commands to a cluster: on a terminal, from standard input, or those of --command.
    Repl(ReplArgs),
    /// Make a token for the HTTP interface of an orchestrator, and the line by which it is recognised.
    Token(TokenArgs),
    /// Print the completion script for a shell: `source <(node completions bash)` in ~/.bashrc loads it.
    Completions { shell: Shell },
    /// Print the manual page of this program, or write those of all its commands.
    Man(ManArgs),
}
