//! The newest flushes, compactions and loads, for those who watch the server.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use nagi_kv::EngineEvent;
use parking_lot::Mutex;

/// Events that are kept: 30 KB.
const KEPT_MAX: usize = 256;

#[derive(Default)]
pub(crate) struct Events(Mutex<VecDeque<EngineEvent>>);

impl Events {
    /// Adds an event, whose number and time are set here.
    pub(crate) fn add(&self, event: EngineEvent) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let mut all = self.0.lock();
        let number = all.back().map_or(0, |last| last.number) + 1;
        if all.len() == KEPT_MAX {
            all.pop_front();
        }
        all.push_back(EngineEvent { number, at_ms, ..event });
    }

    /// The number of the newest event; 0 before the first one.
    pub(crate) fn newest(&self) -> u64 {
        self.0.lock().back().map_or(0, |last| last.number)
    }

    pub(crate) fn after(&self, number: u64) -> Vec<EngineEvent> {
        self.0.lock().iter().filter(|event| event.number > number).cloned().collect()
    }
}

/// In words, RocksDB's `FlushReason`.
pub(crate) fn flush_reason(code: i32) -> &'static str {
    match code {
        0x02 => "the server stops",
        0x03 => "before a load",
        0x04 | 0x0a => "requested",
        0x05 => "limit of all memtables",
        0x06 => "memtable full",
        0x08 => "before files are dropped",
        0x09 => "many deletions",
        0x0b | 0x0c | 0x0e => "after an error",
        0x0d => "log too large",
        0x0f => "many dropped ranges",
        _ => "other",
    }
}

/// In words, RocksDB's `CompactionReason`.
pub(crate) fn compaction_reason(code: i32) -> &'static str {
    match code {
        1 => "files of level 0",
        2 => "level too large",
        9 => "requested",
        10 => "many deletions",
        11 => "old versions",
        12 | 15 => "age of files",
        14 => "load",
        _ => "other",
    }
}

#[cfg(test)]
pub(crate) fn sample(space: &'static str) -> EngineEvent {
    EngineEvent {
        number: 0,
        at_ms: 0,
        kind: "flush",
        space,
        reason: "requested",
        micros: 1,
        from_level: 0,
        to_level: 0,
        files_read: 0,
        files_written: 1,
        bytes_read: 0,
        bytes_written: 1,
        entries_read: 1,
        entries_written: 1,
        failed: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_numbered() {
        let events = Events::default();
        assert_eq!((events.newest(), events.after(0)), (0, Vec::new()));
        (0..1000).for_each(|_| events.add(sample("records")));
        assert_eq!((events.newest(), events.after(0).len()), (1000, KEPT_MAX));
        let last = events.after(998);
        assert_eq!(last.iter().map(|event| event.number).collect::<Vec<_>>(), [999, 1000]);
        assert!(last[0].at_ms > 1_600_000_000_000);
        assert!(events.after(1000).is_empty());
    }
}
