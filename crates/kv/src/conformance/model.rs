//! Random histories, compared with a sorted map.
//!
//! There is one open transaction at a time, in addition to the committed data and up to three snapshots. After
//! every step some reads are compared. Deterministic for a seed.

use std::{collections::BTreeMap, sync::Arc};

use super::{begin, commit, get, pair, scan};
use crate::{Engine, Savepoint, Snapshot, Space, Txn};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// One step of a history.
#[derive(Clone, Debug)]
pub enum Step {
    Put(u8, u8),
    Delete(u8),
    /// Changes a value that exists in some of its bytes, and in its length.
    Change(u8, u8),
    Add(u8, i8),
    Mark,
    Rollback,
    Commit,
    Abandon,
    Snapshot,
    Compact,
    DropRange(u8, u8),
    Scan(u8, u8),
    Walk(u8, u16),
}

impl Step {
    /// Converts any number to a step.
    pub fn from_bits(bits: u64) -> Step {
        let (a, b) = ((bits >> 8) as u8, (bits >> 16) as u8);
        match bits as u8 {
            0..=89 => Step::Put(a % 64, b),
            90..=109 => Step::Delete(a % 64),
            110..=139 => Step::Change(a % 64, b),
            140..=151 => Step::Add(a % 4, b as i8),
            152..=159 => Step::Mark,
            160..=167 => Step::Rollback,
            168..=189 => Step::Commit,
            190..=197 => Step::Abandon,
            198..=207 => Step::Snapshot,
            208..=209 => Step::Compact,
            210..=213 => Step::DropRange(a % 64, b % 64),
            214..=233 => Step::Scan(a % 64, b % 64),
            234..=255 => Step::Walk(a % 64, (bits >> 24) as u16),
        }
    }

    /// A history of `count` steps.
    pub fn random(seed: u64, count: usize) -> Vec<Step> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut step = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            Step::from_bits(state >> 11)
        };
        (0..count).map(|_| step()).collect()
    }
}

struct Run {
    engine: Arc<dyn Engine>,
    committed: Map,
    sums: BTreeMap<u8, i64>,
    txn: Option<Open>,
    snapshots: Vec<(Arc<dyn Snapshot>, Map)>,
}

struct Open {
    txn: Box<dyn Txn>,
    map: Map,
    sums: BTreeMap<u8, i64>,
    mark: Option<(Savepoint, Map, BTreeMap<u8, i64>)>,
}

/// Runs a history on an empty engine and compares everything it reads with a sorted map.
///
/// # Panics
/// If they differ.
pub fn check_steps(engine: &Arc<dyn Engine>, steps: &[Step]) {
    let mut run = Run {
        engine: Arc::clone(engine),
        committed: Map::new(),
        sums: BTreeMap::new(),
        txn: None,
        snapshots: Vec::new(),
    };
    for step in steps {
        run.step(step);
    }
    run.end(true);
    run.compare_all();
}

fn key(n: u8) -> Vec<u8> {
    // Keys of different lengths that are prefixes of each other.
    let mut key = vec![n / 4 + 1];
    key.resize(1 + usize::from(n % 4), 7);
    key
}

impl Run {
    fn open(&mut self) -> &mut Open {
        let (engine, map, sums) = (&self.engine, &self.committed, &self.sums);
        self.txn.get_or_insert_with(|| Open {
            txn: begin(engine),
            map: map.clone(),
            sums: sums.clone(),
            mark: None,
        })
    }

