//! The Parkhang program: nodes of a cluster, commands of operators, and `node ocr`, which runs the whole pipeline on one machine.
//!
//! It connects the libraries: it reads the configuration, opens stores, networks and listeners, and starts actors with them. Decisions about
//! work belong to `actors`, and everything about images to `models`. `anyhow` is allowed here only, as errors end with a message to
//! a user instead of a decision.

#![expect(
    unreachable_pub,
    reason = "nothing outside uses a binary, so `pub` means the crate here"
)]

mod access;
mod admin;
mod api;
mod bar;
mod cli;
mod client;
mod command_line;
mod config;
mod console;
mod database;
mod device;
mod engines;
mod eval;
mod export;
mod file_access;
mod heartbeat;
mod http;
mod join;
mod launcher;
mod log;
mod manifests;
mod manual;
mod models;
mod networks;
mod ocr;
mod output;
mod pages;
mod queues;
mod repl;
mod role;
mod search;
mod session;
mod shards;
mod simulate;
mod storage;
mod terminal;
mod tls;
mod traces;
mod transcription;
mod whoami;
mod whole_file;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    parkhang_arenas::bound();
    let _armed = parkhang_core::failpoint::arm();
    // Other spellings are translated before clap sees the line, as it can express neither their words nor
    // their options.
    let words = match command_line::words(std::env::args_os()) {
        Ok(words) => words,
        Err(error) => return finish(Err(error)),
    };
    let name = cli::program_name(words.first().map(OsString::as_os_str));
    let matches = program(name).get_matches_from(words);
    if command_line::is_given(&matches) {
        sigpipe::reset();
        log::to_terminal();
        return finish(block_on(command_line::run(&matches)));
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.command {
        // Logging of a node depends on its configuration, which is not read yet.
        None => {}
        Some(Command::Repl(_)) => log::if_asked_for(),
        Some(_) => {
            // A command ends silently when the reader of its output has gone, as in `node job list | head`; a node must not.
            sigpipe::reset();
            log::to_terminal();
        }
    }
    finish(run(cli, name))
}

/// Every command, under the name that the program was called by.
fn program(name: &'static str) -> clap::Command {
    command_line::augment(Cli::command().name(name))
}

fn finish(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", terminal::shown(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, name: &'static str) -> anyhow::Result<ExitCode> {
    block_on(async {
        match cli.command {
            None => role::run(cli.node).await,
            Some(Command::Ocr(arguments)) => ocr::run(*arguments).await,
            Some(Command::Export(arguments)) => export::run(*arguments).await,
            Some(Command::Eval(arguments)) => eval::run(arguments).await,
            Some(Command::Search(arguments)) => search::run(arguments).await,
            Some(Command::Shards(command)) => shards::run(command).await,
            Some(Command::Simulate(arguments)) => simulate::run(*arguments).await,
            Some(Command::Device(arguments)) => device::run(&arguments),
            Some(Command::Models(command)) => models::run(command),
            Some(Command::Pages(command)) => pages::run(command).await,
            Some(Command::Manifests(command)) => manifests::run(&command),
            Some(Command::Config(command)) => config::command::run(command),
            Some(Command::Tls(command)) => tls::command::run(command).map(|()| ExitCode::SUCCESS),
            Some(Command::Repl(arguments)) => repl::run(arguments).await,
            Some(Command::Token(arguments)) => access::command::run(&arguments).map(|()| ExitCode::SUCCESS),
            Some(Command::Completions { shell }) => {
                clap_complete::generate(shell, &mut program(name), name, &mut std::io::stdout());
                Ok(ExitCode::SUCCESS)
            }
            Some(Command::Man(arguments)) => {
                manual::run(&arguments, program(name)).map(|()| ExitCode::SUCCESS)
            }
        }
    })
}

fn block_on(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(work)
}
