//! Stalls: seconds in which operations waited unusually long, and what the server or the machine did meanwhile.
//!
//! An operation that takes long because of its own work is no stall, be it `validate`, a script or a read of a million
//! documents: the server tells which ones waited ([`LongOperation::ran`]). Those that ran meanwhile may be what the
//! others waited for, so a stall names them.
//!
//! What waits for another client, for a second or longer, is a stall that goes on: it is shown before anything ends.
//! What is usual tells the minute before: in the second in which all that was frozen ends, nearly all were slow.

use std::collections::VecDeque;

use nagi_bson::DocWriter;
use nagi_server::{Blocked, BlockedNow, EngineEvent, LongOperation};

use crate::causes::{CAUSES, Seen};
use crate::pauses::PAUSE_MS;
use crate::sample::{EVERY_MS, Sample};

/// The time of an operation of which no more is known than that it took long.
const LONG_US: u64 = 98_304;
/// Work of the engine explains a stall if it went on for so long of its time.
const WORK_MS: i64 = 50;
/// An operation that has been waiting for another client for so long is a stall although it has not ended.
pub(crate) const BLOCKED_US: u64 = 1_000_000;
/// The seconds before that tell what is usual.
const USUAL_SECONDS: usize = 60;
/// So many operations tell what is usual.
const USUAL_LEAST: u64 = 20;
/// A wait that is longer than the usual ones by this factor is not usual.
const USUAL_FACTOR: u64 = 4;
/// Limit of the finished work that is kept.
const WORK_MAX: usize = 256;
/// Limit of the operations that a stall names.
const NAMED_MAX: usize = 3;

/// Seconds that follow each other in which operations took long.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Stall {
    pub(crate) from_ms: i64,
    pub(crate) to_ms: i64,
    /// When it ended, by the steady clock.
    pub(crate) to_steady_ms: i64,
    /// The longest time of an operation that waited, or the time for which the process did not run.
    pub(crate) longest_us: u64,
    /// How many operations waited: those that have ended, and those that wait now.
    pub(crate) operations: u64,
    /// Those of them that have ended.
    pub(crate) ended: u64,
    /// Rows of [`CAUSES`], and what was measured, the largest value of all seconds.
    pub(crate) causes: Vec<(usize, f64)>,
    /// The longest operations that ran meanwhile, the longest first.
    pub(crate) ran: Vec<LongOperation>,
}

/// What the server tells of the time between two samples.
pub(crate) struct News<'a> {
    /// The engine's events since the previous call.
    pub(crate) events: &'a [EngineEvent],
    /// The operations after the newest known one.
    pub(crate) long: &'a [LongOperation],
    /// Those that have been waiting for [`BLOCKED_US`] or longer, by [`Blocked`].
    pub(crate) blocked: [BlockedNow; Blocked::COUNT],
}

impl News<'_> {
    /// How many operations waited for what, and have ended or not.
    fn blocked_counts(&self) -> [u64; Blocked::COUNT] {
        let mut counts = self.blocked.map(|now| now.operations);
        for what in self.long.iter().filter_map(|one| one.blocked) {
            counts[what as usize] += 1;
        }
        counts
    }
}

/// Operations of a second.
#[derive(Debug, Default, Clone, Copy)]
struct Second {
    ended: u64,
    /// Those that took long because they waited.
    slow: u64,
    longest_us: u64,
}

impl Second {
    /// True if most operations take long.
    fn is_slow(&self) -> bool {
        self.slow * 2 > self.ended && self.ended > USUAL_LEAST
    }
}

/// Finds stalls in samples that follow each other.
#[derive(Default)]
pub(crate) struct Watch {
    open: Option<Stall>,
    /// The newest finished jobs of the engine.
    jobs: VecDeque<Job>,
    /// The newest operations that took long without waiting.
    ran: VecDeque<LongOperation>,
    /// The newest seconds.
    seconds: VecDeque<Second>,
    /// The number of the newest long operation that is known.
    newest: u64,
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

    fn is_within(&self, stall: &Stall) -> bool {
        within((self.from_ms, self.to_ms), stall) >= WORK_MS
    }
}

/// Milliseconds of a time within a stall.
fn within((from_ms, to_ms): (i64, i64), stall: &Stall) -> i64 {
    to_ms.min(stall.to_ms).saturating_sub(from_ms.max(stall.from_ms))
}

