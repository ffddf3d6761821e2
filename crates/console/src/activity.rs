//! What the engine has done lately: its work in the background, and where reads and writes of files landed.

use std::collections::VecDeque;
use std::sync::Arc;

use nagi_bson::json::JsonWriter;
use nagi_bson::{Doc, DocWriter};
use nagi_server::{DiskActivity, DiskSegment, EngineEvent};
use parking_lot::Mutex;

use crate::figures::at_path;

/// Events that are kept.
const EVENTS_MAX: usize = 300;
/// Two minutes of the disk map.
const DISK_SAMPLES_MAX: usize = 120;
/// Events of memory of one kind that follow each other within this time are one.
const MERGED_MS: i64 = 60_000;

/// Counters of `serverStatus` whose growth is an event.
const MEMORY: [(&str, &str); 3] = [
    ("nagi.memory.squeezes", "caches made smaller"),
    ("nagi.memory.purges", "free memory returned to the system"),
    ("nagi.memory.timesOverBound", "resident memory beyond its bound"),
];

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Happened {
    Engine(EngineEvent),
    Memory { at_ms: i64, what: &'static str, count: u64 },
}

/// One second of the disk map.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DiskSample {
    pub(crate) at_ms: i64,
    layout: u64,
    reads: Vec<(u32, u64)>,
    writes: Vec<(u32, u64)>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<Happened>,
    newest: u64,
    memory: Option<[f64; MEMORY.len()]>,
    disk: VecDeque<Arc<DiskSample>>,
    columns: u32,
    layout: u64,
    segments: Vec<DiskSegment>,
}

/// The newest events and samples: some hundred KB.
#[derive(Default)]
pub(crate) struct Activity(Mutex<Kept>);

impl Activity {
    /// The number of the engine's newest event that is known.
    pub(crate) fn newest(&self) -> u64 {
        self.0.lock().newest
    }

    /// Adds events of the engine, and those of memory that `status` shows. Returns what is new.
    pub(crate) fn add(
        &self,
        engine: Vec<EngineEvent>,
        status: Doc<'_>,
        at_ms: i64,
    ) -> Vec<Happened> {
        let mut kept = self.0.lock();
        if let Some(last) = engine.last() {
            kept.newest = last.number;
        }
        let mut fresh: Vec<Happened> = engine.into_iter().map(Happened::Engine).collect();
        let now = MEMORY.map(|(path, _)| at_path(status, path).unwrap_or(0.0));
        if let Some(before) = kept.memory.replace(now) {
            for ((what, before), now) in MEMORY.map(|row| row.1).into_iter().zip(before).zip(now) {
                if now > before {
                    fresh.push(Happened::Memory { at_ms, what, count: (now - before) as u64 });
                }
            }
        }
        fresh.iter().for_each(|one| kept.push(one.clone()));
        fresh
    }

    /// Adds a second of the disk map.
    pub(crate) fn add_disk(&self, activity: DiskActivity, at_ms: i64) -> Arc<DiskSample> {
        let DiskActivity { columns, layout, segments, reads, writes } = activity;
        let sample = Arc::new(DiskSample { at_ms, layout, reads, writes });
        let mut kept = self.0.lock();
        (kept.columns, kept.layout, kept.segments) = (columns, layout, segments);
        if kept.disk.len() == DISK_SAMPLES_MAX {
            kept.disk.pop_front();
        }
        kept.disk.push_back(sample.clone());
        sample
    }

    /// The events, oldest first.
    pub(crate) fn events(&self) -> Vec<Happened> {
        self.0.lock().events.iter().cloned().collect()
    }

    /// Writes the disk map: no columns if the engine does not tell, or before a page was open.
    pub(crate) fn write_disk(&self, out: &mut JsonWriter<'_>) {
        let kept = self.0.lock();
        out.object(|out| {
            out.key("columns").literal(kept.columns);
            out.key("layout").literal(kept.layout);
            out.key("segments").array(|out| {
                for segment in &kept.segments {
                    out.object(|out| {
                        out.key("space").string(segment.space);
                        out.key("level").literal(segment.level);
                        out.key("from").literal(segment.from);
                        out.key("to").literal(segment.to);
                        out.key("files").literal(segment.files);
                        out.key("bytes").literal(segment.bytes);
                    });
                }
            });
            out.key("samples").array(|out| kept.disk.iter().for_each(|sample| sample.write(out)));
        });
    }
}

