//! Tuning of the cache partition: divides the caches' memory between whole documents (the record cache) and the
//! engine's blocks.
//!
//! A hit in the record cache costs a tenth of a hit in the block cache, but a document in both is stored twice, and
//! a block also caches the neighbours of a document. The better choice depends on the reads: if a few hot documents
//! are scattered among cold ones, they are best cached as documents; if all are equally hot, every byte of blocks
//! saves disk reads. The share of the record cache therefore follows two figures of the recent reads by `_id`:
//!
//!   disk    fraction of the reads that went to the disk
//!   worth   reads answered per byte of documents, divided by reads answered per byte of blocks
//!
//! While reads go to the disk, the record cache halves its share if `worth` is low, grows by one step if `worth` is
//! high, and keeps its share in between. While no reads go to the disk, it grows as long as that helps. If growing
//! causes disk reads, it shrinks again and stays below that share (the ceiling) for some time. It does not grow into
//! memory that the blocks of all data need, if they can have it: on a slow disk what the blocks lose costs thousands
//! of times what the documents gain.
//!
//!   move --> wait until the moved memory was filled again --> watch --> judge --> move ...
//!
//! Example: uniform reads over data twice as large as memory. `disk` is about 0.5 and `worth` is below 1.4, so the
//! share falls from 100 permille to 50 and then to 20, the minimum. With few, scattered hot documents `worth`
//! exceeds 2 and the share rises by 40 permille per judgement.
//!
//! The module is pure: counters in, a share out. It runs once per `LOOK_EACH` misses.

/// Misses of the record cache between two calls.
pub(crate) const LOOK_EACH: u64 = 8192;

/// The initial share of the record cache, in thousandths of all caches.
pub(crate) const FIRST_PERMILLE: u32 = 100;
const LEAST_PERMILLE: u32 = 20;
const MOST_PERMILLE: u32 = 600;
const STEP: u32 = 40;

/// A disk fraction above `DISK_FELT` counts as disk-bound; below `DISK_NONE` it counts as none.
const DISK_FELT: f64 = 0.005;
const DISK_NONE: f64 = 0.001;
/// While blocks miss, the record cache grows if its `worth` is above `WORTH_MORE` and shrinks below `WORTH_LESS`;
/// in between the share stays.
const WORTH_MORE: f64 = 2.0;
const WORTH_LESS: f64 = 1.4;
/// If the record cache answers this fraction of the reads, more memory does not help it.
const ENOUGH: f64 = 0.95;
/// Judgements after which a share above the ceiling may be tried again.
const CEILING_LOOKS: u32 = 64;
/// Reads over which the figures are measured.
const WATCHED_READS: u64 = 60_000;
/// On a slow disk: at least this number of reads in `WATCHED_MS`.
const WATCHED_READS_MIN: u64 = 5_000;
const WATCHED_MS: i64 = 10_000;
/// Moved memory counts as refilled after misses that would have filled it with documents of this size.
const DOCUMENT_BYTES: u64 = 1024;
/// Upper limit of the wait for the refill, for slow disks and large caches.
const FILLING_MS_MAX: i64 = 20_000;
/// Misses before the first judgement: the caches start empty.
const FIRST_MISSES: u64 = 100_000;

/// The blocks of all data fit if they have this many percent of its size: indexes, filters and what a compaction
/// writes before its input is gone need more than the data.
const ROOM_PERCENT: u64 = 125;

/// Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Both caches together.
    pub(crate) caches: u64,
    /// The blocks of all data; 0 if it is not known.
    pub(crate) data: u64,
}

impl Memory {
    /// The greatest share of documents with which the blocks of all data fit; any share if they do not fit anyway.
    fn most_permille(self) -> u32 {
        let needed = self.data / 100 * ROOM_PERCENT;
        let left = self.caches.saturating_sub(needed) / (self.caches / 1000).max(1);
        let left = u32::try_from(left).unwrap_or(MOST_PERMILLE).min(MOST_PERMILLE);
        if left < LEAST_PERMILLE { MOST_PERMILLE } else { left }
    }
}

/// Running totals.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    /// Reads by `_id` that the record cache answered.
    pub(crate) hits: u64,
    /// Reads by `_id` that went to the engine.
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

    /// Fraction of the reads that the record cache answered.
    fn answered(self) -> f64 {
        self.hits as f64 / self.reads().max(1) as f64
    }

    /// Fraction of the reads that went to the disk. Scans read blocks too: more than one block per read is
    /// attributed to scans.
    fn disk(self) -> f64 {
        self.disk_reads.min(self.misses) as f64 / self.reads().max(1) as f64
    }

    /// Reads answered per byte of documents divided by reads answered per byte of blocks, at this share.
    fn worth(self, permille: u32) -> f64 {
        let documents = self.answered() / f64::from(permille);
        let disk = self.disk_reads.min(self.misses);
        let blocks = (self.misses - disk) as f64 / self.misses.max(1) as f64;
        documents / (blocks / f64::from(1000 - permille)).max(1e-6)
    }
}

#[derive(Clone, Copy)]
enum Phase {
    /// Waits for this number of misses or until this time.
    Filling(u64, i64),
    Watching,
}

