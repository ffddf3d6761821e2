//! `nagi --help`: what the program is, the commands, the common options, and where to read more.

use super::commands::COMMANDS;
use super::layout::Block;
use super::{TOPICS, sections};

/// The options that most servers need, in the order of the text.
const COMMON: &[&str] = &[
    "dbpath",
    "port",
    "bind_ip",
    "config",
    "auth",
    "replSet",
    "initiate",
    "cacheSizeGB",
    "storageEngine",
    "logpath",
    "fork",
];

/// What the program is.
pub(crate) const ABOUT: &str = "Nagi is a document database that speaks MongoDB's wire protocol: drivers, shells and \
     tools of MongoDB 8.0 connect to it, and its options are mongod's.";

/// The whole text.
pub(crate) fn blocks() -> Vec<Block> {
    let mut blocks = vec![
        Block::text(ABOUT),
        Block::title("Usage"),
        Block::code("nagi [serve] [options]"),
        Block::code("nagi COMMAND [options]"),
        Block::title("Commands"),
    ];
    blocks.extend(COMMANDS.iter().map(|command| Block::row(command.name, command.meaning)));
    blocks.push(Block::title("Common options of serve"));
    blocks.extend(COMMON.iter().filter_map(|flag| sections::short(flag)));
    blocks.push(Block::title("Read more"));
    blocks.push(Block::row("nagi help serve", "all options of the server"));
    blocks.push(Block::row("nagi help COMMAND", "the options of another command"));
    blocks.extend(
        TOPICS.iter().map(|(topic, meaning)| Block::row(format!("nagi help {topic}"), *meaning)),
    );
    blocks.push(Block::row("man nagi", "all of this as a manual page (nagi generate man)"));
    blocks.push(Block::row("docs/", "the manual; docs/configuration.md has all options and keys"));
    blocks
}

#[test]
fn the_short_help_is_short() {
    use super::layout::{Style, render};
    let text = render(&blocks(), Style { width: 80, bold: false });
    assert!(text.lines().count() < 50, "{text}");
    for flag in COMMON {
        assert!(text.contains(&format!("--{flag}")), "{flag}");
    }
}