impl Kept {
    fn push(&mut self, one: Happened) {
        if let Happened::Memory { at_ms, what, count } = &one
            && let Some(Happened::Memory { at_ms: last_ms, what: last, count: sum }) =
                self.events.back_mut()
            && last == what
            && *at_ms - *last_ms < MERGED_MS
        {
            (*last_ms, *sum) = (*at_ms, *sum + count);
            return;
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(one);
    }
}

impl DiskSample {
    /// `{t, n, r, w}`: time, number of the layout, reads and writes by column.
    pub(crate) fn write(&self, out: &mut JsonWriter<'_>) {
        out.object(|out| {
            out.key("t").literal(self.at_ms);
            out.key("n").literal(self.layout);
            for (name, list) in [("r", &self.reads), ("w", &self.writes)] {
                out.key(name).array(|out| {
                    for (column, bytes) in list {
                        out.array(|out| {
                            out.literal(column);
                            out.literal(bytes);
                        });
                    }
                });
            }
        });
    }
}

impl Happened {
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        let int = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        match self {
            Happened::Memory { at_ms, what, count } => {
                out.put("atMs", *at_ms);
                out.put("kind", "memory");
                out.put("reason", *what);
                out.put("count", int(*count));
            }
            Happened::Engine(event) => {
                out.put("atMs", event.at_ms);
                out.put("kind", event.kind);
                out.put("reason", event.reason);
                out.put("space", event.space);
                out.put("micros", int(event.micros));
                out.put("failed", event.failed);
                for (name, number) in [
                    ("fromLevel", u64::from(event.from_level)),
                    ("toLevel", u64::from(event.to_level)),
                    ("filesRead", event.files_read),
                    ("filesWritten", event.files_written),
                    ("bytesRead", event.bytes_read),
                    ("bytesWritten", event.bytes_written),
                    ("entriesRead", event.entries_read),
                    ("entriesWritten", event.entries_written),
                ] {
                    out.put(name, int(number));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, doc};

    use super::*;

    fn status(squeezes: i64) -> DocBuf {
        doc! { "nagi": { "memory": { "squeezes": (squeezes) } } }
    }

    fn flush(number: u64) -> EngineEvent {
        EngineEvent {
            number,
            at_ms: 1,
            kind: "flush",
            space: "records",
            reason: "requested",
            micros: 5,
            from_level: 0,
            to_level: 0,
            files_read: 0,
            files_written: 1,
            bytes_read: 0,
            bytes_written: 10,
            entries_read: 2,
            entries_written: 2,
            failed: false,
        }
    }

    #[test]
    fn events_of_memory_are_growths_of_counters() {
        let activity = Activity::default();
        let at = |ms, squeezes| activity.add(Vec::new(), status(squeezes).as_doc(), ms).len();
        // What was counted before the console started has no time.
        assert_eq!((at(0, 5), at(1000, 5), at(2000, 7), at(3000, 8)), (0, 0, 1, 1));
        let what = "caches made smaller";
        assert_eq!(activity.events(), [Happened::Memory { at_ms: 3000, what, count: 3 }]);
        at(90_000, 9);
        assert_eq!(activity.events().len(), 2);
    }

    #[test]
    fn it_is_bounded() {
        let activity = Activity::default();
        for number in 1..=1000 {
            activity.add(vec![flush(number)], status(0).as_doc(), 1);
            activity.add_disk(DiskActivity { layout: number, ..DiskActivity::default() }, 1);
        }
        assert_eq!((activity.events().len(), activity.newest()), (EVENTS_MAX, 1000));
        let text = JsonWriter::file(|out| activity.write_disk(out));
        assert_eq!(text.matches("\"t\"").count(), DISK_SAMPLES_MAX);
        let text = nagi_bson::json::to_relaxed(
            DocBuf::build(|out| activity.events()[0].write(out)).as_doc(),
        );
        assert!(text.starts_with(r#"{"atMs":1,"kind":"flush","reason":"requested""#), "{text}");
    }
}
