//! What an engine does with its files: work in the background, and where reads and writes land.

/// A flush, a compaction or the like that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineEvent {
    /// Ascending from 1.
    pub number: u64,
    /// When it ended, in milliseconds since 1970.
    pub at_ms: i64,
    /// `flush`, `compaction` or `load`.
    pub kind: &'static str,
    /// The name of its space.
    pub space: &'static str,
    /// Why it was done.
    pub reason: &'static str,
    pub micros: u64,
    /// The levels that a compaction read first and wrote to; 0 for other kinds.
    pub from_level: u32,
    pub to_level: u32,
    pub files_read: u64,
    pub files_written: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub entries_read: u64,
    pub entries_written: u64,
    pub failed: bool,
}

/// The files of one space and level, as a part of the row of all files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSegment {
    /// The name of the space; empty for files that are being written.
    pub space: &'static str,
    pub level: u32,
    /// The columns from this one to before that one.
    pub from: u32,
    pub to: u32,
    pub files: u32,
    pub bytes: u64,
}

/// Where reads and writes of table files have landed since the previous call: the files of all spaces and levels stand
/// in a row, which is divided into columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskActivity {
    pub columns: u32,
    /// Another number means that the segments have changed.
    pub layout: u64,
    pub segments: Vec<DiskSegment>,
    /// Column and bytes.
    pub reads: Vec<(u32, u64)>,
    pub writes: Vec<(u32, u64)>,
}
