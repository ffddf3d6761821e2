//! The commands of the program, and the help of each.

use super::TOPICS;
use super::layout::Block;
use super::{generate, sections, sentence};
use crate::backup;
use crate::copy;
use crate::flag::{Flag, switch};

/// A command.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) usages: &'static [&'static str],
    /// Paragraphs.
    pub(crate) about: &'static [&'static str],
    /// Its options; those of `serve` are in the table of options.
    pub(crate) flags: fn() -> Vec<Flag>,
    pub(crate) examples: &'static [&'static str],
}

const HELP: Flag = Flag { short: "-h", ..switch("--help", "print this help and exit") };

fn with_help(flags: &[Flag]) -> Vec<Flag> {
    flags.iter().copied().chain([HELP]).collect()
}

/// The commands, in the order of the help.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[Command] = &[
    Command {
        name: "serve",
        meaning: "runs a server; also what nagi does without a command",
        usages: &["nagi [serve] [options]", "nagi serve --shutdown --dbpath <directory>",
            "nagi serve --repair --dbpath <directory>"],
        about: &[
            "Each option may be a flag or a key of a configuration file (--config), which is YAML as mongod reads it, \
             or lines name=value. The command line takes precedence. A flag has its value as the next word or after \
             '='. Unknown options are refused, with the most similar name.",
            "Every option below is honoured, unless its text says that it has no effect, that only one value is \
             accepted, or that it is refused. 'nagi help OPTION' explains one in detail, 'nagi help parameters' lists \
             the server parameters.",
        ],
        flags: Vec::new,
        examples: &[
            "nagi serve --dbpath /var/lib/nagi --replSet rs0 --initiate",
            "nagi serve --config /etc/nagi.conf",
            "nagi serve --dbpath /data/db --auth --bind_ip localhost,192.0.2.7",
        ],
    },
    Command {
        name: "backup",
        meaning: "copies the data of a running or stopped server",
        usages: &[
            "nagi backup --out <directory> [--uri <uri> | --dbpath <directory>]",
            "nagi backup --out <directory> --base <directory>",
            "nagi backup --verify <directory>",
            "nagi backup --archive <url> [--uri <uri>] [--newBase | --once]",
            "nagi backup --prune <url> [--keepHours <hours>] [--keepBases <copies>]",
        ],
        about: &[
            "The first two forms make a consistent copy of the data files, the third compares a copy with its \
             checksums. The fourth archives the log of a member of a replica set until a signal stops it, so that any \
             moment can be restored; the last removes what is old from such an archive. An archive is a directory, \
             file:///directory or s3://bucket/prefix; the keys and the region of a store come from AWS_ACCESS_KEY_ID, \
             AWS_SECRET_ACCESS_KEY and AWS_REGION in the environment.",
            "A password that the address does not contain is read from --passwordFile, from NAGI_PASSWORD in the \
             environment, or at a prompt. docs/backup.md explains backups in detail.",
        ],
        flags: || with_help(backup::FLAGS),
        examples: &[
            "nagi backup --out /backup/monday",
            "nagi backup --out /backup/tuesday --base /backup/monday --rateMBps 50",
            "nagi backup --archive s3://bucket/shop --endpoint https://store.example",
            "nagi backup --prune /backup/shop --keepHours 720",
        ],
    },
    Command {
        name: "restore",
        meaning: "makes a data directory of a backup or of a moment of an archive",
        usages: &[
            "nagi restore --from <directory> --dbpath <directory>",
            "nagi restore --from <url> --to <time> --dbpath <directory>",
        ],
        about: &["The data directory must be new or empty. It becomes a data directory only when the restore is \
                  complete; then start a server on it."],
        flags: || with_help(backup::RESTORE_FLAGS),
        examples: &[
            "nagi restore --from /backup/tuesday --dbpath /data/restored",
            "nagi restore --from /archive --to 2026-11-26T09:30:00Z --dbpath /data/new",
        ],
    },
    Command {
        name: "copy",
        meaning: "copies the data into another deployment while the source serves",
        usages: &[
            "nagi copy --from <uri> --to <uri> [--include <name>] [options]",
            "nagi copy --from <uri> --to <uri> --cutOver [--verify]",
            "nagi copy --from <uri> --to <uri> --finish [--verify]",
        ],
        about: &[
            "It copies all documents, and then applies the changes that the source has seen since, and continues with \
             that until a signal stops it. The same command continues an interrupted copy: its progress is in the \
             target's database nagi_copy. The source needs a change log: it is a replica set, of one server or \
             more, or a server over a cluster (--storageEngine tikv). The target may be any server.",
            "--cutOver ends the copy when the target is near the source: it blocks the writes of the source's users, \
             applies the last changes, makes the indexes unique, compares both sides and exits with 0. The source \
             stays blocked. --finish does the same without blocking: end all that writes to the source first.",
            "Users and roles are copied with --users only. A password that an address does not contain is read from \
             the file of that side, from NAGI_PASSWORD in the environment, or at a prompt. docs/copy.md explains the \
             rest.",
        ],
        flags: || with_help(copy::FLAGS),
        examples: &[
            "nagi copy --from mongodb://127.0.0.1 --to mongodb://node1",
            "nagi copy --from mongodb://127.0.0.1 --to mongodb://node1 --cutOver --verify",
            "nagi copy --from mongodb://a,b/?replicaSet=rs0 --to mongodb://node1",
        ],
    },
    Command {
        name: "diagnostics",
        meaning: "copies the files of diagnostic data for MongoDB's tools",
        usages: &["nagi diagnostics --dbpath <directory> --out <directory> [options]"],
        about: &["With encryption at rest the files in diagnostic.data are encrypted, and this command decrypts them. \
            Without it they are copied as they are. The server may run. The copy is not encrypted: it has figures of \
            the server, its command line and names of the machine, but nothing of documents."],
        flags: || with_help(backup::DIAGNOSTICS_FLAGS),
        examples: &[
            "nagi diagnostics --dbpath /data/db --out /tmp/incident",
        ],
    },
    Command {
        name: "doctor",
        meaning: "checks the machine and the data directory",
        usages: &["nagi doctor [--config <file>] [--dbpath <directory>] [--quick] [--json]"],
        about: &["It lists the settings of this machine that are harmful for a database, the reasons, and the \
            commands that fix them."],
        flags: || nagi_doctor::FLAGS.iter().map(Flag::from).collect(),
        examples: &["nagi doctor --config /etc/nagi.conf"],
    },
    Command {
        name: "ldap-check",
        meaning: "tries a user's login by LDAP as a configuration describes it",
        usages: &["nagi ldap-check --config <file> --user <name> [--passwordFile <file>]"],
        about: &[
            "It connects to each LDAP server of the configuration, finds the user's name in the directory, checks the \
             password and reads the groups, and prints each step with [OK], [FAIL] or [SKIP] and the reason. No server \
             has to run. The exit status is 0 if no step failed, and otherwise 1.",
            "The password may also be NAGI_PASSWORD in the environment. docs/ldap.md explains the steps.",
        ],
        flags: || with_help(crate::ldap_check::FLAGS),
        examples: &[
            "nagi ldap-check --config /etc/nagi.conf --user ann",
            "nagi ldap-check -f nagi.conf --user ann --passwordFile ann.password",
        ],
    },
    Command {
        name: "advise",
        meaning: "advises which indexes to create and to drop",
        usages: &["nagi advise [--uri <uri> [--passwordFile <file>]] [options]"],
        about: &[
            "It asks a running server for advice, which the server derives from its slow operations since the start, \
             the use of indexes, and samples of documents, and prints each with its evidence and the command to run. \
             It changes nothing. The exit status is 0 if the server has answered, with advice or without, and \
             otherwise 1.",
            "The user of --uri needs the role clusterMonitor, and a right to read the collections whose indexes are to \
             be tried: readAnyDatabase, for example. docs/advice.md explains the advice.",
        ],
        flags: || with_help(backup::ADVISE_FLAGS),
        examples: &[
            "nagi advise --uri mongodb://127.0.0.1:27018",
            "nagi advise --database shop --json",
        ],
    },
    Command {
        name: "ping",
        meaning: "checks that a server answers",
        usages: &["nagi ping [--uri <uri> [--passwordFile <file>]] [--timeoutSeconds <seconds>]"],
        about: &["It connects, sends a ping, and exits with 0 if the server answers, otherwise with 1: for health \
                  checks of containers and for scripts."],
        flags: || with_help(backup::PING_FLAGS),
        examples: &["nagi ping --uri mongodb://127.0.0.1:27018 --timeoutSeconds 1"],
    },
    Command {
        name: "generate",
        meaning: "prints the manual page or the completions of a shell",
        usages: &["nagi generate man|bash|zsh|fish"],
        about: &[],
        flags: || vec![HELP],
        examples: &[
            "nagi generate man > /usr/local/share/man/man1/nagi.1",
            "nagi generate bash > /usr/share/bash-completion/completions/nagi",
            "nagi generate zsh > /usr/local/share/zsh/site-functions/_nagi",
            "nagi generate fish > ~/.config/fish/completions/nagi.fish",
        ],
    },
    Command {
        name: "version",
        meaning: "prints the version, and MongoDB's that it is compatible with",
        usages: &["nagi version"],
        about: &[],
        flags: || vec![HELP],
        examples: &[],
    },
    Command {
        name: "help",
        meaning: "explains a command, an option or another topic",
        usages: &["nagi help [topic]", "nagi help <command> <option>"],
        about: &[],
        flags: || vec![HELP],
        examples: &["nagi help cacheSizeGB", "nagi help --replSet", "nagi help storage.journal.commitIntervalMs",
            "nagi help backup --archive"],
    },
];

