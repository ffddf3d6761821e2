//! The newest lines, kept in memory for `getLog`: at most 1,024 lines of at most 1,024 bytes.

use std::collections::VecDeque;

const LINE_COUNT_MAX: usize = 1024;
const LINE_BYTES_MAX: usize = 1024;

/// A ring buffer of lines.
#[derive(Default)]
pub(super) struct RamLog {
    lines: VecDeque<String>,
    written_count: u64,
}

impl RamLog {
    pub(super) fn push(&mut self, line: &str) {
        // A full ring buffer reuses the memory of its oldest line.
        let mut text = match self.lines.len() < LINE_COUNT_MAX {
            true => String::new(),
            false => self.lines.pop_front().unwrap_or_default(),
        };
        text.clear();
        let end = line.len().min(LINE_BYTES_MAX);
        let end = (0..=end).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        text.push_str(&line[..end]);
        self.lines.push_back(text);
        self.written_count += 1;
    }

    /// The number of lines ever written, and the kept lines, oldest first.
    pub(super) fn lines(&self) -> (u64, Vec<String>) {
        (self.written_count, self.lines.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_and_cuts_the_long() {
        let mut ram = RamLog::default();
        for n in 0..1030 {
            ram.push(&format!("{n}"));
        }
        ram.push(&"\u{e9}".repeat(1000));
        let (written, lines) = ram.lines();
        assert_eq!(written, 1031);
        assert_eq!((lines.len(), lines[0].as_str()), (1024, "7"));
        assert_eq!(lines[1023].len(), 1024);
    }
}
