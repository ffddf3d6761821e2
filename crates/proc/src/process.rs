//! A process, by the files that `/proc` has of it.

use crate::{Stat, Status, fields, stat};

/// Which process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// This one.
    Own,
    /// The one with this id.
    Id(u32),
}

impl Process {
    /// Path of a file such as `status`.
    pub fn path(self, file: &str) -> String {
        match self {
            Process::Own => format!("/proc/self/{file}"),
            Process::Id(id) => format!("/proc/{id}/{file}"),
        }
    }

    /// The text of one of its files; none once the process is gone, or if the file is not for us.
    pub fn text(self, file: &str) -> Option<String> {
        crate::text(self.path(file))
    }

    /// Its state, times and faults.
    pub fn stat(self) -> Option<Stat> {
        stat::parse(&self.text("stat")?)
    }

    /// Its memory, threads and context switches.
    pub fn status(self) -> Option<Status> {
        Some(Status::parse(&self.text("status")?))
    }

    /// Its name, as the kernel cuts it.
    pub fn name(self) -> Option<String> {
        Some(self.text("comm")?.trim().to_owned())
    }

    /// Bytes that it had read from disks so far.
    pub fn read_bytes(self) -> Option<u64> {
        fields::number(&self.text("io")?, "read_bytes")
    }

    /// Bytes that it had written to disks so far.
    pub fn written_bytes(self) -> Option<u64> {
        fields::number(&self.text("io")?, "write_bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known_and_others_may_be_gone() {
        let own = Process::Own;
        assert_eq!(own.name(), Process::Id(std::process::id()).name());
        assert!(own.stat().is_some() && own.name().is_some_and(|name| !name.is_empty()));
        assert!(own.status().is_some_and(|status| status.resident_bytes > Some(100_000)));
        let gone = Process::Id(u32::MAX);
        assert_eq!(
            (gone.stat(), gone.status(), gone.name(), gone.read_bytes()),
            Default::default()
        );
    }
}
