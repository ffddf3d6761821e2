//! `/proc/self/statm`: resident memory, from a file that stays open.

use std::fs::File;
use std::io::{Read as _, Seek as _};

use crate::PAGE_BYTES;

/// Reads the memory of this process again and again: some microseconds each time.
#[derive(Debug)]
pub struct Statm {
    file: File,
}

/// What is in memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    pub all: u64,
    /// Of it: pages of files and memory that is shared with others.
    pub shared: u64,
}

impl Statm {
    /// None where there is no `/proc`.
    pub fn open() -> Option<Statm> {
        File::open("/proc/self/statm").ok().map(|file| Statm { file })
    }

    /// What is in memory now.
    pub fn read(&mut self) -> Option<Resident> {
        let mut text = [0; 128];
        self.file.rewind().ok()?;
        let len = self.file.read(&mut text).ok()?;
        parse(std::str::from_utf8(&text[..len]).ok()?)
    }
}

/// Pages: size, resident, shared, and others.
fn parse(text: &str) -> Option<Resident> {
    let mut fields = text.split(' ').skip(1).map_while(|field| field.parse::<u64>().ok());
    let mut bytes = || fields.next()?.checked_mul(PAGE_BYTES);
    Some(Resident { all: bytes()?, shared: bytes()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_bytes() {
        assert_eq!(parse("9 3 1 0 0 2 0\n"), Some(Resident { all: 12_288, shared: 4096 }));
        for odd in ["", "9", "9 3", "9 x 1", "9 18446744073709551615 1"] {
            assert_eq!(parse(odd), None, "{odd}");
        }
        let mut statm = Statm::open().unwrap();
        assert!(statm.read().is_some_and(|resident| resident.all > resident.shared));
        assert!(statm.read().is_some(), "again");
    }
}
