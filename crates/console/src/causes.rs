//! What may stop operations: rows with a figure and the value from which on it is a cause of a stall.

use nagi_server::Blocked;

use crate::figures::position;
use crate::pauses::PAUSE_MS;
use crate::sample::Sample;

/// What is measured in a second: the growth of a counter, or the value of a gauge.
enum Measure {
    Growth(usize),
    Value(usize),
    /// Milliseconds for which the process did not run.
    Paused,
    /// Number of the engine's jobs of a kind: those that a gauge shows now, or those that have ended meanwhile. A job
    /// that is shorter than the time between samples is on no gauge.
    Jobs {
        running: usize,
        kind: &'static str,
    },
    /// Number of operations that wait for this now, or have waited for it and ended meanwhile.
    Blocked(Blocked),
}

/// What was seen between two samples, and during the stall.
pub(crate) struct Seen<'a> {
    pub(crate) before: &'a Sample,
    pub(crate) now: &'a Sample,
    /// How many jobs of a kind have ended during the stall.
    pub(crate) ended: &'a dyn Fn(&str) -> usize,
    /// How many operations waited, by [`Blocked`].
    pub(crate) blocked: [u64; Blocked::COUNT],
}

/// A possible cause of a stall.
pub(crate) struct Cause {
    pub(crate) name: &'static str,
    measure: Measure,
    /// It is a cause from this value on.
    pub(crate) from: f64,
    /// The measured value is divided by this for the text.
    per: f64,
    text: &'static str,
    /// The text for a single one, of what is counted.
    one: &'static str,
}

