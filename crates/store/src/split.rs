//! How the caches' memory is divided between whole documents and the engine's blocks.
//!
//! A hit among the documents costs a tenth of one among the blocks; but what both hold is held twice,
//! and a block brings its neighbours. Which is better depends on the reads: where few documents are hot,
//! they lie among cold ones and are best kept alone; where all are alike, every byte of blocks saves a
//! read of the disk. So the border is moved, and what a read by `_id` costs on average is watched: first
//! at a place far away (between two good ones there may be a worse), on the side whose bytes answer
//! more reads now; then in steps from the better of the two. Steps shrink where they turn; when nothing
//! is left to gain the border rests, until the cost changes by itself.
//!
//!   move --> wait until the moved memory was filled anew --> watch --> compare --> move ...
//!
//! Pure: counters in, a share out. Costs nothing but at each `LOOK_EACH` misses.

/// Between two looks: misses of the record cache.
pub(crate) const LOOK_EACH: u64 = 8192;

/// What the record cache has at first, in thousandths of all caches.
pub(crate) const FIRST_PERMILLE: u32 = 150;
/// Where a survey looks besides the place of now, if documents are worth more, and if blocks are.
const SURVEYED_ABOVE: u32 = 450;
const SURVEYED_BELOW: u32 = 40;
/// Documents are worth more if a byte of them answers so many times the reads that one of blocks does.
const WORTH_MORE: f64 = 1.3;
const LEAST_PERMILLE: u32 = 20;
const MOST_PERMILLE: u32 = 600;

const STEP_MAX: u32 = 80;
const STEP_MIN: u32 = 20;
/// Costs that differ by less are alike.
const ALIKE: f64 = 0.005;
/// No step makes reads so many times dearer: they are other reads.
const OTHER_READS: f64 = 1.5;
/// At rest: a change of this much means that the reads have changed.
const CHANGED: f64 = 0.15;
/// Reads over which a cost is taken.
const WATCHED_READS: u64 = 60_000;
/// Or, on a slow disk, so many in this time.
const WATCHED_READS_MIN: u64 = 5_000;
const WATCHED_MS: i64 = 10_000;
/// Moved memory counts as filled when documents of this size would have filled it.
const DOCUMENT_BYTES: u64 = 1024;

/// On a slow disk, or for large caches, it would take too long.
const FILLING_MS_MAX: i64 = 20_000;
/// Misses before the first cost is taken: the caches begin empty.
const FIRST_MISSES: u64 = 100_000;

/// What a read costs, in hundredths of a microsecond: one of the disk, one of a cached block, one of
/// a cached document.
const DISK_COST: f64 = 6000.0;
const BLOCK_COST: f64 = 600.0;
const DOCUMENT_COST: f64 = 60.0;

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

    /// How many times the reads of a byte of blocks one of documents answers, at this share.
    fn worth(self, permille: u32) -> f64 {
        let reads = self.reads().max(1) as f64;
        let documents = self.hits as f64 / reads / f64::from(permille);
        let disk = self.disk_reads.min(self.misses);
        let blocks = (self.misses - disk) as f64 / self.misses.max(1) as f64;
        documents / (blocks / f64::from(1000 - permille)).max(1e-6)
    }

    fn cost(self) -> f64 {
        // Also scans read blocks: more than one a read would be theirs.
        let disk = self.disk_reads.min(self.misses) as f64;
        let sum =
            disk * DISK_COST + self.misses as f64 * BLOCK_COST + self.hits as f64 * DOCUMENT_COST;
        sum / self.reads().max(1) as f64
    }
}

enum Phase {
    /// Until so many misses, or this time.
    Filling(u64, i64),
    Watching,
    /// Nothing to gain; the cost then.
    Resting(f64),
}

pub(crate) struct Split {
    permille: u32,
    step: u32,
    grows: bool,
    /// While a survey goes on: the place it began at, once its cost is known.
    survey: Option<Option<(u32, f64)>>,
    /// Before the last step.
    cost: Option<f64>,
    /// Turns in a row without a gain at the smallest step.
    idle_count: u32,
    phase: Phase,
    since: Seen,
    since_ms: i64,
}

impl Split {
    pub(crate) fn new() -> Split {
        Split {
            permille: FIRST_PERMILLE,
            step: STEP_MAX,
            grows: false,
            survey: Some(None),
            cost: None,
            idle_count: 0,
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
        let watched = long || now.reads() >= WATCHED_READS;
        match self.phase {
            Phase::Filling(misses, until_ms) if now.misses >= misses || now_ms >= until_ms => {
                self.phase = Phase::Watching;
                (self.since, self.since_ms) = (seen, now_ms);
                false
            }
            Phase::Watching if watched => {
                (self.since, self.since_ms) = (seen, now_ms);
                self.judge(now, bytes, now_ms)
            }
            Phase::Resting(cost) if watched => {
                (self.since, self.since_ms) = (seen, now_ms);
                if (now.cost() / cost.max(1.0) - 1.0).abs() > CHANGED {
                    self.step = STEP_MAX;
                    self.idle_count = 0;
                    self.survey = Some(None);
                    self.cost = None;
                    self.phase = Phase::Watching;
                }
                false
            }
            _ => false,
        }
    }

    fn judge(&mut self, now: Seen, bytes: u64, now_ms: i64) -> bool {
        let cost = now.cost();
        if self.cost.is_some_and(|before| cost > before * OTHER_READS) {
            self.step = STEP_MAX;
            self.idle_count = 0;
            self.cost = None;
            self.survey = Some(None);
        }
        match self.survey.take() {
            Some(None) => {
                self.survey = Some(Some((self.permille, cost)));
                let above = now.worth(self.permille) > WORTH_MORE;
                return self.go(if above { SURVEYED_ABOVE } else { SURVEYED_BELOW }, bytes, now_ms);
            }
            Some(Some((first, first_cost))) => {
                let here = self.permille;
                let best = if cost < first_cost { here } else { first };
                // Not what was looked over already.
                self.grows = if best == here { here > first } else { here < first };
                return self.go(best, bytes, now_ms);
            }
            None => {}
        }
        if let Some(before) = self.cost {
            let gain = 1.0 - cost / before.max(1.0);
            if gain > ALIKE {
                self.idle_count = 0;
            } else {
                if gain < -ALIKE {
                    self.grows = !self.grows;
                }
                self.idle_count += u32::from(self.step == STEP_MIN);
                self.step = (self.step / 2).max(STEP_MIN);
            }
        }
        self.cost = Some(cost);
        if self.idle_count >= 3 {
            self.phase = Phase::Resting(cost);
            return false;
        }
        self.step(bytes, now_ms)
    }

    fn step(&mut self, bytes: u64, now_ms: i64) -> bool {
        let target = match self.grows {
            true => (self.permille + self.step).min(MOST_PERMILLE),
            false => self.permille.saturating_sub(self.step).max(LEAST_PERMILLE),
        };
        if target == self.permille {
            // An end: the other direction was worse, or it is tried next.
            self.grows = !self.grows;
            self.idle_count += 1;
            return false;
        }
        self.go(target, bytes, now_ms)
    }

    /// Moves the border; whether that changes anything.
    fn go(&mut self, permille: u32, bytes: u64, now_ms: i64) -> bool {
        let moved = bytes / 1000 * u64::from(self.permille.abs_diff(permille));
        let misses = (2 * moved / DOCUMENT_BYTES).max(LOOK_EACH);
        self.phase = Phase::Filling(misses, now_ms + FILLING_MS_MAX);
        let changed = self.permille != permille;
        self.permille = permille;
        changed
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
