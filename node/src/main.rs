//! The Parkhang process. `node ocr` runs the whole pipeline on this machine; the other commands work on what it wrote.

#![expect(
    unreachable_pub,
    reason = "nothing outside uses a binary, so `pub` means the crate here"
)]

mod cli;
mod config;
mod eval;
mod export;
mod networks;
mod ocr;
mod tls;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_env("PARKHANG_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    if let Command::Completions { shell } = command {
        clap_complete::generate(shell, &mut Cli::command(), "node", &mut std::io::stdout());
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Ocr(arguments) => ocr::run(arguments).await,
            Command::Export(arguments) => export::run(arguments).await,
            Command::Eval(arguments) => eval::run(arguments).await,
            Command::Config(command) => config::command::run(command),
            Command::Tls(command) => tls::command::run(command).map(|()| ExitCode::SUCCESS),
            Command::Completions { .. } => Ok(ExitCode::SUCCESS),
        }
    })
}