/// The command `name`.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// What another program calls a command, and what it is here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("repair", "nagi serve --repair --dbpath DIR repairs a data directory"),
    ("shutdown", "nagi serve --shutdown --dbpath DIR stops a server"),
    ("stop", "nagi serve --shutdown --dbpath DIR stops a server"),
    ("start", "nagi serve --dbpath DIR starts a server"),
    ("bench", "nagi-bench, a program of its own that 'make build' builds, measures the server"),
    ("verify", "nagi backup --verify DIR verifies a backup"),
    ("man", "nagi generate man prints the manual page"),
    ("completion", "nagi generate bash|zsh|fish prints the completions of a shell"),
];

/// "; did you mean 'serve'?" for an unknown command, or what to call instead; empty if no command is similar.
pub(crate) fn meant_command(name: &str) -> String {
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(known, _)| *known == name) {
        return format!("; {instead}");
    }
    let commands = COMMANDS.iter().map(|command| (command.name, command.name));
    let nearest = nagi_error::nearest(name, commands);
    nearest.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

/// The help of a command; that of `nagi help` for an unknown name.
pub(crate) fn blocks(name: &str) -> Vec<Block> {
    let Some(command) = find(name) else { return Vec::new() };
    let mut blocks =
        vec![Block::text(format!("nagi {name}: {}", command.meaning)), Block::title("Usage")];
    blocks.extend(command.usages.iter().map(|usage| Block::code(*usage)));
    blocks.extend(command.about.iter().map(|text| Block::text(*text)));
    blocks.extend(flags(command));
    blocks.extend(after(name));
    if !command.examples.is_empty() {
        blocks.push(Block::title("Examples"));
        blocks.extend(command.examples.iter().map(|example| Block::code(*example)));
    }
    blocks
}

