//! Stalls: seconds in which operations took unusually long, and what the server or the machine did meanwhile.

use nagi_bson::DocWriter;

use crate::figures::position;
use crate::sample::{EVERY_MS, Sample};

/// An operation that takes this long is part of a stall, if it is not a usual time for this server.
const LONG_US: u64 = 98_304;
/// A sampler that wakes this late was itself stopped, with the whole process.
const LATE_MS: i64 = 600;

/// Seconds that follow each other in which operations took long.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Stall {
    pub(crate) from_ms: i64,
    pub(crate) to_ms: i64,
    /// Lower bound of the longest time of an operation, or the time for which the process did not run.
    pub(crate) longest_us: u64,
    pub(crate) operations: u64,
    /// Rows of [`CAUSES`], and what was measured, the largest value of all seconds.
    pub(crate) causes: Vec<(usize, f64)>,
}

/// What is measured in a second: the growth of a counter, or the value of a gauge.
enum Measure {
    Growth(usize),
    Value(usize),
    /// Milliseconds by which the sampler woke too late.
    Late,
}

/// A possible cause of a stall.
pub(crate) struct Cause {
    name: &'static str,
    measure: Measure,
    /// It is a cause from this value on.
    from: f64,
    /// The measured value is divided by this for the text.
    per: f64,
    text: &'static str,
}

/// What can stop operations. `{}` in a text is the measured value.
static CAUSES: &[Cause] = &[
    Cause {
        name: "pause",
        measure: Measure::Late,
        from: LATE_MS as f64,
        per: 1.0,
        text: "the whole process did not run for {} ms: the machine was suspended, or its processors were taken",
    },
    Cause {
        name: "throttle",
        measure: Measure::Growth(position("host.throttled")),
        from: 50_000.0,
        per: 1000.0,
        text: "the control group's limit of processors stopped the process for {} ms",
    },
    Cause {
        name: "processors",
        measure: Measure::Growth(position("host.stalled.cpu")),
        from: 500_000.0,
        per: 1000.0,
        text: "tasks of this machine waited {} ms of the second for a processor",
    },
    Cause {
        name: "disk",
        measure: Measure::Growth(position("host.stalled.io")),
        from: 300_000.0,
        per: 1000.0,
        text: "tasks of this machine waited {} ms of the second for the disk",
    },
    Cause {
        name: "memory",
        measure: Measure::Growth(position("host.stalled.memory")),
        from: 100_000.0,
        per: 1000.0,
        text: "tasks of this machine waited {} ms of the second for memory",
    },
    Cause {
        name: "governor",
        measure: Measure::Growth(position("governor.paused")),
        from: 20_000.0,
        per: 1000.0,
        text: "commits were slowed down for {} ms in all because compactions are behind",
    },
    Cause {
        name: "log",
        measure: Measure::Growth(position("ring.waited")),
        from: 20_000.0,
        per: 1000.0,
        text: "commits waited {} ms in all for the write-ahead log: its disk is slow",
    },
    Cause {
        name: "flush",
        measure: Measure::Value(position("flushes.running")),
        from: 1.0,
        per: 1.0,
        text: "{} memtables were being written to files",
    },
    Cause {
        name: "compaction",
        measure: Measure::Value(position("compactions.running")),
        from: 1.0,
        per: 1.0,
        text: "{} compactions ran",
    },
    Cause {
        name: "budget",
        measure: Measure::Growth(position("memory.waits")),
        from: 1.0,
        per: 1.0,
        text: "{} requests waited for memory of the budget",
    },
    Cause {
        name: "queue",
        measure: Measure::Value(position("queue.writers")),
        from: 1.0,
        per: 1.0,
        text: "{} writes waited for a ticket",
    },
    Cause {
        name: "queue",
        measure: Measure::Value(position("queue.readers")),
        from: 1.0,
        per: 1.0,
        text: "{} reads waited for a ticket",
    },
    Cause {
        name: "scan",
        measure: Measure::Growth(position("collection.scans")),
        from: 1.0,
        per: 1.0,
        text: "{} queries read a whole collection: see the slow operations",
    },
    Cause {
        name: "conflicts",
        measure: Measure::Growth(position("write.conflicts")),
        from: 100.0,
        per: 1.0,
        text: "{} writes were repeated after conflicts with others",
    },
    Cause {
        name: "full",
        measure: Measure::Value(position("write.stopped")),
        from: 1.0,
        per: 1.0,
        text: "the disk is full: writes are refused",
    },
];

impl Cause {
    fn measured(&self, before: &Sample, now: &Sample) -> f64 {
        let growth = |at: usize| now.values[at] - before.values[at];
        match self.measure {
            Measure::Growth(at) => growth(at),
            Measure::Value(at) => now.values[at].max(before.values[at]),
            Measure::Late => (now.at_ms - before.at_ms - EVERY_MS) as f64,
        }
    }
}

