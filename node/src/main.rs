//! The Parkhang process. `node ocr` runs the whole pipeline on this machine; the other commands work on what it wrote.

#![expect(
    unreachable_pub,
    reason = "nothing outside uses a binary, so `pub` means the crate here"
)]

mod cli;
mod config;
mod eval;
mod export;
mod http;
mod job;
mod log;
mod networks;
mod nodes;
mod ocr;
mod role;
mod shards;
mod simulate;
mod storage;
mod tls;
mod traces;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    #[cfg(feature = "failpoints")]
    let _armed = parkhang_actors::failpoint::arm();
    let cli = Cli::parse();
    // A node learns from its configuration how to log.
    if cli.command.is_some() {
        log::to_terminal();
    }
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    if let Some(Command::Completions { shell }) = cli.command {
        clap_complete::generate(shell, &mut Cli::command(), "node", &mut std::io::stdout());
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            None => role::run(cli.node).await,
            Some(Command::Ocr(arguments)) => ocr::run(*arguments).await,
            Some(Command::Export(arguments)) => export::run(*arguments).await,
            Some(Command::Eval(arguments)) => eval::run(arguments).await,
            Some(Command::Job(command)) => job::run(command).await,
            Some(Command::Nodes(command)) => nodes::run(command).await,
            Some(Command::Shards(command)) => shards::run(command).await,
            Some(Command::Simulate(arguments)) => simulate::run(*arguments).await,
            Some(Command::Config(command)) => config::command::run(command),
            Some(Command::Tls(command)) => tls::command::run(command).map(|()| ExitCode::SUCCESS),
            Some(Command::Completions { .. }) => Ok(ExitCode::SUCCESS),
        }
    })
}
