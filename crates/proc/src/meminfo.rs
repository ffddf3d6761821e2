//! `/proc/meminfo`: the machine's memory.

use crate::fields::bytes;

/// The file.
pub const PATH: &str = "/proc/meminfo";

/// Its figures in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meminfo {
    pub total: Option<u64>,
    pub swap_total: Option<u64>,
}

/// The figures of a text; none of them if it is another text.
pub fn parse(text: &str) -> Meminfo {
    Meminfo { total: bytes(text, "MemTotal"), swap_total: bytes(text, "SwapTotal") }
}

/// The figures of this machine.
pub fn read() -> Meminfo {
    crate::text(PATH).map_or_else(Meminfo::default, |text| parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_bytes() {
        let text = "MemTotal:        2048 kB\nMemFree:     1 kB\nSwapTotal:   0 kB\n";
        assert_eq!(parse(text), Meminfo { total: Some(2 << 20), swap_total: Some(0) });
        assert_eq!(parse("nonsense"), Meminfo::default());
        assert!(read().total > Some(1 << 20));
    }
}
