//! `nagi help exit-codes`.

use super::layout::Block;
use super::sentence;
use crate::failure::exit::{BY_SIGNAL, STATUSES};

/// All exit statuses.
pub(super) fn blocks() -> Vec<Block> {
    let mut blocks = vec![Block::title("Exit statuses")];
    blocks.extend(rows());
    blocks.push(Block::text(BY_SIGNAL));
    blocks
}

/// A row for each status and command.
pub(super) fn rows() -> impl Iterator<Item = Block> {
    STATUSES.iter().map(|status| {
        let commands = match status.commands {
            "all" => String::new(),
            commands => format!("{commands}: "),
        };
        let advice = if status.advice.is_empty() { "" } else { ". " };
        let text = format!("{commands}{}{advice}{}", status.meaning, status.advice);
        Block::row(status.code.to_string(), sentence(text.trim_end_matches('.')) + ".")
    })
}
