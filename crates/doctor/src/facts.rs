//! All inputs of the checks, as plain data.

use std::collections::BTreeMap;

use nagi_proc::fields;
use nagi_proc::mounts::{self, Mount};

use crate::exposure::Exposure;
use crate::finding::NotKnown;
use crate::history::Sample;
use crate::measure::Measured;

/// The data read from the machine. Empty facts are allowed: every check then returns "not known".
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Contents of files of `/proc` and `/sys` by path. Files that could not be read are absent. If a server
    /// runs on the data directory, `limits` and `status` under `/proc/self` are the server's.
    pub files: BTreeMap<String, String>,
    /// The data directory; none for a server that keeps its data in memory.
    pub data: Option<DataFolder>,
    /// Record of free space, oldest first.
    pub history: Vec<Sample>,
    /// Results of the disk test, if it was run.
    pub measured: Option<Measured>,
    /// Maximum number of concurrent connections of the server (`net.maxIncomingConnections`).
    pub connection_count_max: u64,
    /// Memory budget of the server; 0 if it is unknown.
    pub budget_bytes: u64,
    /// The server reads data files through the page cache: `storage.directIO: false`, or a mapped file.
    pub reads_through_cache: bool,
    /// What the files of the data directory are, beside what the last orderly shutdown recorded; none if there is no
    /// data directory.
    pub data_files: Option<DataFiles>,
    /// Access to the server; none without a configuration file.
    pub exposure: Option<Exposure>,
    /// Process id of the server that runs on the data directory.
    pub server_pid: Option<u32>,
}

/// The files of a data directory, beside what the last orderly shutdown recorded of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataFiles {
    /// They are the same.
    Unchanged,
    /// Each text names a file that is missing, or is not what it was.
    Damaged(Vec<String>),
    /// They cannot be compared; the reason.
    NotCompared(String),
    /// They cannot be read; the error. A server is refused, too.
    Unreadable(String),
}

/// The data directory and the file system that contains it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataFolder {
    /// The path as the user gave it.
    pub path: String,
    /// The folder, or its nearest existing ancestor, with symbolic links resolved.
    pub real_path: String,
    /// True if the folder itself exists.
    pub is_there: bool,
    /// The folder above it that this process may not enter, if that is why it is not known to exist.
    pub closed: Option<String>,
    /// True if this process may write into it.
    pub is_writable: bool,
    /// True if it belongs to the user of this process.
    pub is_own: bool,
    /// True if it belongs to root.
    pub is_roots: bool,
    /// Problems with the owners and permissions of its content.
    pub access: Access,
    /// Size of the file system.
    pub total_bytes: u64,
    /// Bytes that unprivileged processes may still write.
    pub available_bytes: u64,
    /// Maximum number of files (inodes) of the file system; 0 if it has no such limit.
    pub file_count_max: u64,
    /// Number of files that it can still create.
    pub file_count_free: u64,
}

/// Access of other users to the files of the data directory, for the files that were checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Number of files and folders that group or others may read, write or enter.
    pub open_count: u64,
    /// The path of one of them.
    pub open_example: String,
    /// Number of files and folders that belong to another user than the folder itself.
    pub foreign_count: u64,
    /// The path of one of them.
    pub foreign_example: String,
    /// True if others may write into the folder itself, and so replace files.
    pub is_shared: bool,
}

impl Facts {
    /// The contents of a file, without surrounding white space.
    pub(crate) fn text(&self, path: &str) -> Result<&str, NotKnown> {
        let text = self.files.get(path).map(|text| text.trim());
        text.ok_or_else(|| NotKnown(format!("{path} cannot be read")))
    }

    /// A file that holds one number.
    pub(crate) fn number(&self, path: &str) -> Result<u64, NotKnown> {
        let text = self.text(path)?;
        text.parse().map_err(|_| NotKnown(format!("{path} holds no number")))
    }

    /// The value of `name: 123 kB` in a file such as `/proc/meminfo`, in bytes.
    pub(crate) fn kib_field(&self, path: &str, name: &str) -> Result<u64, NotKnown> {
        let bytes = fields::bytes(self.text(path)?, name);
        bytes.ok_or_else(|| NotKnown(format!("{path} has no {name}")))
    }

    /// The word in brackets: `always [madvise] never`.
    pub(crate) fn chosen(&self, path: &str) -> Result<&str, NotKnown> {
        let text = self.text(path)?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        match chosen {
            Some((chosen, _)) => Ok(chosen),
            // A device with only one scheduler names it without brackets.
            None if !text.is_empty() && !text.contains(' ') => Ok(text),
            None => Err(NotKnown(format!("{path} marks no choice"))),
        }
    }

    /// Access to the configured server.
    pub(crate) fn exposure(&self) -> Result<&Exposure, NotKnown> {
        self.exposure.as_ref().ok_or_else(|| NotKnown("no configuration file is given".into()))
    }

    /// The data directory.
    pub(crate) fn data(&self) -> Result<&DataFolder, NotKnown> {
        self.data.as_ref().ok_or_else(|| NotKnown("there is no data directory".into()))
    }

    /// The mount that contains the data directory.
    pub(crate) fn data_mount(&self) -> Result<Mount, NotKnown> {
        let path = &self.data()?.real_path;
        let table = self.text(mounts::PATH)?;
        mounts::holding(table, path)
            .ok_or_else(|| NotKnown(format!("{} has no mount for {path}", mounts::PATH)))
    }

    /// Path and contents of a file in `queue/` of the block device below the data directory.
    pub(crate) fn queue(&self, name: &str) -> Result<(String, &str), NotKnown> {
        let mount = self.data_mount()?;
        for folder in mount.queue_folders() {
            let path = format!("{folder}/{name}");
            if let Some(text) = self.files.get(&path) {
                return Ok((path, text.trim()));
            }
        }
        Err(NotKnown(format!("no block device with a {name} is known below {}", mount.source)))
    }

    /// The results of the disk test.
    pub(crate) fn measured(&self) -> Result<&Measured, NotKnown> {
        self.measured.as_ref().ok_or_else(|| NotKnown("the disk was not tested".into()))
    }
}
