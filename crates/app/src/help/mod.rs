//! Help: `nagi --help`, `nagi help TOPIC`, `nagi generate man|bash|zsh|fish`, and the generated pages of docs/.
//!
//! ```text
//!   options' table + about.rs --\
//!   rows of commands and flags --> blocks of a page --> text for a terminal (layout.rs)
//!   server parameters ----------/                  \--> manual page (roff.rs)
//!   exit statuses -------------/ \--> completions of shells (complete/), pages of docs/ (page.rs)
//! ```
//!
//! Nothing is described twice: each text is made of the rows that the program itself parses and checks with. The
//! completions and the manual page are generated here rather than by `clap_complete` and `clap_mangen`, which need the
//! options as a `clap::Command`. Its rows have no configuration key, default of a key, status or unit, it cannot
//! express
//! that `serve` may be left out, and the completions that it writes know neither server parameters nor topics of help.

mod commands;
mod complete;
mod exit_codes;
mod generate;
mod layout;
mod lookup;
mod man;
mod overview;
#[cfg(test)]
mod page;
mod parameters;
mod roff;
mod sections;

use std::process::ExitCode;

pub(crate) use commands::meant_command;
pub(crate) use generate::run as generate;

use crate::failure::exit;
use crate::{print, say};
use layout::{Block, Style, render};

/// Topics of `nagi help` that are not commands: name and description.
const TOPICS: &[(&str, &str)] = &[
    ("parameters", "server parameters (--setParameter)"),
    ("exit-codes", "exit statuses of all commands"),
    (
        "OPTION",
        "one option, key of the configuration file or server parameter: nagi help cacheSizeGB",
    ),
];

/// Runs `nagi help [TOPIC]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let found = match args[..] {
        [] | ["help" | "--help" | "-h"] => Ok(overview::blocks()),
        [topic] => topic_blocks(topic),
        [command, flag] if flag.starts_with('-') || is_option_of(command, flag) => {
            lookup::of_command(command, flag)
        }
        [_, more, ..] => Err(format!("nagi help takes one topic, not '{more}' as well")),
    };
    match found {
        Ok(blocks) => show(&blocks),
        Err(text) => {
            say(&text);
            ExitCode::from(exit::BAD_OPTIONS)
        }
    }
}

/// True if the first is a command and the second is none, so that it is meant as an option.
fn is_option_of(command: &str, flag: &str) -> bool {
    commands::find(command).is_some() && commands::find(flag).is_none()
}

/// Prints the short help: `nagi --help`.
pub(crate) fn overview() -> ExitCode {
    show(&overview::blocks())
}

/// Prints the help of a command: `nagi COMMAND --help`.
pub(crate) fn command(name: &str) -> ExitCode {
    show(&commands::blocks(name))
}

fn topic_blocks(topic: &str) -> Result<Vec<Block>, String> {
    match topic {
        "parameters" => Ok(parameters::blocks()),
        "exit-codes" => Ok(exit_codes::blocks()),
        command if commands::find(command).is_some() => Ok(commands::blocks(command)),
        name => lookup::blocks(name),
    }
}

fn show(blocks: &[Block]) -> ExitCode {
    print(render(blocks, Style::of_output()).trim_end_matches('\n'));
    ExitCode::SUCCESS
}

/// The first letter becomes a capital.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", chars.as_str())
}
