//! How the caches' memory is divided between whole documents and the engine's blocks.
//!
//! A hit among the documents costs a tenth of one among the blocks; but what both hold is held twice,
//! and a block brings its neighbours. Which is better depends on the reads: where few documents are hot,
//! they lie among cold ones and are best kept alone; where all are alike, every byte of blocks saves a
//! read of the disk. So the border follows two figures of the last reads by `_id`:
//!
//!   disk    share of the reads that went to the disk
//!   worth   reads that a byte of documents answers, by those that a byte of blocks answers
//!
//! While reads go to the disk, documents give half of their share away unless a byte of theirs is worth
//! clearly more, then they grow. While none do, documents grow as long as there is something to gain; where
//! that makes reads go to the disk, they go back, and stay below for a while.
//!
//!   move --> wait until the moved memory was filled anew --> watch --> judge --> move ...
//!
//! Pure: counters in, a share out. Costs nothing but at each `LOOK_EACH` misses.

/// Between two polls: misses of the record cache.
pub(crate) const LOOK_EACH: u64 = 8192;

/// What the record cache has at first, in thousandths of all caches.
pub(crate) const FIRST_PERMILLE: u32 = 100;
const LEAST_PERMILLE: u32 = 20;
const MOST_PERMILLE: u32 = 600;
const STEP: u32 = 40;

/// More of the reads than this going to the disk are felt; fewer than the other are none.
const DISK_FELT: f64 = 0.005;
const DISK_NONE: f64 = 0.001;
/// Documents grow beside blocks that miss if a byte of them is worth so much more, and shrink below the
/// other; between them the border rests.
const WORTH_MORE: f64 = 2.0;
const WORTH_LESS: f64 = 1.4;
/// When documents answer so many of the reads, more memory brings them nothing.
const ENOUGH: f64 = 0.95;
/// Judgements after which a share that was too much may be tried again.
const CEILING_LOOKS: u32 = 64;
/// Reads over which the figures are taken.
const WATCHED_READS: u64 = 60_000;
/// Or, on a slow disk, so many in this time.
const WATCHED_READS_MIN: u64 = 5_000;
const WATCHED_MS: i64 = 10_000;
/// Moved memory counts as filled when documents of this size would have filled it.
const DOCUMENT_BYTES: u64 = 1024;
/// On a slow disk, or for large caches, it would take too long.
const FILLING_MS_MAX: i64 = 20_000;
/// Misses before the first judgement: the caches begin empty.
const FIRST_MISSES: u64 = 100_000;

/// Running totals.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    /// Reads by `_id` that the record cache answered.
    pub(crate) hits: u64,
    /// Those that went to the engine.
    pub(crate) misses: u64,
    /// Blocks that the engine read from disk for reads.
    pub(crate) disk_reads: u64,
}

impl Seen {
    fn since(self, before: Seen) -> Seen {
        Seen {
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
            disk_reads: self.disk_reads.saturating_sub(before.disk_reads),
        }
    }

    fn reads(self) -> u64 {
        self.hits + self.misses
    }

    /// Share of the reads that documents answered.
    fn answered(self) -> f64 {
        self.hits as f64 / self.reads().max(1) as f64
    }

    /// Share of the reads that went to the disk. Also scans read blocks: more than one a read would
    /// be theirs.
    fn disk(self) -> f64 {
        self.disk_reads.min(self.misses) as f64 / self.reads().max(1) as f64
    }

    /// How many times the reads of a byte of blocks one of documents answers, at this share.
    fn worth(self, permille: u32) -> f64 {
        let documents = self.answered() / f64::from(permille);
        let disk = self.disk_reads.min(self.misses);
        let blocks = (self.misses - disk) as f64 / self.misses.max(1) as f64;
        documents / (blocks / f64::from(1000 - permille)).max(1e-6)
    }
}

#[derive(Clone, Copy)]
enum Phase {
    /// Until so many misses, or this time.
    Filling(u64, i64),
    Watching,
}

pub(crate) struct Split {
    permille: u32,
    /// Above it documents made reads go to the disk.
    ceiling: u32,
    /// Judgements since the ceiling was set.
    ceiling_looks: u32,
    phase: Phase,
    since: Seen,
    since_ms: i64,
}

impl Split {
    pub(crate) fn new() -> Split {
        Split {
            permille: FIRST_PERMILLE,
            ceiling: MOST_PERMILLE,
            ceiling_looks: 0,
            phase: Phase::Filling(FIRST_MISSES, i64::MAX),
            since: Seen::default(),
            since_ms: 0,
        }
    }

    /// The record cache's share.
    pub(crate) fn permille(&self) -> u32 {
        self.permille
    }

