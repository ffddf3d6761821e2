//! `nagi generate man|bash|zsh|fish`.

use std::process::ExitCode;

use super::{complete, man};
use crate::failure::exit;
use crate::{options, print, say};

type Kind = (&'static str, fn() -> String, &'static str);

/// What can be generated: name, text, description.
pub(super) const KINDS: &[Kind] = &[
    ("man", man::page, "the manual page nagi(1), in the format of man(7)"),
    (
        "bash",
        complete::bash,
        "completions of bash: source them, or put them where bash-completion finds them",
    ),
    ("zsh", complete::zsh, "completions of zsh: a file _nagi in a directory of fpath"),
    (
        "fish",
        complete::fish,
        "completions of fish: a file nagi.fish in its directory of completions",
    ),
];

/// Runs `nagi generate KIND`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let names: Vec<&str> = KINDS.iter().map(|(name, ..)| *name).collect();
    let expected = format!("expected {}", names.join(", "));
    let problem = match args[..] {
        [kind] => match KINDS.iter().find(|(name, ..)| *name == kind) {
            Some((_, text, _)) => {
                print(text().trim_end_matches('\n'));
                return ExitCode::SUCCESS;
            }
            None => {
                format!("unknown kind '{kind}'{}: {expected}", options::meant_option(kind, &names))
            }
        },
        [] => format!("the kind is missing: {expected}"),
        [_, more, ..] => format!("it takes one kind, not '{more}' as well"),
    };
    say(&format!("nagi generate: {problem}\ntry 'nagi help generate' for more information"));
    ExitCode::from(exit::BAD_OPTIONS)
}
