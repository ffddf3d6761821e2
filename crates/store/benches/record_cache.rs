//! The record cache beside `quick_cache`, both with whole documents of 1 KB: `cargo bench -p nagi-store`.
//!
//! A miss costs a copy here, not a read of the engine, so the hit rates have to be weighed with what a miss costs.
//! Decision 050 has the result.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::print_stdout,
    reason = "a program that includes one module"
)]

#[path = "../src/cache.rs"]
mod cache;
mod ident {
    /// Stands for the store's own type.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Ident(pub(crate) u32);
}

use std::{sync::Arc, thread};

use cache::Cache;
use foldhash::fast::RandomState;
use ident::Ident;
use nagi_kv::sync::Instant;
use quick_cache::{Weighter, sync::Cache as QuickCache};

const OPERATIONS: u64 = 1_000_000;
const COLLECTION: Ident = Ident(7);
/// What an entry counts besides its bytes, as in the record cache.
const ENTRY_BYTES: u64 = 120;

/// The keys of a round.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    documents: u64,
    cache_bytes: usize,
    is_zipfian: bool,
}

const LOADS: [Load; 3] = [
    Load {
        name: "all fit, uniform",
        documents: 100_000,
        cache_bytes: 400 << 20,
        is_zipfian: false,
    },
    Load {
        name: "half fit, uniform",
        documents: 400_000,
        cache_bytes: 230 << 20,
        is_zipfian: false,
    },
    Load {
        name: "a tenth fit, zipfian",
        documents: 1_000_000,
        cache_bytes: 115 << 20,
        is_zipfian: true,
    },
];

/// xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A document's number. Zipfian with exponent 0.99, by the inverse of its approximate distribution.
    fn document(&mut self, load: Load) -> u64 {
        if !load.is_zipfian {
            return self.next() % load.documents;
        }
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = ((load.documents as f64).powf(0.01) * unit + (1.0 - unit)).powf(100.0);
        (rank as u64).min(load.documents - 1)
    }
}

#[derive(Clone)]
struct Bytes;

impl Weighter<u64, Arc<[u8]>> for Bytes {
    fn weight(&self, _: &u64, value: &Arc<[u8]>) -> u64 {
        value.len() as u64 + ENTRY_BYTES
    }
}

/// Reads a document and fills the cache with it if it is absent; true if it was a hit.
type Lookup<'c> = &'c (dyn Fn(&[u8], &mut Vec<u8>) -> bool + Sync);

/// Nanoseconds and hits of a lookup, after a round that warms the cache.
fn measure(load: Load, threads: u64, lookup: Lookup<'_>) -> (f64, f64) {
    let round = |seed: u64| -> u64 {
        let work = |thread: u64| {
            let (mut random, mut out) = (Random(seed + thread), Vec::new());
            let hits = (0..OPERATIONS / threads).filter(|_| {
                out.clear();
                lookup(&random.document(load).to_be_bytes(), &mut out)
            });
            hits.count() as u64
        };
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|at| scope.spawn(move || work(at))).collect();
            running.into_iter().map(|thread| thread.join().expect("does not panic")).sum()
        })
    };
    round(17);
    let begin = Instant::now();
    let hits = round(99);
    let each = |total: f64| total / OPERATIONS as f64;
    (each(begin.elapsed().as_nanos() as f64), each(hits as f64))
}

fn main() {
    let document = vec![7; 1000];
    for load in LOADS {
        for threads in [1, 2, 1, 2] {
            let own = Cache::new(load.cache_bytes).expect("it is large enough");
            let (own_ns, own_hits) = measure(load, threads, &|key, out| {
                match own.get(Cache::hash(COLLECTION, key), COLLECTION, key, out) {
                    Ok(()) => return true,
                    Err(Some(fill)) => own.fill(fill, COLLECTION, key, &document),
                    Err(None) => {}
                }
                false
            });
            let (count, bytes) = (load.documents as usize, load.cache_bytes as u64);
            let hasher = RandomState::default();
            let quick: QuickCache<u64, Arc<[u8]>, Bytes, RandomState> =
                QuickCache::with(count, bytes, Bytes, hasher, Default::default());
            let (quick_ns, quick_hits) = measure(load, threads, &|key, out| {
                let hash = Cache::hash(COLLECTION, key);
                if let Some(value) = quick.get(&hash) {
                    out.extend_from_slice(&value[key.len()..]);
                    return value.starts_with(key);
                }
                quick.insert(hash, [key, &document].concat().into());
                false
            });
            println!(
                "{:20} {threads} threads: own {own_ns:6.0} ns, hits {own_hits:.3}; quick_cache \
                 {quick_ns:6.0} ns, hits {quick_hits:.3}; ratio {:.2}",
                load.name,
                quick_ns / own_ns
            );
        }
    }
}
