//! Stalls: seconds in which operations took unusually long, and what the server or the machine did meanwhile.

use std::collections::VecDeque;

use nagi_bson::DocWriter;
use nagi_server::EngineEvent;

use crate::figures::position;
use crate::sample::{EVERY_MS, Sample};

/// An operation that takes this long is part of a stall, if it is not a usual time for this server.
const LONG_US: u64 = 98_304;
/// A sampler that wakes this late was itself stopped, with the whole process.
const LATE_MS: i64 = 600;
/// Work of the engine explains a stall if it went on for so long of its time.
const WORK_MS: i64 = 50;
/// Limit of the finished work that is kept.
const WORK_MAX: usize = 256;

/// Seconds that follow each other in which operations took long.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Stall {
    pub(crate) from_ms: i64,
    pub(crate) to_ms: i64,
    /// When it ended, by the steady clock.
    pub(crate) to_steady_ms: i64,
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
    /// Number of the engine's jobs of a kind: those that a gauge shows now, or those that have ended meanwhile. A job
    /// that is shorter than the time between samples is on no gauge.
    Jobs {
        running: usize,
        kind: &'static str,
    },
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
        measure: Measure::Jobs { running: position("flushes.running"), kind: "flush" },
        from: 1.0,
        per: 1.0,
        text: "{} memtables were being written to files",
    },
    Cause {
        name: "compaction",
        measure: Measure::Jobs { running: position("compactions.running"), kind: "compaction" },
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
    /// `ended` tells how many jobs of a kind have ended during the stall.
    fn measured(&self, before: &Sample, now: &Sample, ended: &dyn Fn(&str) -> usize) -> f64 {
        let growth = |at: usize| now.values[at] - before.values[at];
        match self.measure {
            Measure::Growth(at) => growth(at),
            Measure::Value(at) => now.values[at].max(before.values[at]),
            Measure::Late => (now.steady_ms - before.steady_ms - EVERY_MS) as f64,
            Measure::Jobs { running, kind } => {
                now.values[running].max(before.values[running]).max(ended(kind) as f64)
            }
        }
    }
}

/// Finds stalls in samples that follow each other.
#[derive(Default)]
pub(crate) struct Watch {
    open: Option<Stall>,
    /// The newest finished jobs of the engine.
    jobs: VecDeque<Job>,
}

/// A job of the engine that has ended.
struct Job {
    kind: &'static str,
    from_ms: i64,
    to_ms: i64,
}

impl Job {
    fn of(event: &EngineEvent) -> Job {
        let lasted_ms = i64::try_from(event.micros / 1000).unwrap_or(i64::MAX);
        Job { kind: event.kind, from_ms: event.at_ms.saturating_sub(lasted_ms), to_ms: event.at_ms }
    }

    /// Milliseconds of it between two times.
    fn within(&self, from_ms: i64, to_ms: i64) -> i64 {
        self.to_ms.min(to_ms).saturating_sub(self.from_ms.max(from_ms))
    }
}

