//! Manual pages and docs/cli.md, both generated from the definition of the command line.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page for each command to this folder, such as ~/.local/share/man/man1, instead of printing the one of `node`.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Prints the page of the program, or writes the pages of all commands.
pub fn run(arguments: &ManArgs, program: clap::Command) -> Result<()> {
    match &arguments.out {
        Some(folder) => write(folder, program).with_context(|| format!("cannot write {}", folder.display())),
        None => {
            // Rendered whole before it is printed, so that an error leaves no half page.
            let mut page = Vec::new();
            clap_mangen::Man::new(program).render(&mut page)?;
            std::io::stdout()
                .write_all(&page)
                .context("cannot print the page")
        }
    }
}

fn write(folder: &Path, program: clap::Command) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(program, folder)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use clap::{Arg, Command, CommandFactory};

    use crate::cli::Cli;
    use parkhang_test_support::assert_documented;

    const INTRODUCTION: &str = "# The command line\n\n\
        Commands for one machine, and those that set up and check a cluster. The commands of a running cluster are in\n\
        [commands.md](commands.md). `node man --out ~/.local/share/man/man1` writes manual pages of both. These lines load the completions of a shell:\n\n    \
        source <(node completions bash)       # in ~/.bashrc\n    \
        source <(node completions zsh)        # in ~/.zshrc, behind compinit\n    \
        node completions fish | source        # in ~/.config/fish/config.fish\n\n\
        This page is generated from the code.\n";

    /// Flags of a configuration, which many commands have and the page describes once.
    const OF_CONFIGURATIONS: [&str; 9] = [
        "config_file",
        "set",
        "input_bucket",
        "input_folder",
        "input_kind",
        "output_bucket",
        "endpoint",
        "region",
        "layout",
    ];

    fn page() -> String {
        let mut program = Cli::command();
        program.build();
        let mut page = INTRODUCTION.to_owned();
        section(&mut page, &program, 2);
        page
    }

    fn section(page: &mut String, command: &Command, depth: usize) {
        let name = command.get_display_name().unwrap_or("node").replace('-', " ");
        let about = command.get_long_about().or(command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let _ = write!(page, "\n{} {name}\n\n{about}\n", "#".repeat(depth));
        let has_commands = command.get_subcommands().any(|below| below.get_name() != "help");
        if depth == 2 || !has_commands {
            let usage = command.clone().render_usage().to_string();
            let _ = write!(page, "\n    {}\n", usage.trim_start_matches("Usage: "));
        }
        let arguments = command.get_arguments();
        let (of_configurations, own): (Vec<&Arg>, Vec<&Arg>) = arguments
            .filter(|argument| !argument.is_hide_set())
            .filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"))
            .partition(|argument| depth > 2 && OF_CONFIGURATIONS.contains(&argument.get_id().as_str()));
        if !own.is_empty() {
            page.push_str("\n| argument | meaning |\n|---|---|\n");
        }
        for argument in own {
            let _ = writeln!(page, "| `{}` | {} |", spelling(argument), meaning(argument));
        }
        if !of_configurations.is_empty() {
            let names = of_configurations
                .iter()
                .filter_map(|argument| argument.get_long());
            let names: Vec<String> = names.map(|name| format!("`--{name}`")).collect();
            let _ = write!(page, "\nBesides, as for [node](#node): {}.\n", names.join(", "));
        }
        for below in command
            .get_subcommands()
            .filter(|below| below.get_name() != "help")
        {
            section(page, below, depth + 1);
        }
    }

    fn spelling(argument: &Arg) -> String {
        let flag = argument.get_long().map(|name| format!("--{name}"));
        let mut names = argument.get_value_names().unwrap_or_default().join(" ");
        if !argument.get_action().takes_values() {
            names.clear();
        }
        match flag {
            Some(flag) if names.is_empty() => flag,
            Some(flag) => format!("{flag} {names}"),
            None => names,
        }
    }

    fn meaning(argument: &Arg) -> String {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let mut meaning = help.replace('\n', " ").replace('|', "\\|");
        if !argument.get_action().takes_values() {
            return meaning;
        }
        let choices = argument.get_possible_values();
        let defaults: Vec<String> = argument
            .get_default_values()
            .iter()
            .map(|value| format!("`{}`", value.to_string_lossy()))
            .collect();
        let variable = argument.get_env();
        let more = !choices.is_empty() || !defaults.is_empty() || variable.is_some();
        if more && !meaning.ends_with('.') {
            meaning.push('.');
        }
        if !choices.is_empty() {
            let names: Vec<String> = choices
                .iter()
                .map(|choice| format!("`{}`", choice.get_name()))
                .collect();
            let _ = write!(meaning, " One of {}.", names.join(", "));
        }
        if !defaults.is_empty() {
            let _ = write!(meaning, " Default: {}.", defaults.join(", "));
        }
        if let Some(variable) = variable {
            let _ = write!(meaning, " Variable: `{}`.", variable.to_string_lossy());
        }
        meaning
    }

    #[test]
    fn the_documented_command_line_is_that_of_the_code() {
        assert_documented("cli.md", &page());
    }
}
