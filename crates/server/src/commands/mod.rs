//! The commands: one row each, sorted by name, one file each by area.

mod diagnose;
mod handshake;
mod replicate;
mod session;

use std::collections::HashMap;
use std::sync::OnceLock;

use foldhash::fast::FixedState;

use crate::command::Command;

/// Every command, sorted by name.
pub(crate) static COMMANDS: &[&Command] = &[
    &diagnose::BUILD_INFO,
    &session::END_SESSIONS,
    &handshake::HELLO,
    &handshake::IS_MASTER,
    &diagnose::PING,
    &session::REFRESH_SESSIONS,
    &replicate::REPL_SET_GET_STATUS,
    &session::START_SESSION,
    &diagnose::WHATSMYURI,
];

type Names = HashMap<&'static str, usize, FixedState>;

/// Positions in [`COMMANDS`] by name and alias.
fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Names::default();
        for (index, command) in COMMANDS.iter().enumerate() {
            names.insert(command.name, index);
            for alias in command.aliases {
                names.insert(alias, index);
            }
        }
        names
    })
}

/// The row for a name or alias.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    names().get(name).map(|index| COMMANDS[*index])
}

/// The position of a row.
pub(crate) fn index_of(command: &Command) -> Option<usize> {
    names().get(command.name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_complete() {
        let key = |c: &&Command| c.name.to_lowercase();
        for pair in COMMANDS.windows(2) {
            assert!(key(&pair[0]) < key(&pair[1]), "{} {}", pair[0].name, pair[1].name);
        }
        for command in COMMANDS {
            assert!(!command.help.is_empty(), "{}", command.name);
            assert!(std::ptr::eq(find(command.name).unwrap(), *command));
            for alias in command.aliases {
                assert!(std::ptr::eq(find(alias).unwrap(), *command));
            }
        }
    }
}
