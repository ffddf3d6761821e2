//! `nagi help parameters`: the server parameters.

use nagi_server::{ParameterAbout, about_parameters};

use super::layout::Block;
use super::sentence;

/// How a parameter is set.
pub(super) const HOW: &str = "A server parameter is set with --setParameter name=value, which may be repeated, or in \
     a configuration file below setParameter, or at run time with db.adminCommand({setParameter: 1, name: value}) \
     unless it can be set at the start only. db.adminCommand({getParameter: \"*\"}) lists the values.";

/// All of them.
pub(super) fn blocks() -> Vec<Block> {
    let mut blocks = vec![Block::title("Server parameters"), Block::text(HOW)];
    blocks.extend(about_parameters().map(|about| Block::entry(about.name, text(&about))));
    blocks
}

/// The explanation of one; empty if there is no such parameter. Case does not matter.
pub(super) fn of(name: &str) -> Vec<Block> {
    let Some(about) = about_parameters().find(|about| about.name.eq_ignore_ascii_case(name)) else {
        return Vec::new();
    };
    let mut blocks = vec![
        Block::title(format!("Server parameter {}", about.name)),
        Block::text(format!("{}.", sentence(about.meaning))),
        Block::row("Values", values(&about)),
        Block::row("Default", about.default.as_str()),
        Block::row("Set", about.set_at),
    ];
    blocks.push(Block::row("Status", about.no_effect.unwrap_or("honoured")));
    blocks
}

/// An entry for each of those that `wanted` selects.
pub(super) fn entries(wanted: &dyn Fn(&ParameterAbout) -> bool) -> Vec<Block> {
    let found = about_parameters().filter(|about| wanted(about));
    found.map(|about| Block::entry(about.name, text(&about))).collect()
}

/// One line: meaning, values, default, when it may be set.
fn text(about: &ParameterAbout) -> String {
    let mut text = format!(
        "{}. {}. Default: {}. Set {}.",
        sentence(about.meaning),
        sentence(&values(about)),
        about.default,
        about.set_at
    );
    if let Some(why) = about.no_effect {
        text.push_str(&format!(" {}.", sentence(why)));
    }
    text
}

/// The values with their unit.
pub(super) fn values(about: &ParameterAbout) -> String {
    match about.unit {
        "" => about.values.clone(),
        unit => format!("{} ({unit})", about.values),
    }
}
