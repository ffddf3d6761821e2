//! The newest lines, kept in memory for `getLog`: at most 1,024 lines and 1 MiB in all, as in MongoDB. So lines stay
//! whole: one that is cut is no JSON, and those of slow operations are the longest.

use std::collections::VecDeque;

const LINE_COUNT_MAX: usize = 1024;
const BYTES_MAX: usize = 1 << 20;
/// A longer line is cut.
const LINE_BYTES_MAX: usize = BYTES_MAX / 4;
/// A buffer up to this size is kept for the next line.
const REUSED_BYTES_MAX: usize = 1024;

/// A ring buffer of lines.
#[derive(Default)]
pub(super) struct RamLog {
    lines: VecDeque<String>,
    written_count: u64,
    bytes: usize,
}

impl RamLog {
    pub(super) fn push(&mut self, line: &str) {
        let line = &line[..line.floor_char_boundary(LINE_BYTES_MAX)];
        let mut text = String::new();
        while self.lines.len() >= LINE_COUNT_MAX || self.bytes + line.len() > BYTES_MAX {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len();
            // A full ring buffer reuses the memory of its oldest line.
            if oldest.capacity() <= REUSED_BYTES_MAX {
                text = oldest;
            }
        }
        text.clear();
        text.push_str(line);
        self.bytes += line.len();
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
    fn keeps_the_newest_whole() {
        let mut ram = RamLog::default();
        for n in 0..1030 {
            ram.push(&format!("{n}"));
        }
        ram.push(&"\u{e9}".repeat(1000));
        let (written, lines) = ram.lines();
        assert_eq!(written, 1031);
        assert_eq!((lines.len(), lines[0].as_str()), (1024, "7"));
        assert_eq!(lines[1023].len(), 2000);
        for n in 0..300 {
            ram.push(&format!("{n} {}", "x".repeat(10_000)));
        }
        let (_, lines) = ram.lines();
        let bytes: usize = lines.iter().map(String::len).sum();
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX - 10_010, "{bytes}");
        assert_eq!(bytes, ram.bytes);
        assert!(lines[0].len() > 10_000 && lines.last().unwrap().starts_with("299 "));
        ram.push(&"\u{e9}".repeat(BYTES_MAX));
        assert_eq!(ram.lines().1.last().unwrap().len(), LINE_BYTES_MAX);
        (0..1030).for_each(|_| ram.push("short"));
        assert_eq!((ram.lines.len(), ram.bytes), (LINE_COUNT_MAX, LINE_COUNT_MAX * 5));
    }
}