impl Watch {
    /// Looks at the time between two samples; `events` are the engine's since the previous call. Returns the stall that
    /// began or grew.
    pub(crate) fn observe(
        &mut self,
        before: &Sample,
        now: &Sample,
        events: &[EngineEvent],
    ) -> Option<Stall> {
        self.jobs.extend(events.iter().map(Job::of));
        let excess = self.jobs.len().saturating_sub(WORK_MAX);
        self.jobs.drain(..excess);
        let (longest_us, slow) = now.ended.longer_than(LONG_US);
        // The clock of dates may have been set.
        let late_ms = now.steady_ms - before.steady_ms - EVERY_MS;
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
        stall.to_steady_ms = now.steady_ms;
        stall.longest_us = stall.longest_us.max(longest_us);
        stall.operations += slow;
        let (from_ms, to_ms) = (stall.from_ms, stall.to_ms);
        let during = |job: &&Job| job.within(from_ms, to_ms) >= WORK_MS;
        let ended =
            |kind: &str| self.jobs.iter().filter(during).filter(|job| job.kind == kind).count();
        for (at, cause) in CAUSES.iter().enumerate() {
            let measured = cause.measured(before, now, &ended);
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
        Sample { at_ms, steady_ms: at_ms, values, ended: Ended([vec![], writes, vec![]]) }
    }

    #[test]
    fn a_stall_begins_grows_and_ends() {
        let mut watch = Watch::default();
        let quiet = sample(1000, 0, &[]);
        let slow = sample(2000, 3, &[("governor.paused", 80_000.0), ("flushes.running", 1.0)]);
        let slower = sample(3000, 2, &[("governor.paused", 500_000.0)]);
        assert_eq!(watch.observe(&quiet, &sample(2000, 0, &[]), &[]), None);
        let first = watch.observe(&quiet, &slow, &[]).unwrap();
        assert_eq!((first.from_ms, first.to_ms, first.operations), (1000, 2000, 3));
        let grown = watch.observe(&slow, &slower, &[]).unwrap();
        assert_eq!((grown.from_ms, grown.to_ms, grown.operations), (1000, 3000, 5));
        let text = nagi_bson::DocBuf::build(|out| grown.write(out));
        let text = nagi_bson::json::to_relaxed(text.as_doc());
        assert!(text.contains("slowed down for 420 ms") && text.contains("flush"), "{text}");
        assert_eq!(watch.observe(&slower, &sample(4000, 0, &[]), &[]), None);
        assert_eq!(watch.observe(&slower, &slow, &[]).unwrap().from_ms, 1000);
    }

    #[test]
    fn a_stopped_process_is_a_stall_and_usual_times_are_none() {
        let mut watch = Watch::default();
        let stall = watch.observe(&sample(0, 0, &[]), &sample(5000, 0, &[]), &[]).unwrap();
        assert_eq!(CAUSES[stall.causes[0].0].name, "pause");
        assert_eq!(stall.longest_us, 4_000_000);
        let mut usual = sample(1000, 900, &[]);
        usual.ended.0[1][0].1 = 100;
        assert_eq!(Watch::default().observe(&sample(0, 0, &[]), &usual, &[]), None);
    }

    #[test]
    fn a_clock_that_is_set_is_no_stall() {
        let mut watch = Watch::default();
        let set = |by: i64| Sample { at_ms: 2000 + by, ..sample(2000, 0, &[]) };
        for by in [3_600_000, -3_600_000] {
            assert_eq!(watch.observe(&sample(1000, 0, &[]), &set(by), &[]), None);
        }
        // A process that did not run is seen although the clock was set back meanwhile.
        let back = Sample { at_ms: 1000, ..sample(9000, 0, &[]) };
        let stall = watch.observe(&sample(1000, 0, &[]), &back, &[]).unwrap();
        assert_eq!((stall.longest_us, stall.to_steady_ms), (7_000_000, 9000));
    }

    /// Commands such as `validate` and `createIndexes` take long by nature.
    #[test]
    fn long_commands_are_no_stall() {
        let mut long = sample(2000, 0, &[("host.stalled.cpu", 900_000.0)]);
        long.ended.0[2] = vec![(4_194_304, 2)];
        assert_eq!(Watch::default().observe(&sample(1000, 0, &[]), &long, &[]), None);
    }

    #[test]
    fn what_is_not_known_is_no_cause() {
        let unknown = sample(1000, 3, &[("host.stalled.io", f64::NAN)]);
        let stall = Watch::default().observe(&sample(0, 0, &[]), &unknown, &[]).unwrap();
        assert!(stall.causes.is_empty());
    }

    fn event(kind: &'static str, at_ms: i64, lasted_ms: u64) -> EngineEvent {
        EngineEvent {
            number: 1,
            at_ms,
            kind,
            space: "records",
            reason: "",
            micros: lasted_ms * 1000,
            from_level: 0,
            to_level: 0,
            files_read: 0,
            files_written: 0,
            bytes_read: 0,
            bytes_written: 0,
            entries_read: 0,
            entries_written: 0,
            failed: false,
        }
    }

    /// The causes of a stall of the second from 10,000 ms on, in which one operation took a quarter of a second.
    fn causes(earlier: &[EngineEvent], meanwhile: &[EngineEvent]) -> Vec<&'static str> {
        let mut watch = Watch::default();
        assert_eq!(watch.observe(&sample(9000, 0, &[]), &sample(10_000, 0, &[]), earlier), None);
        let stall = watch.observe(&sample(10_000, 0, &[]), &sample(11_000, 1, &[]), meanwhile);
        stall.unwrap().causes.iter().map(|(at, _)| CAUSES[*at].name).collect()
    }

    /// Such a job runs neither when the second begins nor when it ends.
    #[test]
    fn a_job_between_two_samples_is_a_cause() {
        assert_eq!(causes(&[], &[event("flush", 10_700, 300)]), ["flush"]);
        assert_eq!(causes(&[], &[event("compaction", 10_700, 300)]), ["compaction"]);
        let both = [event("compaction", 10_900, 200), event("flush", 10_200, 150)];
        assert_eq!(causes(&[], &both), ["flush", "compaction"]);
        // Too short to have stopped anything, of another time, or of another kind.
        assert_eq!(causes(&[], &[event("flush", 10_700, 20)]), [""; 0]);
        assert_eq!(causes(&[event("flush", 9_900, 300)], &[]), [""; 0]);
        assert_eq!(causes(&[], &[event("flush", 10_030, 900)]), [""; 0]);
        assert_eq!(causes(&[], &[event("load", 10_700, 300)]), [""; 0]);
    }

    #[test]
    fn the_number_of_jobs_is_bounded() {
        let mut watch = Watch::default();
        let many = vec![event("flush", 500, 100); 2000];
        let stall = watch.observe(&sample(0, 0, &[]), &sample(1000, 1, &[]), &many).unwrap();
        assert_eq!(watch.jobs.len(), WORK_MAX);
        assert_eq!(stall.causes[0].1, WORK_MAX as f64);
    }
}
