//! Loads, dropped ranges, sizes, statistics.

use std::sync::Arc;

use super::{Check, get, keys, put, scan};
use crate::{Engine, Error, KeyRange, Space};

pub(super) static POINTS: &[Check] = &[
    loads_are_seen,
    a_failed_load_is_an_error,
    scratch_is_read_again,
    ranges_are_dropped,
    sizes_and_statistics,
    splits_change_nothing,
];

fn loads_are_seen(engine: &Arc<dyn Engine>) {
    for space in [Space::Index, Space::Spill] {
        put(engine, space, &[0], b"before");
        let mut left = 5000_u32;
        engine
            .load(space, &mut |key, value| {
                key.clear();
                value.clear();
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                // The keys are not sorted: multiplication by an odd number is a permutation.
                key.extend_from_slice(&[1]);
                key.extend_from_slice(&left.wrapping_mul(2_654_435_761).to_be_bytes());
                value.extend_from_slice(&left.to_be_bytes());
                Ok(true)
            })
            .expect("loads");
        assert_eq!(scan(engine.latest(), space, &[1], &[2]).len(), 5000);
        let key = [&[1][..], &7_u32.wrapping_mul(2_654_435_761).to_be_bytes()].concat();
        assert_eq!(get(engine.latest(), space, &key), Some(7_u32.to_be_bytes().to_vec()));
    }
    engine.load(Space::Index, &mut |_, _| Ok(false)).expect("an empty load");
}

fn scratch_is_read_again(engine: &Arc<dyn Engine>) {
    let (one, other) = (engine.scratch().expect("scratch"), engine.scratch().expect("scratch"));
    let long = vec![7; 3 << 20];
    one.write(0, b"head").expect("writes");
    one.write(4, &long).expect("writes");
    other.write(0, b"of its own").expect("writes");
    let mut read = vec![0; long.len()];
    one.read(4, &mut read).expect("what was written");
    assert!(read == long);
    let mut head = [0; 10];
    other.read(0, &mut head).expect("what was written");
    assert_eq!(&head, b"of its own");
    assert!(matches!(other.read(1, &mut head), Err(Error::Io(_))), "past the end");
}

fn a_failed_load_is_an_error(engine: &Arc<dyn Engine>) {
    let result = engine.load(Space::Index, &mut |_, _| Err(Error::other("the source failed")));
    assert!(matches!(result, Err(Error::Io(_))));
    put(engine, Space::Index, b"k", b"still writable");
}

fn ranges_are_dropped(engine: &Arc<dyn Engine>) {
    for ident in 1..=3_u8 {
        for n in 0..500_u16 {
            let key = [&[ident][..], &n.to_be_bytes()].concat();
            put(engine, Space::Records, &key, &[ident; 100]);
        }
    }
    put(engine, Space::Index, &[2, 0], b"another space");
    engine.drop_range(Space::Records, &[2], &[3]).expect("drops");
    assert!(scan(engine.latest(), Space::Records, &[2], &[3]).is_empty());
    assert_eq!(scan(engine.latest(), Space::Records, &[], &[]).len(), 1000);
    assert_eq!(get(engine.latest(), Space::Records, &[2, 0, 1]), None);
    assert!(get(engine.latest(), Space::Index, &[2, 0]).is_some());
    put(engine, Space::Records, &[2, 0, 1], b"new");
    assert_eq!(keys(&scan(engine.latest(), Space::Records, &[2], &[3])), [&[2_u8, 0, 1][..]]);
    engine.compact(Space::Records, &[2], &[3]).expect("compacts");
    let range = KeyRange { space: Space::Records, start: &[1], end: &[2], live_count: None };
    assert!(!engine.drop_range_watched(range, &mut |_, _| false).expect("is cancelled"));
    assert_eq!(scan(engine.latest(), Space::Records, &[1], &[2]).len(), 500);
    assert!(engine.drop_range_watched(range, &mut |_, _| true).expect("drops"));
    assert!(scan(engine.latest(), Space::Records, &[1], &[2]).is_empty());
    engine.drop_range(Space::Records, &[], &[]).expect("drops all");
    assert!(scan(engine.latest(), Space::Records, &[], &[]).is_empty());
    engine.drop_range(Space::Records, &[5], &[5]).expect("an empty range");
}

/// Keys before which ranges end are any keys, those of entries and others; what can be read stays the same.
fn splits_change_nothing(engine: &Arc<dyn Engine>) {
    for n in 0..200_u8 {
        put(engine, Space::Index, &[1, n], &[n]);
    }
    let before = scan(engine.latest(), Space::Index, &[], &[]);
    let old = engine.snapshot().expect("a snapshot");
    let keys: [&[u8]; 5] = [&[1, 150], &[1], &[1, 50], &[1, 50, 7], &[1, 150]];
    let different = if engine.capabilities().splits_ranges { 4 } else { 0 };
    assert_eq!(engine.split_at(Space::Index, &keys).expect("splits"), different);
    assert_eq!(engine.split_at(Space::Index, &keys[..1]).expect("again"), different.min(1));
    assert_eq!(engine.split_at(Space::Index, &[]).expect("nothing to do"), 0);
    assert_eq!(scan(engine.latest(), Space::Index, &[], &[]), before);
    assert_eq!(scan(&*old, Space::Index, &[], &[]), before, "a snapshot that was there before");
    for n in [0_u8, 49, 50, 51, 149, 150, 199] {
        put(engine, Space::Index, &[1, n], b"new");
        assert_eq!(get(engine.latest(), Space::Index, &[1, n]), Some(b"new".to_vec()));
    }
    assert_eq!(scan(&*old, Space::Index, &[], &[]), before);
}

fn sizes_and_statistics(engine: &Arc<dyn Engine>) {
    for n in 0..100_u8 {
        put(engine, Space::Records, &[n, 1], &[n; 4000]);
    }
    engine.flush().expect("flushes");
    engine.approximate_size(Space::Records, &[0], &[50]).expect("a size");
    let mut names = Vec::new();
    engine.stats(&mut |name, _| names.push(name));
    assert!(!names.is_empty() && names.is_sorted(), "statistics are sorted by name");
    assert!(engine.limits().value_bytes_max >= 17 << 20);
    assert!(engine.limits().key_bytes_max >= 4096);
    assert!(!engine.name().is_empty());
}