/// When an operation began and ended.
fn span(operation: &LongOperation) -> (i64, i64) {
    let lasted_ms = i64::try_from(operation.micros / 1000).unwrap_or(i64::MAX);
    (operation.at_ms.saturating_sub(lasted_ms), operation.at_ms)
}

impl Watch {
    /// The number of the newest long operation that is known.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Looks at the time between two samples. Returns the stall that began or grew.
    pub(crate) fn observe(
        &mut self,
        before: &Sample,
        now: &Sample,
        news: &News<'_>,
    ) -> Option<Stall> {
        keep(&mut self.jobs, news.events.iter().map(Job::of));
        keep(&mut self.ran, news.long.iter().filter(|one| one.ran()).cloned());
        let (longest_us, slow) = self.waited(news.long);
        let usual = self.is_usual(Second { ended: now.ended.operations(), slow, longest_us });
        let blocked: u64 = news.blocked.iter().map(|now| now.operations).sum();
        let blocked_us = news.blocked.iter().map(|now| now.longest_us).max().unwrap_or(0);
        let longest_us = longest_us.max(blocked_us);
        let paused = now.paused_ms >= PAUSE_MS;
        // While the process did not run, no operation could end: one that came then would have taken that long.
        let longest_us =
            if paused { longest_us.max(now.paused_ms as u64 * 1000) } else { longest_us };
        if !paused && blocked == 0 && (slow == 0 || usual) {
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
        stall.ended += slow;
        stall.operations = stall.operations.max(stall.ended + blocked);
        let during: Vec<_> = self.jobs.iter().filter(|job| job.is_within(stall)).collect();
        let ended = |kind: &str| during.iter().filter(|job| job.kind == kind).count();
        let seen = Seen { before, now, ended: &ended, blocked: news.blocked_counts() };
        stall.explain(&seen);
        stall.name(&self.ran);
        Some(stall.clone())
    }

    /// True if operations usually take as long as in this second, which then belongs to those that tell what is usual.
    /// Where too few ended before, the second speaks for itself.
    fn is_usual(&mut self, now: Second) -> bool {
        let mut past = Second::default();
        for second in &self.seconds {
            past.ended += second.ended;
            past.slow += second.slow;
            past.longest_us = past.longest_us.max(second.longest_us);
        }
        if self.seconds.len() == USUAL_SECONDS {
            self.seconds.pop_front();
        }
        self.seconds.push_back(now);
        match past.ended > USUAL_LEAST {
            true => {
                past.is_slow() && now.longest_us <= past.longest_us.saturating_mul(USUAL_FACTOR)
            }
            false => now.is_slow(),
        }
    }

    /// The longest time of those that waited, and how many did. What came and went between two calls counts as well.
    fn waited(&mut self, long: &[LongOperation]) -> (u64, u64) {
        let waited = || long.iter().filter(|one| !one.ran());
        let missed = long.first().map_or(0, |first| first.number.saturating_sub(self.newest + 1));
        self.newest = long.last().map_or(self.newest, |last| last.number);
        let least_us = if missed > 0 { LONG_US } else { 0 };
        let longest_us = waited().map(|one| one.micros).max().unwrap_or(0);
        (longest_us.max(least_us), missed + waited().count() as u64)
    }
}

/// Adds to a list that keeps the newest [`WORK_MAX`].
fn keep<T>(list: &mut VecDeque<T>, more: impl Iterator<Item = T>) {
    list.extend(more);
    let excess = list.len().saturating_sub(WORK_MAX);
    list.drain(..excess);
}

impl Stall {
    /// Adds the causes that were measured in the newest second.
    fn explain(&mut self, seen: &Seen<'_>) {
        for (at, cause) in CAUSES.iter().enumerate() {
            let measured = cause.measured(seen);
            // Also false if it is not known.
            if measured >= cause.from {
                match self.causes.iter_mut().find(|(known, _)| *known == at) {
                    Some((_, most)) => *most = most.max(measured),
                    None => self.causes.push((at, measured)),
                }
            }
        }
        self.causes.sort_by_key(|(at, _)| *at);
    }

