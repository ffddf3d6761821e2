//! Messages for a terminal. Parts of them come from the command line, from files, and from servers that need not be
//! ours: no part may move the cursor, change the terminal, or be endless.

use std::fmt::Write;

/// The longest line; of a longer one the end is left out.
const LINE_BYTES_MAX: usize = 4096;

/// The text with control characters as escapes (`\u{1b}`), and lines of a limited length.
pub(crate) fn of(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(LINE_BYTES_MAX));
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let most = out.len() + LINE_BYTES_MAX;
        for c in line.chars() {
            if out.len() >= most {
                out.push_str("...");
                break;
            }
            match c {
                '\t' => out.push(c),
                // Writing to a text cannot fail.
                _ if c.is_control() => drop(write!(out, "{}", c.escape_default())),
                _ => out.push(c),
            }
        }
    }
    out
}

#[test]
fn no_control_characters_and_no_endless_lines() {
    assert_eq!(of("a\tb\nc\u{e4}"), "a\tb\nc\u{e4}");
    assert_eq!(of("\u{1b}[31mx\r\u{7}\u{9b}"), "\\u{1b}[31mx\\r\\u{7}\\u{9b}");
    let long = of(&format!("{}\nend", "x".repeat(1 << 20)));
    assert_eq!(long, format!("{}...\nend", "x".repeat(LINE_BYTES_MAX)));
}
