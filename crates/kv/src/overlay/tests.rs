//! Tests of the overlay alone.

use super::*;

fn keys(overlay: &Overlay) -> Vec<u8> {
    let mut keys = Vec::new();
    let mut next = overlay.following(Space::Index, &[], false);
    while let Some(write) = next {
        keys.push(write.key[0]);
        next = overlay.following(Space::Index, write.key, true);
    }
    let mut back = Vec::new();
    let mut prev = overlay.preceding(Space::Index, &[]);
    while let Some(write) = prev {
        back.push(write.key[0]);
        prev = overlay.preceding(Space::Index, write.key);
    }
    back.reverse();
    assert_eq!(keys, back);
    keys
}

#[test]
fn newest_write_wins_and_rollback_brings_the_older_back() {
    let mut overlay = Overlay::new();
    for key in [5, 1, 3] {
        overlay.put(Space::Index, &[key], b"a");
    }
    let mark = overlay.write_count();
    overlay.delete(Space::Index, &[3]);
    overlay.put(Space::Index, &[4], b"b");
    overlay.append(Space::Changes, b"log", false);
    assert_eq!(keys(&overlay), [1, 3, 4, 5]);
    assert_eq!(overlay.get(Space::Index, &[3]), Some(Op::Delete));
    assert_eq!(overlay.writes().count(), 5);
    overlay.truncate(mark);
    assert_eq!(keys(&overlay), [1, 3, 5]);
    assert_eq!(overlay.get(Space::Index, &[3]), Some(Op::Put(b"a")));
    assert_eq!(overlay.get(Space::Index, &[4]), None);
    overlay.truncate(0);
    assert!(keys(&overlay).is_empty() && overlay.is_empty() && overlay.staged_bytes() == 0);
}

#[test]
fn counters_sum_up() {
    let mut overlay = Overlay::new();
    overlay.add(Space::Counters, b"c", &[1, -5]);
    overlay.add(Space::Counters, b"c", &[2, 3, 7]);
    let expected: Vec<u8> = [3_i64, -2, 7].iter().flat_map(|n| n.to_le_bytes()).collect();
    assert_eq!(overlay.get(Space::Counters, b"c"), Some(Op::Add(&expected)));
    assert_eq!(overlay.writes().count(), 1);
}

#[test]
fn many_keys_stay_sorted_in_any_order_of_arrival() {
    let mut overlay = Overlay::new();
    let count = 20_000_u32;
    for n in 0..count {
        let key = n.wrapping_mul(2_654_435_761).to_be_bytes();
        overlay.put(Space::Records, &key, &[]);
    }
    let mut seen = 0;
    let mut last = Vec::new();
    while let Some(write) = overlay.following(Space::Records, &last, !last.is_empty()) {
        assert!(last.as_slice() < write.key || seen == 0);
        last = write.key.to_vec();
        seen += 1;
    }
    assert_eq!(seen, count);
}

#[test]
fn a_large_value_does_not_double_the_arena() {
    let (mut overlay, large) = (Overlay::new(), vec![7; 5 << 20]);
    overlay.put(Space::Records, b"a", &large);
    overlay.append(Space::Changes, &large, false);
    overlay.put(Space::Records, b"b", b"small");
    assert!(overlay.arena.capacity() < 11 << 20, "{}", overlay.arena.capacity());
    assert_eq!(overlay.get(Space::Records, b"b"), Some(Op::Put(b"small")));
}
