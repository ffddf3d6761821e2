//! `/proc/PID/status`: memory, threads and context switches of a process.

use crate::fields::{bytes, number, value};

/// Figures of a process. A kernel's own thread has no memory, and a kernel without swap no swapped bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    pub resident_bytes: Option<u64>,
    /// The most that was ever resident.
    pub resident_bytes_max: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub swapped_bytes: Option<u64>,
    pub thread_count: Option<u64>,
    /// Context switches because the process waited.
    pub voluntary_switches: Option<u64>,
    /// Context switches because its time was over.
    pub involuntary_switches: Option<u64>,
    /// The effective user.
    pub user: Option<u32>,
}

impl Status {
    /// The figures of a text; none of them if it is another text.
    pub fn parse(text: &str) -> Status {
        Status {
            resident_bytes: bytes(text, "VmRSS"),
            resident_bytes_max: bytes(text, "VmHWM"),
            virtual_bytes: bytes(text, "VmSize"),
            swapped_bytes: bytes(text, "VmSwap"),
            thread_count: number(text, "Threads"),
            voluntary_switches: number(text, "voluntary_ctxt_switches"),
            involuntary_switches: number(text, "nonvoluntary_ctxt_switches"),
            // Real, effective, saved, and of the file system.
            user: value(text, "Uid")
                .and_then(|ids| ids.split_whitespace().nth(1))
                .and_then(|id| id.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_process() {
        let status = Status::parse(
            "Name:\tVmRSS: 5\nUid:\t1000\t0\t1000\t1000\nVmSize:\t   20 kB\nVmHWM:\t 12 kB\nVmRSS:\t 10 kB\n\
             VmSwap:\t 12 kB\nThreads:\t3\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t8\n",
        );
        let wanted = Status {
            resident_bytes: Some(10_240),
            resident_bytes_max: Some(12_288),
            virtual_bytes: Some(20_480),
            swapped_bytes: Some(12_288),
            thread_count: Some(3),
            voluntary_switches: Some(7),
            involuntary_switches: Some(8),
            user: Some(0),
        };
        assert_eq!(status, wanted);
        assert_eq!(Status::parse("Uid:\t1000\nVmRSS:\t x kB\nThreads:\n"), Status::default());
    }
}
