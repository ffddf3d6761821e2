//! The resident memory of the process, according to the operating system.

use std::{
    fs::File,
    io::{Read, Seek},
};

/// The page size of Linux on every machine that Nagi runs on.
const PAGE_BYTES: u64 = 4096;

/// Reads the resident memory repeatedly; a read takes some microseconds.
#[derive(Debug)]
pub struct Resident {
    file: File,
    own_only: bool,
}

impl Resident {
    /// Returns none where there is no `/proc`.
    pub fn open() -> Option<Resident> {
        File::open("/proc/self/statm").ok().map(|file| Resident { file, own_only: false })
    }

    /// Counts only private memory of the process. Pages of mapped files belong to the operating system, which
    /// reclaims them when it needs memory.
    pub fn without_mapped_files(self) -> Resident {
        Resident { own_only: true, ..self }
    }

    /// The current resident memory in bytes.
    pub fn bytes(&mut self) -> Option<u64> {
        let mut text = [0; 128];
        self.file.rewind().ok()?;
        let len = self.file.read(&mut text).ok()?;
        let text = std::str::from_utf8(&text[..len]).ok()?;
        let mut fields = text.split(' ').skip(1).map_while(|field| field.parse::<u64>().ok());
        let (all, shared) = (fields.next()?, fields.next()?);
        let pages = if self.own_only { all.saturating_sub(shared) } else { all };
        pages.checked_mul(PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_allocation_is_seen() {
        let Some(mut resident) = Resident::open() else { return };
        let before = resident.bytes().unwrap();
        let large = vec![1_u8; 64 << 20];
        assert!(resident.bytes().unwrap() >= before + (large.len() as u64) / 2);
    }
}