    /// Names the longest operations that ran meanwhile.
    fn name(&mut self, ran: &VecDeque<LongOperation>) {
        let meanwhile = ran.iter().filter(|one| within(span(one), self) >= WORK_MS);
        let mut named: Vec<_> = meanwhile.cloned().collect();
        named.sort_by_key(|one| std::cmp::Reverse(one.micros));
        named.truncate(NAMED_MAX);
        self.ran = named;
    }

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
                    one.put("text", cause.shown(*measured).as_str());
                });
            }
            for one in &self.ran {
                let ms = one.micros / 1000;
                let text = format!("{} of {} ran for {ms} ms", one.name, one.namespace);
                list.doc(|cause| {
                    cause.put("cause", "operation");
                    cause.put("text", text.as_str());
                });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{FIGURES, position};
    use crate::latencies::Ended;

    fn sample(at_ms: i64, slow: u64, set: &[(&str, f64)]) -> Sample {
        let mut values = vec![0.0; FIGURES.len()].into_boxed_slice();
        for (name, value) in set {
            values[position(name)] = *value;
        }
        let writes = vec![(64, 1000), (262_144, slow)];
        let ended = Ended([vec![], writes, vec![]]);
        Sample { at_ms, steady_ms: at_ms, values, paused_ms: 0, ended }
    }

    /// Operations of this many microseconds that ended at a time, and had own times.
    fn long(after: u64, at_ms: i64, times: &[(u64, u64)]) -> Vec<LongOperation> {
        let one = |(number, &(micros, own_micros))| LongOperation {
            number,
            at_ms,
            name: "find",
            namespace: "db.c".to_owned(),
            is_command: false,
            micros,
            own_micros,
            blocked: None,
        };
        (after + 1..).zip(times).map(one).collect()
    }

    /// Looks at a second; the slow operations of the sample have waited.
    fn look(
        watch: &mut Watch,
        before: &Sample,
        now: &Sample,
        events: &[EngineEvent],
    ) -> Option<Stall> {
        let slow = now.ended.0[1].last().map_or(0, |(_, count)| *count);
        let times = vec![(262_144, 0); slow as usize];
        let long = long(watch.newest(), now.at_ms, &times);
        watch.observe(before, now, &news(events, &long))
    }

    fn news<'a>(events: &'a [EngineEvent], long: &'a [LongOperation]) -> News<'a> {
        News { events, long, blocked: <[BlockedNow; Blocked::COUNT]>::default() }
    }

    #[test]
    fn a_stall_begins_grows_and_ends() {
        let mut watch = Watch::default();
        let quiet = sample(1000, 0, &[]);
        let slow = sample(2000, 3, &[("governor.paused", 80_000.0), ("flushes.running", 1.0)]);
        let slower = sample(3000, 2, &[("governor.paused", 500_000.0)]);
        assert_eq!(look(&mut watch, &quiet, &sample(2000, 0, &[]), &[]), None);
        let first = look(&mut watch, &quiet, &slow, &[]).unwrap();
        assert_eq!((first.from_ms, first.to_ms, first.operations), (1000, 2000, 3));
        let grown = look(&mut watch, &slow, &slower, &[]).unwrap();
        assert_eq!((grown.from_ms, grown.to_ms, grown.operations), (1000, 3000, 5));
        let text = nagi_bson::DocBuf::build(|out| grown.write(out));
        let text = nagi_bson::json::to_relaxed(text.as_doc());
        assert!(text.contains("slowed down for 420 ms") && text.contains("flush"), "{text}");
        assert_eq!(look(&mut watch, &slower, &sample(4000, 0, &[]), &[]), None);
        assert_eq!(look(&mut watch, &slower, &slow, &[]).unwrap().from_ms, 1000);
    }

    #[test]
    fn a_stopped_process_is_a_stall_and_usual_times_are_none() {
        let mut watch = Watch::default();
        let stall = look(
            &mut watch,
            &sample(0, 0, &[]),
            &Sample { paused_ms: 4000, ..sample(5000, 0, &[]) },
            &[],
        )
        .unwrap();
        assert_eq!(CAUSES[stall.causes[0].0].name, "pause");
        assert_eq!(stall.longest_us, 4_000_000);
        // Shorter ones that follow each other are one stall; what is too short is no cause.
        let short = |at_ms, paused_ms| Sample { paused_ms, ..sample(at_ms, 0, &[]) };
        let stall = look(&mut watch, &sample(5000, 0, &[]), &short(6000, PAUSE_MS), &[]).unwrap();
        assert_eq!((CAUSES[stall.causes[0].0].name, stall.longest_us), ("pause", 4_000_000));
        let below = short(1000, PAUSE_MS - 1);
        assert_eq!(look(&mut Watch::default(), &sample(0, 0, &[]), &below, &[]), None);
        let mut usual = sample(1000, 900, &[]);
        usual.ended.0[1][0].1 = 100;
        assert_eq!(look(&mut Watch::default(), &sample(0, 0, &[]), &usual, &[]), None);
    }

    /// A second in which all operations of many clients end that were frozen.
    #[test]
    fn a_freeze_of_all_is_no_usual_time() {
        let second = |at_ms: i64, fast: u64, slow: u64| {
            let mut sample = sample(at_ms, slow, &[]);
            sample.ended.0[1][0].1 = fast;
            sample
        };
        let mut watch = Watch::default();
        let mut before = second(0, 60, 0);
        for at in 1..30 {
            let now = second(at * 1000, 60, 0);
            assert_eq!(look(&mut watch, &before, &now, &[]), None);
            before = now;
        }
        let thawed = second(30_000, 0, 60);
        let stall = look(&mut watch, &before, &thawed, &[]).unwrap();
        assert_eq!((stall.operations, stall.longest_us), (60, 262_144));
        // Where they go on to be slow, that is usual after a while.
        let (mut last, mut before) = (Some(stall), thawed);
        for at in 31..70 {
            let now = second(at * 1000, 0, 60);
            last = look(&mut watch, &before, &now, &[]);
            before = now;
        }
        assert_eq!(last, None);
        // Unless some take much longer than the others.
        let longer = long(watch.newest(), 70_000, &[(2_000_000, 0)]);
        let now = second(70_000, 0, 60);
        assert!(watch.observe(&before, &now, &news(&[], &longer)).is_some());
    }

    /// Operations that wait for another client are one stall from the first second on, until the last has ended.
    #[test]
    fn what_waits_now_is_a_stall_that_grows() {
        let mut watch = Watch::default();
        let cpu = |at: i64| sample(at, 0, &[("host.stalled.cpu", at as f64 * 600.0)]);
        let waiting = |operations: u64, longest_us: u64| {
            let mut news = news(&[], &[]);
            news.blocked[Blocked::Lock as usize] = BlockedNow { operations, longest_us };
            news
        };
        let first = watch.observe(&cpu(9000), &cpu(10_000), &waiting(2, 1_500_000)).unwrap();
        assert_eq!((first.from_ms, first.operations, first.longest_us), (8500, 2, 1_500_000));
        let grown = watch.observe(&cpu(10_000), &cpu(11_000), &waiting(3, 2_500_000)).unwrap();
        assert_eq!((grown.from_ms, grown.operations, grown.longest_us), (8500, 3, 2_500_000));
        let mut ended = long(0, 11_900, &[(3_000_000, 0); 3]);
        ended.iter_mut().for_each(|one| one.blocked = Some(Blocked::Lock));
        let last = watch.observe(&cpu(11_000), &cpu(12_000), &news(&[], &ended)).unwrap();
        assert_eq!((last.from_ms, last.operations, last.longest_us), (8500, 3, 3_000_000));
        let names: Vec<_> = last.causes.iter().map(|(at, _)| CAUSES[*at].name).collect();
        assert_eq!(names, ["lock", "processors"], "the first is what they waited for");
        assert_eq!(last.causes[0].1, 3.0);
        assert_eq!(watch.observe(&cpu(12_000), &cpu(13_000), &news(&[], &[])), None);
    }

    #[test]
    fn a_transaction_of_another_client_is_a_cause() {
        let mut list = long(0, 1900, &[(1_000_000, 0)]);
        list[0].blocked = Some(Blocked::Transaction);
        let (before, now) = (sample(1000, 0, &[]), sample(2000, 0, &[]));
        let stall = Watch::default().observe(&before, &now, &news(&[], &list)).unwrap();
        assert_eq!(CAUSES[stall.causes[0].0].name, "transaction");
    }

    #[test]
    fn a_clock_that_is_set_is_no_stall() {
        let mut watch = Watch::default();
        let set = |by: i64| Sample { at_ms: 2000 + by, ..sample(2000, 0, &[]) };
        for by in [3_600_000, -3_600_000] {
            assert_eq!(look(&mut watch, &sample(1000, 0, &[]), &set(by), &[]), None);
        }
        // A process that did not run is seen although the clock was set back meanwhile.
        let back = Sample { at_ms: 1000, paused_ms: 7000, ..sample(9000, 0, &[]) };
        let stall = look(&mut watch, &sample(1000, 0, &[]), &back, &[]).unwrap();
        assert_eq!((stall.longest_us, stall.to_steady_ms), (7_000_000, 9000));
    }

    /// Scripts, reads of many documents, and commands such as `validate` take long by nature.
    #[test]
    fn operations_that_ran_are_no_stall() {
        let busy = sample(2000, 0, &[("host.stalled.cpu", 900_000.0)]);
        let mut command = long(0, 2000, &[(4_000_000, 0)]);
        command[0].is_command = true;
        for ran in [command, long(0, 2000, &[(4_000_000, 2_000_000), (300_000, 299_000)])] {
            let mut watch = Watch::default();
            assert_eq!(watch.observe(&sample(1000, 0, &[]), &busy, &news(&[], &ran)), None);
            assert_eq!(watch.newest(), ran.len() as u64);
        }
    }

    /// The operations that waited make the stall, and those that ran meanwhile are named.
    #[test]
    fn a_stall_names_what_ran_meanwhile() {
        let mut watch = Watch::default();
        let times = [
            (900_000, 900_000),
            (200_000, 0),
            (300_000, 300_000),
            (400_000, 400_000),
            (98_304, 98_304),
        ];
        let mut list = long(0, 1990, &times);
        list[0].name = "aggregate";
        list[0].namespace = "shop.orders".to_owned();
        let before = long(0, 500, &[(400_000, 400_000)]);
        assert_eq!(
            watch.observe(&sample(0, 0, &[]), &sample(1000, 0, &[]), &news(&[], &before)),
            None
        );
        list.iter_mut().for_each(|one| one.number += 1);
        let stall =
            watch.observe(&sample(1000, 0, &[]), &sample(2000, 0, &[]), &news(&[], &list)).unwrap();
        assert_eq!((stall.operations, stall.longest_us), (1, 200_000));
        let text = nagi_bson::DocBuf::build(|out| stall.write(out));
        let causes = text.as_doc().get("causes").as_array().unwrap();
        let texts: Vec<_> =
            causes.iter().map(|cause| cause.as_doc().unwrap().get("text").to_string()).collect();
        assert_eq!(
            texts,
            [
                r#""aggregate of shop.orders ran for 900 ms""#,
                r#""find of db.c ran for 400 ms""#,
                r#""find of db.c ran for 300 ms""#,
            ]
        );
    }

    /// More ended than the server keeps: none may have been overlooked.
    #[test]
    fn operations_that_were_missed_count_as_waiting() {
        let mut watch = Watch::default();
        let late = long(7, 2000, &[(300_000, 300_000)]);
        let stall =
            watch.observe(&sample(1000, 0, &[]), &sample(2000, 0, &[]), &news(&[], &late)).unwrap();
        assert_eq!((stall.operations, stall.longest_us), (7, LONG_US));
    }

    #[test]
    fn what_is_not_known_is_no_cause() {
        let unknown = sample(1000, 3, &[("host.stalled.io", f64::NAN)]);
        let stall = look(&mut Watch::default(), &sample(0, 0, &[]), &unknown, &[]).unwrap();
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
        assert_eq!(look(&mut watch, &sample(9000, 0, &[]), &sample(10_000, 0, &[]), earlier), None);
        let stall = look(&mut watch, &sample(10_000, 0, &[]), &sample(11_000, 1, &[]), meanwhile);
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
        let stall = look(&mut watch, &sample(0, 0, &[]), &sample(1000, 1, &[]), &many).unwrap();
        assert_eq!(watch.jobs.len(), WORK_MAX);
        assert_eq!(stall.causes[0].1, WORK_MAX as f64);
    }
}
