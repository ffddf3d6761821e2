//! The block cache is resized while it is in use.

use nagi_kv::{Compressor, Durability, Engine, Space, TxnOptions};
use nagi_kv_rocks::Options;

use crate::Scratch;

fn gauge(engine: &dyn Engine, wanted: &str) -> i64 {
    let mut found = 0;
    engine.stats(&mut |name, value| {
        if name == wanted {
            found = value;
        }
    });
    found
}

fn read_all(engine: &dyn Engine) {
    let mut buf = Vec::new();
    for number in 0..20_000_u64 {
        let key = number.to_be_bytes();
        engine.latest().get(Space::Records, &key, &mut buf).expect("reads");
    }
}

#[test]
fn a_smaller_cache_gives_its_blocks_back_at_once() {
    let scratch = Scratch::new();
    let options = Options { cache_bytes: 64 << 20, ..Options::default() };
    let engine = nagi_kv_rocks::open(scratch.path(), &options).expect("opens");
    let value: Vec<u8> =
        (0..1000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut number = 0_u64;
    let load = engine.load(Space::Records, &mut |key, out| {
        key.clear();
        key.extend_from_slice(&number.to_be_bytes());
        out.clear();
        out.extend_from_slice(&value);
        number += 1;
        Ok(number <= 20_000)
    });
    load.expect("loads");
    read_all(&*engine);
    let full = gauge(&*engine, "cache_bytes");
    assert!(full > 16 << 20, "{full}");
    engine.resize_cache(8 << 20);
    let less = gauge(&*engine, "cache_bytes");
    assert!(less <= 8 << 20, "{less}");
    assert_eq!(gauge(&*engine, "cache_capacity_bytes"), 8 << 20);
    let (kept, removed) =
        (gauge(&*engine, "cache_blocks"), gauge(&*engine, "cache_blocks_removed"));
    assert!(0 < kept && kept < removed, "{kept} blocks kept, {removed} removed");
    engine.resize_cache(64 << 20);
    read_all(&*engine);
    assert!(gauge(&*engine, "cache_bytes") > 16 << 20);
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(Space::Records, b"k", b"v").expect("free");
    txn.commit(Durability::Buffered).expect("commits");
}

#[test]
fn a_start_fills_the_cache() {
    const COUNT: u64 = 5_000;
    let scratch = Scratch::new();
    let options = Options { cache_bytes: 64 << 20, warm_up: true, ..Options::default() };
    let load = || {
        let engine = nagi_kv_rocks::open(scratch.path(), &options).expect("opens");
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        for number in 0..COUNT {
            txn.put(Space::Records, &number.to_be_bytes(), &text(number)).expect("free");
            txn.put(Space::Index, &number.to_be_bytes(), b"").expect("free");
        }
        txn.commit(Durability::Synced).expect("commits");
    };
    load();
    let engine = nagi_kv_rocks::open(scratch.path(), &options).expect("opens");
    let bytes = (0..COUNT).map(|number| 16 + text(number).len() as i64).sum::<i64>();
    while gauge(&*engine, "warm_up_bytes") < bytes {
        std::thread::yield_now();
    }
    assert_eq!(gauge(&*engine, "warm_up_bytes"), bytes);
    let added = gauge(&*engine, "cache_blocks_added");
    assert!(added > 100, "{added}");
    let mut buf = Vec::new();
    for number in 0..COUNT {
        let key = number.to_be_bytes();
        engine.latest().get(Space::Records, &key, &mut buf).expect("reads").expect("is there");
    }
    assert_eq!(gauge(&*engine, "cache_blocks_added"), added, "nothing is left to be read");
    assert_eq!(engine.blocks_read(), 0, "clients have not waited for anything");
}

#[test]
fn a_start_fills_no_more_than_most_of_the_cache_and_an_end_does_not_wait_for_it() {
    let scratch = Scratch::new();
    let options = Options { cache_bytes: 8 << 20, warm_up: true, ..Options::default() };
    let engine = nagi_kv_rocks::open(scratch.path(), &options).expect("opens");
    let mut number = 0;
    let load = engine.load(Space::Records, &mut |key, out| {
        key.clear();
        key.extend_from_slice(&u64::to_be_bytes(number));
        *out = text(number);
        number += 1;
        Ok(number <= 20_000)
    });
    load.expect("loads");
    drop(engine);
    for _ in 0..5 {
        drop(nagi_kv_rocks::open(scratch.path(), &options).expect("opens"));
    }
    let engine = nagi_kv_rocks::open(scratch.path(), &options).expect("opens");
    while gauge(&*engine, "cache_bytes") < 6 << 20 {
        std::thread::yield_now();
    }
    assert!(gauge(&*engine, "warm_up_bytes") < 12 << 20);
}

#[test]
fn what_a_dropped_range_has_evicted_comes_back() {
    const KEPT: u64 = 5_000;
    let scratch = Scratch::new();
    let options = Options { cache_bytes: 32 << 20, warm_up: true, ..Options::default() };
    let engine = nagi_kv_rocks::open(scratch.path(), &options).expect("opens");
    let put = |numbers: std::ops::Range<u64>| {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        for number in numbers {
            txn.put(Space::Records, &number.to_be_bytes(), &text(number)).expect("free");
        }
        txn.commit(Durability::Buffered).expect("commits");
    };
    put(0..KEPT);
    engine.flush().expect("flushes");
    for part in 1..20 {
        put(part * KEPT..(part + 1) * KEPT);
    }
    engine.flush().expect("flushes");
    engine.drop_range(Space::Records, &KEPT.to_be_bytes(), &u64::MAX.to_be_bytes()).expect("drops");
    let bytes = (0..KEPT).map(|number| 8 + text(number).len() as i64).sum::<i64>();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while gauge(&*engine, "warm_up_bytes") < bytes {
        assert!(std::time::Instant::now() < until, "nothing is read");
        std::thread::yield_now();
    }
    let added = gauge(&*engine, "cache_blocks_added");
    let mut buf = Vec::new();
    for number in 0..KEPT {
        let key = number.to_be_bytes();
        engine.latest().get(Space::Records, &key, &mut buf).expect("reads").expect("is there");
    }
    assert_eq!(gauge(&*engine, "cache_blocks_added"), added, "nothing is left to be read");
    assert!(gauge(&*engine, "cache_bytes") < 30 << 20, "only what is alive is in the cache");
}

/// Text that compresses to a third; all texts differ.
fn text(number: u64) -> Vec<u8> {
    let words = (0..40_u64).map(|at| {
        let mixed = (number * 40 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        format!("\"field{at}\": \"value {}\", ", mixed % 5000)
    });
    words.collect::<String>().into_bytes()
}

/// Evicted blocks are found in the compressed tier, with correct content, while the tier and the whole cache are
/// resized.
#[test]
fn pushed_out_blocks_come_back_from_the_compressed_tier() {
    const COUNT: u64 = 20_000;
    for compressor in [Compressor::Lz4, Compressor::Zstd] {
        let scratch = Scratch::new();
        let options = Options {
            cache_bytes: 12 << 20,
            cache_compression: compressor,
            cache_compressed_percent: Some(60),
            ..Options::default()
        };
        let engine = nagi_kv_rocks::open(scratch.path(), &options).expect("opens");
        let mut number = 0;
        let load = engine.load(Space::Records, &mut |key, out| {
            if number == COUNT {
                return Ok(false);
            }
            key.clear();
            key.extend_from_slice(&u64::to_be_bytes(number));
            *out = text(number);
            number += 1;
            Ok(true)
        });
        load.expect("loads");
        engine.compact(Space::Records, &[], &[]).expect("compacts");
        let mut buf = Vec::new();
        for round in 0..4_u64 {
            for number in 0..COUNT {
                let wanted = number * 7919 % COUNT;
                let key = wanted.to_be_bytes();
                let value = engine.latest().get(Space::Records, &key, &mut buf).expect("reads");
                assert_eq!(value, Some(&text(wanted)[..]), "{wanted}");
            }
            engine.resize_cache((10 + round * 2) << 20);
        }
        let (hits, read) = (gauge(&*engine, "cache_compressed_hits"), engine.blocks_read());
        assert!(hits > 2000 && read > 2000, "{hits} hits, {read} blocks read");
    }
}

/// A scan that continues during writes holds only the data it reads, not everything written since it began.
#[test]
fn a_scan_does_not_keep_the_memtables_of_what_is_written_meanwhile() {
    const ROUNDS: u64 = 60;
    let scratch = Scratch::new();
    let options = Options {
        cache_bytes: 16 << 20,
        write_buffer_bytes: Some(1 << 20),
        commit_interval_ms: 5,
        ..Options::default()
    };
    let engine = nagi_kv_rocks::open(scratch.path(), &options).expect("opens");
    let put = |from: u64, count: u64, bytes: usize| {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        for number in from..from + count {
            txn.put(Space::Records, &number.to_be_bytes(), &vec![number as u8; bytes])
                .expect("free");
        }
        txn.commit(Durability::Buffered).expect("commits");
    };
    for forward in [true, false] {
        put(0, ROUNDS, 10);
        let (mut scans, mut most) = (Vec::new(), 0);
        for round in 0..ROUNDS {
            // Each scan begins with a memtable of its own.
            let snapshot = engine.snapshot().expect("a snapshot");
            let mut cursor =
                snapshot.cursor(Space::Records, &[], &ROUNDS.to_be_bytes()).expect("a cursor");
            assert!(if forward { cursor.seek(&[]) } else { cursor.seek_back(&[]) }.expect("reads"));
            let bytes = cursor.value().len();
            scans.push((cursor, 0, bytes));
            put(1000 + round * 100, 100, 10_000);
            // The keys ahead of the scans, whose new values they must not see.
            put(0, ROUNDS, 20 + round as usize);
            for (cursor, moved, bytes) in &mut scans {
                assert!(
                    if forward { cursor.next() } else { cursor.prev() }.expect("reads")
                        || *moved == ROUNDS - 1
                );
                *moved += 1;
                if *moved < ROUNDS {
                    let number = if forward { *moved } else { ROUNDS - 1 - *moved };
                    assert_eq!(cursor.key(), number.to_be_bytes());
                    assert_eq!(cursor.value(), vec![number as u8; *bytes]);
                }
            }
            most = most.max(gauge(&*engine, "cache_pinned_bytes"));
        }
        assert!(most < 24 << 20, "{most} bytes in use, of {ROUNDS} MB written");
    }
}

#[test]
fn a_flush_that_is_finished_is_counted() {
    let scratch = Scratch::new();
    let engine = nagi_kv_rocks::open(scratch.path(), &Options::default()).expect("opens");
    let before = gauge(&*engine, "checkpoints");
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(Space::Records, b"key", b"value").expect("free");
    txn.commit(Durability::Synced).expect("commits");
    assert_eq!(gauge(&*engine, "checkpoints"), before, "the journal has it, no file");
    engine.compact(Space::Records, &[], &[]).expect("flushes first");
    assert!(gauge(&*engine, "checkpoints") > before);
    let [least, last, most, total] =
        ["min", "last", "max", "total"].map(|which| gauge(&*engine, &format!("flush_{which}_ms")));
    assert!(0 <= least && least <= last && last <= most && most <= total);
    assert!(gauge(&*engine, "file_blocks_written") > 0 && gauge(&*engine, "commits") > 0);
}

/// The share of reads of blocks that the cache answers, of skewed reads after as many that fill it.
fn measured_hits(engine: &dyn Engine, count: u64) -> f64 {
    let mut random = 1_u64;
    let mut buf = Vec::new();
    let mut read = |times: u64| {
        for _ in 0..times {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // The square of a part: small numbers are read more often. Then scattered, so that neighbours differ.
            let part = (random >> 33) as f64 / (1_u64 << 31) as f64;
            let key = ((part * part * count as f64) as u64 * 7919 % count).to_be_bytes();
            engine.latest().get(Space::Records, &key, &mut buf).expect("reads").expect("is there");
        }
    };
    read(60_000);
    let before = (gauge(engine, "cache_hits"), gauge(engine, "cache_misses"));
    read(60_000);
    let (hits, misses) =
        (gauge(engine, "cache_hits") - before.0, gauge(engine, "cache_misses") - before.1);
    hits as f64 / (hits + misses) as f64
}

#[test]
fn the_estimate_is_what_a_larger_cache_does() {
    const COUNT: u64 = 40_011;
    const SMALL: u64 = 12 << 20;
    let scratch = Scratch::new();
    let options = |cache_bytes| Options {
        cache_bytes,
        cache_compression: Compressor::None,
        records_compression: Compressor::None,
        warm_up: false,
        ..Options::default()
    };
    let open = |bytes| nagi_kv_rocks::open(scratch.path(), &options(bytes)).expect("opens");
    let engine = open(SMALL);
    assert!(engine.cache_estimate().is_none(), "nothing was read");
    let mut number = 0;
    let load = engine.load(Space::Records, &mut |key, out| {
        key.clear();
        key.extend_from_slice(&u64::to_be_bytes(number));
        *out = text(number).repeat(3);
        number += 1;
        Ok(number <= COUNT)
    });
    load.expect("loads");
    drop(engine);
    let engine = open(SMALL);
    // From here on all reads are counted, so that those of indexes, which are few and hot blocks, are known.
    assert!(engine.cache_estimate().is_none());
    let own = measured_hits(&*engine, COUNT);
    let estimate = engine.cache_estimate().expect("many reads");
    assert_eq!((estimate.capacity, estimate.density), (SMALL, 1.0));
    let expected = |times| estimate.hit_rate(times * SMALL).expect("within reach");
    assert!((expected(1) - own).abs() < 0.06, "{own} measured, {} expected", expected(1));
    drop(engine);
    for times in [2, 4] {
        let truth = measured_hits(&*open(times * SMALL), COUNT);
        let expected = expected(times);
        println!("{times} times the cache: {truth:.3} measured, {expected:.3} expected");
        assert!((expected - truth).abs() < 0.06, "{truth} measured, {expected} expected");
        assert!(truth > own + 0.02, "{truth} is more than {own}");
    }
}
