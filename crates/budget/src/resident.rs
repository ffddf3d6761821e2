//! The resident memory of the process, according to the operating system.

use nagi_proc::Statm;

/// Reads the resident memory repeatedly; a read takes some microseconds.
#[derive(Debug)]
pub struct Resident {
    statm: Statm,
    own_only: bool,
}

impl Resident {
    /// Returns none where there is no `/proc`.
    pub fn open() -> Option<Resident> {
        Statm::open().map(|statm| Resident { statm, own_only: false })
    }

    /// Counts only private memory of the process. Pages of mapped files belong to the operating system, which
    /// reclaims them when it needs memory.
    pub fn without_mapped_files(self) -> Resident {
        Resident { own_only: true, ..self }
    }

    /// The current resident memory in bytes.
    pub fn bytes(&mut self) -> Option<u64> {
        let resident = self.statm.read()?;
        Some(match self.own_only {
            true => resident.all.saturating_sub(resident.shared),
            false => resident.all,
        })
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
