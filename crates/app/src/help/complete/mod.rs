//! Completions for shells: commands, options, values, topics of help, server parameters, files and directories.
//!
//! The rows of this module have what a completion needs; `bash.rs`, `zsh.rs` and `fish.rs` write them in the language
//! of
//! each shell.

mod bash;
mod fish;
#[cfg(test)]
mod shells;
mod zsh;

pub(super) use bash::script as bash;
pub(super) use fish::script as fish;
pub(super) use zsh::script as zsh;

use std::borrow::Cow;

use nagi_server::parameter_names;

use super::commands::{COMMANDS, Command};
use super::generate::KINDS;
use super::{TOPICS, sections};
use crate::options::{COMPRESSORS_KEY, Honoured, Kind, MESSAGE_COMPRESSORS, Row, SHORT, about};

/// An option that is offered.
struct Offer {
    /// With its dashes.
    name: Cow<'static, str>,
    /// The short form with its dash; empty if there is none.
    short: &'static str,
    takes: Takes,
    meaning: &'static str,
    /// It may occur more than once.
    repeats: bool,
}

/// The value of an option.
enum Takes {
    Nothing,
    File,
    Directory,
    Words(Vec<&'static str>),
    /// Several words, separated by commas.
    List(Vec<&'static str>),
    /// The beginning `name=` of a server parameter.
    Parameter,
    /// Something that cannot be completed, by its placeholder.
    Other(&'static str),
}

/// The options of a command.
fn offers(command: &Command) -> Vec<Offer> {
    let flags = (command.flags)().into_iter().map(|flag| Offer {
        name: Cow::Borrowed(flag.name),
        short: flag.short,
        takes: by_placeholder(flag.value),
        meaning: flag.meaning,
        repeats: false,
    });
    let of_serve = || sections::accepted().filter(|row| !row.flag.is_empty()).map(of_row);
    match command.name {
        "serve" => of_serve().chain([VERBOSE]).collect(),
        // The names of options, which help explains.
        "help" => {
            let names = of_serve().map(|offer| Offer { takes: Takes::Nothing, short: "", ..offer });
            names.filter(|offer| offer.name != "--help").chain(flags).collect()
        }
        _ => flags.collect(),
    }
}

/// The short form of `--verbose`, which takes no value but may be repeated.
const VERBOSE: Offer = Offer {
    name: Cow::Borrowed("-v"),
    short: "",
    takes: Takes::Nothing,
    meaning: "raise the verbosity of the log; -vv is 2",
    repeats: true,
};

fn of_row(row: &'static Row) -> Offer {
    let about = about(row);
    Offer {
        name: Cow::Owned(format!("--{}", row.flag)),
        short: match SHORT.iter().find(|(flag, _)| *flag == row.flag) {
            Some((_, "-v")) | None => "",
            Some((_, short)) => short,
        },
        takes: match (row.implied, row.kind) {
            (Some(_), _) => Takes::Nothing,
            // Other values are refused.
            (None, _) if let Honoured::Only(accepted) = row.honoured => {
                Takes::Words(accepted.to_vec())
            }
            (None, Kind::Bool) => Takes::Words(vec!["true", "false"]),
            (None, Kind::OneOf(names)) => Takes::Words(names.to_vec()),
            (None, _) if row.key == "setParameter" => Takes::Parameter,
            (None, _) if row.key == COMPRESSORS_KEY => Takes::List(MESSAGE_COMPRESSORS.to_vec()),
            (None, _) => by_placeholder(about.value),
        },
        meaning: about.meaning,
        repeats: row.key == "setParameter",
    }
}

fn by_placeholder(value: &'static str) -> Takes {
    match value {
        "" => Takes::Nothing,
        "file" => Takes::File,
        "directory" => Takes::Directory,
        // An archive may be a directory.
        "url" => Takes::Directory,
        other => Takes::Other(other),
    }
}

/// The words that a command takes without dashes, with their descriptions.
fn words(command: &Command) -> Vec<(&'static str, &'static str)> {
    match command.name {
        "help" => {
            let commands = COMMANDS.iter().map(|command| (command.name, command.meaning));
            let topics = TOPICS.iter().filter(|(name, _)| name.chars().all(|c| !c.is_uppercase()));
            commands.chain(topics.copied()).collect()
        }
        "generate" => KINDS.iter().map(|(name, _, meaning)| (*name, *meaning)).collect(),
        _ => Vec::new(),
    }
}

/// The server parameters as `name=`.
fn parameters() -> Vec<String> {
    parameter_names().map(|name| format!("{name}=")).collect()
}