    /// Takes the totals of now; whether the share has changed. `bytes`: of all caches together.
    pub(crate) fn look(&mut self, seen: Seen, bytes: u64, now_ms: i64) -> bool {
        let now = seen.since(self.since);
        let long = now_ms - self.since_ms >= WATCHED_MS && now.reads() >= WATCHED_READS_MIN;
        let filled = |(misses, until)| now.misses >= misses || now_ms >= until;
        match self.phase {
            Phase::Filling(misses, until) if filled((misses, until)) => {
                self.phase = Phase::Watching;
                (self.since, self.since_ms) = (seen, now_ms);
                false
            }
            Phase::Watching if long || now.reads() >= WATCHED_READS => {
                (self.since, self.since_ms) = (seen, now_ms);
                let target = self.judge(now);
                self.go(target, bytes, now_ms)
            }
            _ => false,
        }
    }

    /// The share that the figures ask for.
    fn judge(&mut self, now: Seen) -> u32 {
        self.ceiling_looks += 1;
        if self.ceiling_looks > CEILING_LOOKS {
            self.ceiling = MOST_PERMILLE;
        }
        let (disk, worth) = (now.disk(), now.worth(self.permille));
        let more = (self.permille + STEP).min(MOST_PERMILLE);
        if disk > DISK_FELT && worth > WORTH_MORE {
            return more;
        }
        if disk > DISK_FELT && worth < WORTH_LESS {
            (self.ceiling, self.ceiling_looks) = (self.permille.saturating_sub(STEP), 0);
            // Small moves at the border of what fits, large ones far from it.
            let less = if disk < 0.05 { STEP * 2 } else { (self.permille / 2).max(STEP) };
            return self.permille.saturating_sub(less).max(LEAST_PERMILLE);
        }
        let gains = disk < DISK_NONE && now.answered() < ENOUGH;
        if gains && more <= self.ceiling { more } else { self.permille }
    }

    /// Moves the border; whether that changes anything.
    fn go(&mut self, permille: u32, bytes: u64, now_ms: i64) -> bool {
        if self.permille == permille {
            return false;
        }
        let moved = bytes / 1000 * u64::from(self.permille.abs_diff(permille));
        let misses = (moved / DOCUMENT_BYTES).max(LOOK_EACH);
        self.phase = Phase::Filling(misses, now_ms + FILLING_MS_MAX);
        self.permille = permille;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHES: u64 = 768 << 20;

    /// What a read meets: shares of all reads that are answered by documents, and by blocks among
    /// the rest.
    type Model<'a> = &'a dyn Fn(f64) -> (f64, f64);

    /// Runs for some million reads with a little noise; the share at the end, and the steps made.
    fn settle(split: &mut Split, seen: &mut Seen, model: Model<'_>) -> (u32, u32) {
        let (mut steps, mut noise) = (0, 7_u64);
        for _ in 0..4000 {
            let (documents, blocks) = model(f64::from(split.permille()) / 1000.0);
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let jitter = 1.0 + ((noise >> 40) as f64 / f64::from(1 << 24) - 0.5) * 0.01;
            let reads = LOOK_EACH as f64 / (1.0 - documents).max(0.01);
            seen.hits += (reads * documents) as u64;
            seen.misses += LOOK_EACH;
            seen.disk_reads += (LOOK_EACH as f64 * (1.0 - blocks).max(0.0) * jitter) as u64;
            steps += u32::from(split.look(*seen, CACHES, 0));
        }
        (split.permille(), steps)
    }

    /// All documents alike; the caches hold this part of them.
    fn uniform(part: f64) -> impl Fn(f64) -> (f64, f64) {
        move |share| ((part * share / 1.15).min(1.0), (part * (1.0 - share)).min(1.0))
    }

    /// Few are hot, scattered: a cached document is one of them, a block has one and three cold ones.
    fn skewed(part: f64) -> impl Fn(f64) -> (f64, f64) {
        let hit = |bytes: f64| ((1.0 + bytes * 1e5).ln() / 1e5_f64.ln()).min(1.0);
        move |share| {
            let documents = hit(part * share / 1.15);
            let all = hit(part * (1.0 - share) / 4.0).max(documents);
            (documents, (all - documents) / (1.0 - documents).max(1e-9))
        }
    }

    #[test]
    fn uniform_reads_of_too_much_give_the_memory_to_blocks() {
        let mut split = Split::new();
        let (permille, _) = settle(&mut split, &mut Seen::default(), &uniform(0.6));
        assert!(permille <= 60, "{permille}");
    }

    #[test]
    fn skewed_reads_give_it_to_documents() {
        let mut split = Split::new();
        let (permille, _) = settle(&mut split, &mut Seen::default(), &skewed(0.1));
        assert!(permille >= 300, "{permille}");
    }

    #[test]
    fn when_everything_fits_documents_save_time() {
        let mut split = Split::new();
        let (permille, _) = settle(&mut split, &mut Seen::default(), &uniform(2.2));
        assert!((350..=560).contains(&permille), "{permille}");
    }

    #[test]
    fn it_rests_and_wakes_when_the_reads_change() {
        let (mut split, mut seen) = (Split::new(), Seen::default());
        settle(&mut split, &mut seen, &uniform(0.6));
        let (low, steps) = settle(&mut split, &mut seen, &uniform(0.6));
        assert_eq!(steps, 0);
        let (high, _) = settle(&mut split, &mut seen, &skewed(0.1));
        assert!(high > low + 200, "{low} {high}");
    }
}
