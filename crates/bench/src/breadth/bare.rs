//! The same work done by the storage engine alone, in this process: no protocol, no plans, no filters, no catalog.
//!
//! A document is a record and an entry of one index, as in a collection without further indexes. What a server takes
//! above these figures is its own cost.
use super::columns;
use super::data::document;
use crate::args::{Outcome, failed};
use crate::process::own_cpu_us;
use crate::progress::Progress;
use crate::random::Random;
use crate::report;
use nagi_kv::{Durability, Engine, Result, Space, Txn, TxnOptions};
use nagi_kv_rocks::Options;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// As much as a server with 2 GB gives to blocks.
const CACHE_BYTES: u64 = 1750 << 20;
const GROUP: u64 = 1000;
const RANGE: usize = 50;
const PREFIX: [u8; 4] = 7_u32.to_be_bytes();

struct Bare {
    engine: Arc<dyn Engine>,
    count: u64,
}

/// One kind of work, and how many documents it touches of `n`.
struct Work {
    name: &'static str,
    touched: fn(u64) -> u64,
    run: fn(&Bare) -> Result<()>,
}

const WORKS: &[Work] = &[
    Work { name: "inserts, 1,000 a commit", touched: |n| n, run: Bare::insert },
    Work { name: "iteration over all", touched: |n| n, run: Bare::iterate },
    Work {
        name: "a column, written",
        touched: |n| n,
        run: |bare| columns::write(&*bare.engine, bare.count),
    },
    Work {
        name: "a column, counted by value",
        touched: |n| n,
        run: |bare| columns::count(&*bare.engine, bare.count),
    },
    Work { name: "reads one by one", touched: |n| n / 10, run: Bare::read },
    Work { name: "reads, 1,000 a call", touched: |n| n / 10, run: Bare::read_many },
    Work { name: "ranges of 50", touched: |n| n / 50 * RANGE as u64, run: Bare::ranges },
    Work { name: "small changes, 1,000 a commit", touched: |n| n, run: Bare::change },
    Work { name: "deletion of half, 1,000 a commit", touched: |n| n / 2, run: Bare::delete },
];

/// Measures each kind of work once, in order, over `count` documents.
pub(super) fn run(dir: &Path, count: u64) -> Outcome {
    // Data of an earlier run would change what is measured.
    let _ = std::fs::remove_dir_all(dir);
    let options = Options { cache_bytes: CACHE_BYTES, ..Options::default() };
    let engine = nagi_kv_rocks::open(dir, &options).map_err(failed("opening the engine"))?;
    let bare = Bare { engine, count };
    let head = ["the engine alone", "ms", "us a document", "CPU us a document"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    let mut progress = Progress::new("the engine alone", WORKS.len() as u64);
    for (at, work) in WORKS.iter().enumerate() {
        progress.at(at as u64);
        let (begin, cpu) = (Instant::now(), own_cpu_us());
        (work.run)(&bare).map_err(failed(work.name))?;
        let (micros, cpu) = (begin.elapsed().as_secs_f64() * 1e6, own_cpu_us() - cpu);
        let touched = (work.touched)(count).max(1) as f64;
        table.push(vec![
            work.name.to_owned(),
            format!("{:.0}", micros / 1e3),
            format!("{:.2}", micros / touched),
            format!("{:.2}", cpu as f64 / touched),
        ]);
    }
    drop(progress);
    report::say(&report::columns(&table));
    bare.engine.close().map_err(failed("closing the engine"))
}

fn key(id: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&PREFIX);
    key[4..].copy_from_slice(&id.to_be_bytes());
    key
}

impl Bare {
    /// Runs `step` for each group of ids, in a transaction each.
    fn grouped(&self, mut step: impl FnMut(&mut dyn Txn, u64) -> Result<()>) -> Result<()> {
        for start in (0..self.count).step_by(GROUP as usize) {
            let mut txn = self.engine.begin(TxnOptions::default())?;
            for id in start..(start + GROUP).min(self.count) {
                step(&mut *txn, id)?;
            }
            txn.commit(Durability::Buffered)?;
        }
        Ok(())
    }

    fn insert(&self) -> Result<()> {
        self.grouped(|txn, id| {
            txn.put(Space::Records, &key(id), document(id).as_bytes())?;
            txn.put(Space::Index, &key(id), &[])
        })
    }

    fn iterate(&self) -> Result<()> {
        let mut cursor = self.engine.latest().cursor(Space::Records, &[], &[])?;
        let (mut found, mut bytes) = (cursor.seek(&[])?, 0);
        while found {
            bytes += cursor.value().len();
            found = cursor.next()?;
        }
        std::hint::black_box(bytes);
        Ok(())
    }

    fn read(&self) -> Result<()> {
        let (mut random, mut buf) = (Random::new(5), Vec::new());
        for _ in 0..self.count / 10 {
            let key = key(random.below(self.count));
            std::hint::black_box(self.engine.latest().get(Space::Records, &key, &mut buf)?);
        }
        Ok(())
    }

    fn read_many(&self) -> Result<()> {
        let mut random = Random::new(6);
        for _ in 0..self.count / 10 / GROUP {
            let mut keys: Vec<_> = (0..GROUP).map(|_| key(random.below(self.count))).collect();
            keys.sort_unstable();
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 12]>::as_slice).collect();
            self.engine.latest().get_many(Space::Records, &keys, &mut |_, value| {
                std::hint::black_box(value);
            })?;
        }
        Ok(())
    }

    fn ranges(&self) -> Result<()> {
        let mut random = Random::new(3);
        for _ in 0..self.count / 50 {
            let start = key(random.below(self.count));
            let mut cursor = self.engine.latest().cursor(Space::Records, &start, &[])?;
            let mut found = cursor.seek(&start)?;
            for _ in 0..RANGE {
                if !found {
                    break;
                }
                std::hint::black_box(cursor.value());
                found = cursor.next()?;
            }
        }
        Ok(())
    }

    /// Changes a byte of each record, as `$inc` does.
    fn change(&self) -> Result<()> {
        let mut cursor = self.engine.latest().cursor(Space::Records, &[], &[])?;
        let mut found = cursor.seek(&[])?;
        let mut new = Vec::new();
        self.grouped(|txn, _| {
            if found {
                new.clear();
                new.extend_from_slice(cursor.value());
                let middle = new.len() / 4;
                new[middle] ^= 1;
                txn.put_over(Space::Records, cursor.key(), cursor.value(), &new)?;
                found = cursor.next()?;
            }
            Ok(())
        })
    }

    fn delete(&self) -> Result<()> {
        self.grouped(|txn, id| {
            if id % 2 == 0 {
                txn.delete(Space::Records, &key(id))?;
                txn.delete(Space::Index, &key(id))?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_work_does_what_it_says() {
        let scratch = nagi_testkit::Scratch::new();
        let engine = nagi_kv_rocks::open(scratch.path(), &Options::default()).expect("opens");
        let bare = Bare { engine, count: 3000 };
        for work in WORKS {
            (work.run)(&bare).expect(work.name);
        }
        let mut cursor = bare.engine.latest().cursor(Space::Records, &[], &[]).expect("a cursor");
        let (mut found, mut left) = (cursor.seek(&[]).expect("reads"), 0);
        while found {
            let id = u64::from_be_bytes(cursor.key()[4..].try_into().expect("a key"));
            let original = document(id);
            let changed = original.as_bytes().iter().zip(cursor.value()).filter(|(a, b)| a != b);
            assert_eq!((id % 2, changed.count()), (1, 1));
            left += 1;
            found = cursor.next().expect("reads");
        }
        assert_eq!(left, 1500);
    }
}
