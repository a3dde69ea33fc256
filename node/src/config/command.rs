//! `node config`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::problem::Problems;
use super::{ConfigArgs, Loaded, show};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say everything that is wrong with the configuration. Exit status 1 if anything is.
    Check(CheckArgs),
    /// Print the configuration in force as TOML. Secrets are not shown.
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
    /// Say where each value came from.
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
            println!("the configuration is sound");
        }
        ConfigCommand::Show(arguments) => {
            let loaded = Loaded::read(&arguments.config)?;
            if !loaded.problems.is_empty() {
                return Err(Problems(loaded.problems).into());
            }
            match arguments.json {
                true => println!("{:#}", show::json(&loaded, arguments.origin)),
                false => print!("{}", show::toml(&loaded, arguments.origin)),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
