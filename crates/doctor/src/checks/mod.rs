//! The registry of checks: one row per check, one file each, sorted by name.

mod address_space;
mod allocation;
mod cgroup_cpu;
mod cgroup_io;
mod cgroup_memory;
mod cgroup_pids;
mod clear_passwords;
mod data_files;
mod data_folder;
mod days_until_full;
mod direct_io;
mod disk_reads;
mod disk_syncs;
mod encryption;
mod encryption_at_rest;
mod file_size;
mod file_system;
mod free_space;
mod javascript;
mod kernel;
mod logins;
mod max_map_count;
mod memory;
mod memory_budget;
mod mount_options;
mod numa;
mod open_files;
mod overcommit;
mod permissions;
mod processes;
mod read_ahead;
mod scheduler;
mod secrets;
mod superuser;
mod swap;
mod swappiness;
mod test_commands;
mod transparent_huge_pages;

use crate::facts::Facts;
use crate::finding::Verdict;

/// A row of the registry.
pub struct Check {
    /// The name in reports and scripts, and the name of the check's file.
    pub name: &'static str,
    /// A short description of the subject of the check.
    pub title: &'static str,
    /// The files of `/proc` and `/sys` that it reads, besides those of the block device and the control groups.
    pub reads: &'static [&'static str],
    /// True if it needs the disk test; such a check does not run when a server starts.
    pub is_measured: bool,
    /// Evaluates the facts. Costs microseconds.
    pub run: fn(&Facts) -> Verdict,
}

/// Every check.
pub static CHECKS: &[&Check] = &[
    &address_space::ADDRESS_SPACE,
    &allocation::ALLOCATION,
    &cgroup_cpu::CGROUP_CPU,
    &cgroup_io::CGROUP_IO,
    &cgroup_memory::CGROUP_MEMORY,
    &cgroup_pids::CGROUP_PIDS,
    &clear_passwords::CLEAR_PASSWORDS,
    &data_files::DATA_FILES,
    &data_folder::DATA_FOLDER,
    &days_until_full::DAYS_UNTIL_FULL,
    &direct_io::DIRECT_IO,
    &disk_reads::DISK_READS,
    &disk_syncs::DISK_SYNCS,
    &encryption::ENCRYPTION,
    &encryption_at_rest::ENCRYPTION_AT_REST,
    &file_size::FILE_SIZE,
    &file_system::FILE_SYSTEM,
    &free_space::FREE_SPACE,
    &javascript::JAVASCRIPT,
    &kernel::KERNEL,
    &logins::LOGINS,
    &max_map_count::MAX_MAP_COUNT,
    &memory::MEMORY,
    &memory_budget::MEMORY_BUDGET,
    &mount_options::MOUNT_OPTIONS,
    &numa::NUMA,
    &open_files::OPEN_FILES,
    &overcommit::OVERCOMMIT,
    &permissions::PERMISSIONS,
    &processes::PROCESSES,
    &read_ahead::READ_AHEAD,
    &scheduler::SCHEDULER,
    &secrets::SECRETS,
    &superuser::SUPERUSER,
    &swap::SWAP,
    &swappiness::SWAPPINESS,
    &test_commands::TEST_COMMANDS,
    &transparent_huge_pages::TRANSPARENT_HUGE_PAGES,
];

/// The imports that every check's file needs.
mod prelude {
    pub(super) use super::Check;
    pub(super) use crate::facts::Facts;
    pub(super) use crate::finding::Severity::{Critical, Note, Warning};
    pub(super) use crate::finding::{NotKnown, Verdict, found, good};
    pub(super) use crate::units::{bytes, micros, percent};
    pub(super) use crate::{cgroup, limits};
    pub(super) use nagi_bson::doc;
    pub(super) use nagi_proc::mounts;
}