/// Finds stalls in samples that follow each other.
#[derive(Default)]
pub(crate) struct Watch {
    open: Option<Stall>,
}

impl Watch {
    /// Looks at the time between two samples. Returns the stall that began or grew.
    pub(crate) fn observe(&mut self, before: &Sample, now: &Sample) -> Option<Stall> {
        let (longest_us, slow) = now.ended.longer_than(LONG_US);
        let late_ms = now.at_ms - before.at_ms - EVERY_MS;
        let late = late_ms >= LATE_MS;
        // While the process did not run, no operation could end: one that came then would have taken that long.
        let longest_us = if late { longest_us.max(late_ms as u64 * 1000) } else { longest_us };
        // Where most operations take long, that is their usual time.
        let usual = slow * 2 > now.ended.operations() && now.ended.operations() > 20;
        if !late && (slow == 0 || usual) {
            self.open = None;
            return None;
        }
        let stall = self.open.get_or_insert_with(|| Stall {
            from_ms: now.at_ms - EVERY_MS.max((longest_us / 1000) as i64),
            ..Stall::default()
        });
        stall.to_ms = now.at_ms;
        stall.longest_us = stall.longest_us.max(longest_us);
        stall.operations += slow;
        for (at, cause) in CAUSES.iter().enumerate() {
            let measured = cause.measured(before, now);
            // Also false if it is not known.
            if measured >= cause.from {
                match stall.causes.iter_mut().find(|(known, _)| *known == at) {
                    Some((_, most)) => *most = most.max(measured),
                    None => stall.causes.push((at, measured)),
                }
            }
        }
        stall.causes.sort_by_key(|(at, _)| *at);
        Some(stall.clone())
    }
}

impl Stall {
    /// Writes it as the JSON interface shows it.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        out.put("fromMs", self.from_ms);
        out.put("toMs", self.to_ms);
        out.put("longestUs", self.longest_us as i64);
        out.put("operations", self.operations as i64);
        out.array("causes", |list| {
            for (at, measured) in &self.causes {
                let cause = &CAUSES[*at];
                list.doc(|one| {
                    one.put("cause", cause.name);
                    let value = format!("{:.0}", measured / cause.per);
                    one.put("text", cause.text.replace("{}", &value).as_str());
                });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::FIGURES;
    use crate::latencies::Ended;

    fn sample(at_ms: i64, slow: u64, set: &[(&str, f64)]) -> Sample {
        let mut values = vec![0.0; FIGURES.len()].into_boxed_slice();
        for (name, value) in set {
            values[position(name)] = *value;
        }
        let writes = vec![(64, 1000), (262_144, slow)];
        Sample { at_ms, values, ended: Ended([vec![], writes, vec![]]) }
    }

    #[test]
    fn a_stall_begins_grows_and_ends() {
        let mut watch = Watch::default();
        let quiet = sample(1000, 0, &[]);
        let slow = sample(2000, 3, &[("governor.paused", 80_000.0), ("flushes.running", 1.0)]);
        let slower = sample(3000, 2, &[("governor.paused", 500_000.0)]);
        assert_eq!(watch.observe(&quiet, &sample(2000, 0, &[])), None);
        let first = watch.observe(&quiet, &slow).unwrap();
        assert_eq!((first.from_ms, first.to_ms, first.operations), (1000, 2000, 3));
        let grown = watch.observe(&slow, &slower).unwrap();
        assert_eq!((grown.from_ms, grown.to_ms, grown.operations), (1000, 3000, 5));
        let text = nagi_bson::DocBuf::build(|out| grown.write(out));
        let text = nagi_bson::json::to_relaxed(text.as_doc());
        assert!(text.contains("slowed down for 420 ms") && text.contains("flush"), "{text}");
        assert_eq!(watch.observe(&slower, &sample(4000, 0, &[])), None);
        assert_eq!(watch.observe(&slower, &slow).unwrap().from_ms, 1000);
    }

    #[test]
    fn a_stopped_process_is_a_stall_and_usual_times_are_none() {
        let mut watch = Watch::default();
        let stall = watch.observe(&sample(0, 0, &[]), &sample(5000, 0, &[])).unwrap();
        assert_eq!(CAUSES[stall.causes[0].0].name, "pause");
        assert_eq!(stall.longest_us, 4_000_000);
        let mut usual = sample(1000, 900, &[]);
        usual.ended.0[1][0].1 = 100;
        assert_eq!(Watch::default().observe(&sample(0, 0, &[]), &usual), None);
    }

    #[test]
    fn what_is_not_known_is_no_cause() {
        let unknown = sample(1000, 3, &[("host.stalled.io", f64::NAN)]);
        let stall = Watch::default().observe(&sample(0, 0, &[]), &unknown).unwrap();
        assert!(stall.causes.is_empty());
    }
}