    fn end(&mut self, keep: bool) {
        let Some(open) = self.txn.take() else { return };
        if keep {
            commit(open.txn);
            (self.committed, self.sums) = (open.map, open.sums);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Put(n, v) => {
                let (key, value) = (key(n), vec![v; usize::from(v)]);
                let open = self.open();
                open.txn.put(Space::Records, &key, &value).expect("no other thread writes");
                open.map.insert(key, value);
            }
            Step::Delete(n) => {
                let open = self.open();
                open.txn.delete(Space::Records, &key(n)).expect("no other thread writes");
                open.map.remove(&key(n));
            }
            Step::Change(n, how) => self.change(&key(n), how),
            Step::Add(n, delta) => {
                let open = self.open();
                open.txn.add(Space::Counters, &[n + 1], &[delta.into()]).expect("adds");
                *open.sums.entry(n).or_insert(0) += i64::from(delta);
                let sum = open.sums[&n].to_le_bytes().to_vec();
                assert_eq!(get(&*open.txn, Space::Counters, &[n + 1]), Some(sum));
            }
            Step::Mark => {
                let open = self.open();
                open.mark = Some((open.txn.savepoint(), open.map.clone(), open.sums.clone()));
            }
            Step::Rollback => {
                let open = self.open();
                if let Some((savepoint, map, sums)) = open.mark.take() {
                    open.txn.rollback_to(savepoint);
                    (open.map, open.sums) = (map, sums);
                }
            }
            Step::Commit => self.end(true),
            Step::Abandon => self.end(false),
            Step::Snapshot => {
                let snapshot = self.engine.snapshot().expect("a snapshot");
                self.snapshots.push((snapshot, self.committed.clone()));
                if self.snapshots.len() > 3 {
                    self.snapshots.remove(0);
                }
            }
            Step::Compact => {
                self.engine.compact(Space::Records, b"", b"").expect("compacts");
            }
            Step::DropRange(a, b) => self.drop_range(&key(a.min(b)), &key(a.max(b))),
            Step::Scan(a, b) => self.scan(&key(a.min(b)), &key(a.max(b))),
            Step::Walk(from, turns) => self.walk(&key(from), turns),
        }
    }

    fn change(&mut self, key: &[u8], how: u8) {
        let open = self.open();
        let Some(old) = open.map.get(key).filter(|value| !value.is_empty()) else { return };
        let (mut new, at) = (old.clone(), usize::from(how) % old.len());
        match how % 4 {
            0 => drop(new.splice(at..at, [how; 9])),
            1 => drop(new.remove(at)),
            _ => new[at] ^= 1,
        }
        open.txn.put_over(Space::Records, key, old, &new).expect("no other thread writes");
        open.map.insert(key.to_vec(), new);
    }

    fn drop_range(&mut self, start: &[u8], end: &[u8]) {
        // Not transactional, and older snapshots may or may not see it: so they are closed first.
        self.end(true);
        self.snapshots.clear();
        self.engine.drop_range(Space::Records, start, end).expect("drops");
        self.committed.retain(|key, _| key.as_slice() < start || key.as_slice() >= end);
    }

    fn scan(&mut self, start: &[u8], end: &[u8]) {
        let within = |map: &Map| -> Vec<(Vec<u8>, Vec<u8>)> {
            let inside = |key: &[u8]| key >= start && key < end;
            map.iter().filter(|(k, _)| inside(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
        };
        let open = self.open();
        assert_eq!(scan(&*open.txn, Space::Records, start, end), within(&open.map));
        assert_eq!(scan(self.engine.latest(), Space::Records, start, end), within(&self.committed));
        for (snapshot, map) in &self.snapshots {
            assert_eq!(scan(&**snapshot, Space::Records, start, end), within(map));
        }
    }

    /// Moves a cursor and reverses its direction according to the bits of `turns`.
    fn walk(&mut self, from: &[u8], turns: u16) {
        let open = self.open();
        let mut cursor = open.txn.cursor(Space::Records, b"", b"").expect("a cursor");
        let mut found = cursor.seek(from).expect("seek");
        let mut expected = open.map.range(from.to_vec()..).next();
        for bit in 0..16 {
            assert_eq!(found, expected.is_some());
            let Some((key, value)) = expected else { return };
            assert_eq!(pair(&*cursor), (key.clone(), value.clone()));
            let forward = turns >> bit & 1 == 1;
            (found, expected) = match forward {
                true => {
                    let beyond =
                        (std::ops::Bound::Excluded(key.clone()), std::ops::Bound::Unbounded);
                    (cursor.next().expect("next"), open.map.range(beyond).next())
                }
                false => (cursor.prev().expect("prev"), open.map.range(..key.clone()).next_back()),
            };
        }
    }

    fn compare_all(&mut self) {
        let all: Vec<_> = self.committed.clone().into_iter().collect();
        assert_eq!(scan(self.engine.latest(), Space::Records, b"", b""), all);
        for (n, sum) in &self.sums {
            let stored = get(self.engine.latest(), Space::Counters, &[*n + 1]);
            assert_eq!(stored, Some(sum.to_le_bytes().to_vec()));
        }
    }
}