/// What can stop operations. `{}` in a text is the measured value.
pub(crate) static CAUSES: &[Cause] = &[
    Cause {
        name: "pause",
        measure: Measure::Paused,
        from: PAUSE_MS as f64,
        per: 1.0,
        text: "the process did not run for {} ms at least: it was stopped, its machine was suspended, or its \
               processors were taken",
        one: "",
    },
    Cause {
        name: "lock",
        measure: Measure::Blocked(Blocked::Lock),
        from: 1.0,
        per: 1.0,
        text: "{} operations waited for the lock of fsync: db.fsyncUnlock() releases it",
        one: "an operation waited for the lock of fsync: db.fsyncUnlock() releases it",
    },
    Cause {
        name: "transaction",
        measure: Measure::Blocked(Blocked::Transaction),
        from: 1.0,
        per: 1.0,
        text: "{} operations waited for documents or unique keys that other clients' transactions had written",
        one: "an operation waited for a document or unique key that another client's transaction had written",
    },
    Cause {
        name: "disk",
        measure: Measure::Blocked(Blocked::Disk),
        from: 1.0,
        per: 1.0,
        text: "{} writes waited for the disk to take their commits",
        one: "a write waited for the disk to take its commit",
    },
    Cause {
        name: "write",
        measure: Measure::Blocked(Blocked::Write),
        from: 1.0,
        per: 1.0,
        text: "{} operations waited for other writes of the same documents or unique keys",
        one: "an operation waited for another write of the same document or unique key",
    },
    Cause {
        name: "throttle",
        measure: Measure::Growth(position("host.throttled")),
        from: 50_000.0,
        per: 1000.0,
        text: "the control group's limit of processors stopped the process for {} ms",
        one: "",
    },
    Cause {
        name: "processors",
        measure: Measure::Growth(position("host.stalled.cpu")),
        from: 500_000.0,
        per: 1000.0,
        text: "tasks of this machine waited {} ms of the second for a processor",
        one: "",
    },
    Cause {
        name: "disk",
        measure: Measure::Growth(position("host.stalled.io")),
        from: 300_000.0,
        per: 1000.0,
        text: "tasks of this machine waited {} ms of the second for the disk",
        one: "",
    },
    Cause {
        name: "memory",
        measure: Measure::Growth(position("host.stalled.memory")),
        from: 100_000.0,
        per: 1000.0,
        text: "tasks of this machine waited {} ms of the second for memory",
        one: "",
    },
    Cause {
        name: "governor",
        measure: Measure::Growth(position("governor.paused")),
        from: 20_000.0,
        per: 1000.0,
        text: "commits were slowed down for {} ms in all because compactions are behind",
        one: "",
    },
    Cause {
        name: "log",
        measure: Measure::Growth(position("ring.waited")),
        from: 20_000.0,
        per: 1000.0,
        text: "commits waited {} ms in all for the write-ahead log: its disk is slow",
        one: "",
    },
    Cause {
        name: "flush",
        measure: Measure::Jobs { running: position("flushes.running"), kind: "flush" },
        from: 1.0,
        per: 1.0,
        text: "{} memtables were being written to files",
        one: "a memtable was being written to a file",
    },
    Cause {
        name: "compaction",
        measure: Measure::Jobs { running: position("compactions.running"), kind: "compaction" },
        from: 1.0,
        per: 1.0,
        text: "{} compactions ran",
        one: "a compaction ran",
    },
    Cause {
        name: "budget",
        measure: Measure::Growth(position("memory.waits")),
        from: 1.0,
        per: 1.0,
        text: "{} requests waited for memory of the budget",
        one: "a request waited for memory of the budget",
    },
    Cause {
        name: "queue",
        measure: Measure::Value(position("queue.writers")),
        from: 1.0,
        per: 1.0,
        text: "{} writes waited for a ticket",
        one: "a write waited for a ticket",
    },
    Cause {
        name: "queue",
        measure: Measure::Value(position("queue.readers")),
        from: 1.0,
        per: 1.0,
        text: "{} reads waited for a ticket",
        one: "a read waited for a ticket",
    },
    Cause {
        name: "scan",
        measure: Measure::Growth(position("collection.scans")),
        from: 1.0,
        per: 1.0,
        text: "{} queries read a whole collection: see the slow operations",
        one: "a query read a whole collection: see the slow operations",
    },
    Cause {
        name: "conflicts",
        measure: Measure::Growth(position("write.conflicts")),
        from: 100.0,
        per: 1.0,
        text: "{} writes were repeated after conflicts with others",
        one: "",
    },
    Cause {
        name: "full",
        measure: Measure::Value(position("write.stopped")),
        from: 1.0,
        per: 1.0,
        text: "the disk is full: writes are refused",
        one: "",
    },
];

impl Cause {
    pub(crate) fn measured(&self, seen: &Seen<'_>) -> f64 {
        let Seen { before, now, ended, blocked } = seen;
        let growth = |at: usize| now.values[at] - before.values[at];
        match self.measure {
            Measure::Growth(at) => growth(at),
            Measure::Value(at) => now.values[at].max(before.values[at]),
            Measure::Paused => now.paused_ms as f64,
            Measure::Jobs { running, kind } => {
                now.values[running].max(before.values[running]).max(ended(kind) as f64)
            }
            Measure::Blocked(what) => blocked[what as usize] as f64,
        }
    }

    /// The cause in words.
    pub(crate) fn shown(&self, measured: f64) -> String {
        let amount = format!("{:.0}", measured / self.per);
        match (amount.as_str(), self.one) {
            ("1", one) if !one.is_empty() => one.to_owned(),
            _ => self.text.replace("{}", &amount),
        }
    }
}

#[test]
fn a_single_one_is_said_so() {
    let lock = CAUSES.iter().find(|cause| cause.name == "lock").unwrap();
    assert!(lock.shown(1.0).starts_with("an operation waited"), "{}", lock.shown(1.0));
    assert!(lock.shown(2.0).starts_with("2 operations waited"), "{}", lock.shown(2.0));
    let late = CAUSES.iter().find(|cause| cause.name == "throttle").unwrap();
    assert!(late.shown(1000.0).ends_with("for 1 ms"), "{}", late.shown(1000.0));
}
