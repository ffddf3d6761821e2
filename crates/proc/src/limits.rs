//! `/proc/PID/limits`: what one process may use.
//!
//!   Limit                     Soft Limit           Hard Limit           Units
//!   Max open files            1024                 524288               files

/// The table of this process.
pub const PATH: &str = "/proc/self/limits";

/// A limit; `u64::MAX` is "unlimited".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub soft: u64,
    pub hard: u64,
}

/// The limit of a name such as `Max open files`.
pub fn parse(text: &str, name: &str) -> Option<Limit> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let mut values = line.split_whitespace().map(|value| match value {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    Some(Limit { soft: values.next()??, hard: values.next()?? })
}

/// Files that this process may have open.
pub fn open_files() -> Option<Limit> {
    parse(&crate::text(PATH)?, "Max open files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_by_name() {
        let text = "Limit   Soft Limit  Hard Limit  Units\nMax file size   unlimited   unlimited  bytes\n\
                    Max open files  1024   524288   files\nMax processes   x   1\nMax nice priority   0\n\
                    Max locked memory  18446744073709551616 1 bytes\n";
        assert_eq!(parse(text, "Max open files"), Some(Limit { soft: 1024, hard: 524_288 }));
        let unlimited = Limit { soft: u64::MAX, hard: u64::MAX };
        assert_eq!(parse(text, "Max file size"), Some(unlimited));
        for odd in ["Max processes", "Max nice priority", "Max locked memory", "Max stack size"] {
            assert_eq!(parse(text, odd), None, "{odd}");
        }
        assert!(open_files().is_some_and(|limit| limit.soft > 0 && limit.hard >= limit.soft));
    }
}
