//! `node config`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::problem::Problems;
use super::{ConfigArgs, Loaded, show};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check the configuration and report every fault. The exit status is 1 if there is one.
    ///
    /// Files and folders that it names are checked too: certificates, models, scans, tokens. Nothing is started or changed.
    Check(CheckArgs),
    /// Print the effective configuration as TOML. Secrets are not shown.
    Show(ShowArgs),
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Show where each value comes from.
    #[arg(long)]
    pub origin: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub fn run(command: ConfigCommand) -> Result<ExitCode> {
    match command {
        ConfigCommand::Check(arguments) => {
            Loaded::read(&arguments.config)?.fit_to_work()?;
            println!("the configuration is valid");
        }
        ConfigCommand::Show(arguments) => {
            let loaded = Loaded::read(&arguments.config)?;
            if !loaded.problems.is_empty() {
                return Err(Problems(loaded.problems).into());
            }
            if arguments.json {
                println!("{:#}", show::json(&loaded, arguments.origin));
            } else {
                print!("{}", show::toml(&loaded, arguments.origin));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