/// The section of a command's flags.
pub(crate) fn flags(command: &Command) -> Vec<Block> {
    let flags = (command.flags)();
    if flags.is_empty() {
        return Vec::new();
    }
    let entries = flags.iter().map(entry);
    [Block::title("Options")].into_iter().chain(entries).collect()
}

/// A flag with its description.
pub(crate) fn entry(flag: &Flag) -> Block {
    let default = match flag.value {
        "" => String::new(),
        _ => format!(" Default: {}.", flag.default),
    };
    Block::entry(term(flag), format!("{}.{default}", sentence(flag.meaning)))
}

fn term(flag: &Flag) -> String {
    let short = if flag.short.is_empty() { String::new() } else { format!("{}, ", flag.short) };
    let value = if flag.value.is_empty() { String::new() } else { format!(" <{}>", flag.value) };
    format!("{short}{}{value}", flag.name)
}

/// What a command's help has in addition.
fn after(name: &str) -> Vec<Block> {
    match name {
        "serve" => sections::blocks(),
        "generate" => {
            let rows = generate::KINDS.iter().map(|(kind, _, meaning)| Block::row(*kind, *meaning));
            [Block::title("Output")].into_iter().chain(rows).collect()
        }
        "doctor" => {
            let rows = nagi_doctor::CHECKS.iter().map(|check| Block::row(check.name, check.title));
            let text = "The exit status is 0 without findings or with notes only, 1 with warnings, 3 with a critical \
                        finding, and 2 for wrong usage.";
            let data = "Of a data directory that no server uses it compares what a start compares, too: the files \
                        that the last orderly shutdown recorded, by presence and size, and the list of files by its \
                        checksum. It opens no database: damage inside of the other files, and in a log after a crash, \
                        it does not see. A start finds that in the log, the command 'validate' in a collection, and \
                        'nagi serve --repair' in all of the data.";
            [
                Block::title("Data files"),
                Block::text(data),
                Block::title("Exit status"),
                Block::text(text),
                Block::title("Checks"),
            ]
            .into_iter()
            .chain(rows)
            .collect()
        }
        "help" => {
            let commands = COMMANDS.iter().map(|command| Block::row(command.name, command.meaning));
            let topics = TOPICS.iter().map(|(name, meaning)| Block::row(*name, *meaning));
            [Block::title("Topics")].into_iter().chain(commands).chain(topics).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn similar_commands() {
    assert_eq!(meant_command("serv"), "; did you mean 'serve'?");
    assert_eq!(meant_command("sevre"), "; did you mean 'serve'?");
    assert_eq!(meant_command("dance"), "");
    let repair = "; nagi serve --repair --dbpath DIR repairs a data directory";
    assert_eq!(meant_command("repair"), repair);
    assert!(meant_command("bench").starts_with("; nagi-bench, a program"));
}

#[test]
fn every_flag_is_described() {
    for command in COMMANDS {
        for flag in (command.flags)() {
            assert!(flag.name.starts_with("--") && !flag.default.is_empty(), "{}", flag.name);
            assert!((5..=150).contains(&flag.meaning.len()), "{} {}", command.name, flag.name);
        }
    }
}
