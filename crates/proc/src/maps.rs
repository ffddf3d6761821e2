//! `/proc/self/maps`: what this process has mapped.

/// One map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Map {
    pub start: usize,
    pub end: usize,
    /// Of the file, in bytes.
    pub offset: u64,
    /// Of the file; 0 for memory without one.
    pub inode: u64,
}

/// The maps of a text; lines of another form are left out.
pub fn parse(text: &str) -> impl Iterator<Item = Map> {
    text.lines().filter_map(parse_line)
}

/// start-end permissions offset device inode path
fn parse_line(line: &str) -> Option<Map> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (offset, inode) = (fields.nth(1)?, fields.nth(1)?);
    Some(Map {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode: inode.parse().ok()?,
    })
}

/// The maps of this process; none where there is no `/proc`.
pub fn own() -> Vec<Map> {
    // A path may be any bytes, and a large server has many maps.
    let bytes = std::fs::read("/proc/self/maps").unwrap_or_default();
    parse(&String::from_utf8_lossy(&bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_files_and_memory() {
        let text = "7f00-7f10 r--s 00001000 fe:01 123                /a b\n7f10-7f20 rw-p 0 00:00 0\n\
                    nonsense\n7f20 r--s 0 fe:01 9 /x\nzz-1 r--s 0 fe:01 9\n\
                    7fffffffffffffffff-1 r--s 0 fe:01 9\n";
        let file = Map { start: 0x7f00, end: 0x7f10, offset: 0x1000, inode: 123 };
        let memory = Map { start: 0x7f10, end: 0x7f20, offset: 0, inode: 0 };
        assert_eq!(parse(text).collect::<Vec<_>>(), [file, memory]);
        assert!(own().iter().any(|map| map.inode != 0));
    }
}