pub(crate) struct PartitionBoundary {
    permille: u32,
    /// Above this share the record cache caused disk reads.
    ceiling: u32,
    /// Judgements since the ceiling was set.
    ceiling_looks: u32,
    phase: Phase,
    since: Seen,
    since_ms: i64,
}

impl PartitionBoundary {
    pub(crate) fn new() -> PartitionBoundary {
        PartitionBoundary {
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

    /// Takes the current totals; returns true if the share has changed.
    pub(crate) fn look(&mut self, seen: Seen, memory: Memory, now_ms: i64) -> bool {
        let most = memory.most_permille();
        if self.permille > most && seen.since(self.since).disk() <= DISK_FELT {
            // The data has grown. What the blocks need then is given back before they miss it.
            return self.go(most, memory.caches, now_ms);
        }
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
                let target = self.judge(now, most);
                self.go(target, memory.caches, now_ms)
            }
            _ => false,
        }
    }

    /// The share that the figures suggest. Without disk reads it grows to `most` only.
    fn judge(&mut self, now: Seen, most: u32) -> u32 {
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
            // Small moves near the boundary of what fits, large moves far from it.
            let less = if disk < 0.05 { STEP * 2 } else { (self.permille / 2).max(STEP) };
            return self.permille.saturating_sub(less).max(LEAST_PERMILLE);
        }
        let gains = disk < DISK_NONE && now.answered() < ENOUGH;
        if gains && more <= self.ceiling.min(most) { more } else { self.permille }
    }

    /// Sets the share; returns true if it has changed.
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

    /// A model of the reads: the fraction of all reads answered by documents, and the fraction of the rest answered
    /// by blocks.
    type Model<'a> = &'a dyn Fn(f64) -> (f64, f64);

    /// Runs some million reads with a little noise. Returns the final share and the number of steps.
    fn settle(split: &mut PartitionBoundary, seen: &mut Seen, model: Model<'_>) -> (u32, u32) {
        settle_beside(split, seen, model, 0)
    }

    /// The same with data of so many bytes.
    fn settle_beside(
        split: &mut PartitionBoundary,
        seen: &mut Seen,
        model: Model<'_>,
        data: u64,
    ) -> (u32, u32) {
        let memory = Memory { caches: CACHES, data };
        let (mut steps, mut noise) = (0, 7_u64);
        for _ in 0..4000 {
            let (documents, blocks) = model(f64::from(split.permille()) / 1000.0);
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let jitter = 1.0 + ((noise >> 40) as f64 / f64::from(1 << 24) - 0.5) * 0.01;
            let reads = LOOK_EACH as f64 / (1.0 - documents).max(0.01);
            seen.hits += (reads * documents) as u64;
            seen.misses += LOOK_EACH;
            seen.disk_reads += (LOOK_EACH as f64 * (1.0 - blocks).max(0.0) * jitter) as u64;
            steps += u32::from(split.look(*seen, memory, 0));
        }
        (split.permille(), steps)
    }

    /// All documents are equally hot; the caches hold this fraction of them.
    fn uniform(part: f64) -> impl Fn(f64) -> (f64, f64) {
        move |share| ((part * share / 1.15).min(1.0), (part * (1.0 - share)).min(1.0))
    }

    /// Few documents are hot and scattered: a cached document is a hot one, a block has one hot and three cold
    /// ones.
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
        let mut split = PartitionBoundary::new();
        let (permille, _) = settle(&mut split, &mut Seen::default(), &uniform(0.6));
        assert!(permille <= 60, "{permille}");
    }

    #[test]
    fn skewed_reads_give_it_to_documents() {
        let mut split = PartitionBoundary::new();
        let (permille, _) = settle(&mut split, &mut Seen::default(), &skewed(0.1));
        assert!(permille >= 300, "{permille}");
    }

    #[test]
    fn when_everything_fits_documents_save_time() {
        let mut split = PartitionBoundary::new();
        let (permille, _) = settle(&mut split, &mut Seen::default(), &uniform(2.2));
        assert!((350..=560).contains(&permille), "{permille}");
    }

    #[test]
    fn documents_leave_the_room_that_all_blocks_need() {
        let mut split = PartitionBoundary::new();
        let mut seen = Seen::default();
        for (percent, least, most) in [(45, 400, 438), (70, 85, 125), (60, 200, 250), (78, 20, 25)]
        {
            let data = CACHES / 100 * percent;
            let part = 100.0 / percent as f64;
            let (permille, _) = settle_beside(&mut split, &mut seen, &uniform(part), data);
            assert!((least..=most).contains(&permille), "{percent} {permille}");
        }
    }

    #[test]
    fn it_rests_and_wakes_when_the_reads_change() {
        let (mut split, mut seen) = (PartitionBoundary::new(), Seen::default());
        settle(&mut split, &mut seen, &uniform(0.6));
        let (low, steps) = settle(&mut split, &mut seen, &uniform(0.6));
        assert_eq!(steps, 0);
        let (high, _) = settle(&mut split, &mut seen, &skewed(0.1));
        assert!(high > low + 200, "{low} {high}");
    }
}
