//! Batches of cursors: their limits, the position after them, staged writes in them.

use std::sync::Arc;

use super::{Check, Pairs, begin, put, scan};
use crate::{Batch, Cursor, Engine, Space};

pub(super) static POINTS: &[Check] =
    &[limits_hold, large_entries_go_alone, steps_follow_batches, staged_writes_are_copied];

const ANY: usize = usize::MAX;

fn fill(engine: &Arc<dyn Engine>, names: &[u8]) {
    for name in names {
        put(engine, Space::Records, &[*name], b"base");
    }
}

fn names(batch: &Batch) -> Vec<u8> {
    batch.iter().map(|(key, _)| key[0]).collect()
}

fn open(engine: &Arc<dyn Engine>) -> Box<dyn Cursor> {
    engine.latest().cursor(Space::Records, b"b", b"x").expect("a cursor")
}

fn limits_hold(engine: &Arc<dyn Engine>) {
    fill(engine, b"abcdefxy");
    let (mut cursor, mut batch) = (open(engine), Batch::default());
    assert!(!cursor.next_batch(ANY, ANY, &mut batch).expect("unpositioned"));
    assert!(batch.is_empty());
    assert!(cursor.seek(b"a").expect("seek"));
    assert!(cursor.next_batch(2, ANY, &mut batch).expect("two"));
    assert_eq!((names(&batch), batch.bytes()), (b"bc".to_vec(), 10));
    assert_eq!(cursor.key(), b"d", "the cursor stands on the first entry that was not copied");
    assert!(cursor.next_batch(ANY, 10, &mut batch).expect("ten bytes"));
    assert_eq!(names(&batch), b"de");
    assert!(!cursor.next_batch(ANY, ANY, &mut batch).expect("the rest"));
    assert_eq!(names(&batch), b"f");
    assert!(cursor.key().is_empty());
    assert!(!cursor.next_batch(ANY, ANY, &mut batch).expect("beyond the end"));
    assert!(batch.is_empty(), "the old content is lost");
    assert!(cursor.seek_back(b"z").expect("seek"));
    assert!(cursor.prev_batch(4, 14, &mut batch).expect("fourteen bytes"));
    assert_eq!(names(&batch), b"fe");
    assert_eq!(cursor.key(), b"d");
    assert!(cursor.prev_batch(0, ANY, &mut batch).expect("one at least"));
    assert!(!cursor.prev_batch(2, ANY, &mut batch).expect("exactly the rest"));
    assert_eq!(names(&batch), b"cb");
}

fn large_entries_go_alone(engine: &Arc<dyn Engine>) {
    fill(engine, b"ce");
    let large = vec![7; 100 << 10];
    put(engine, Space::Records, b"d", &large);
    let (mut cursor, mut batch) = (open(engine), Batch::default());
    assert!(cursor.seek(b"c").expect("seek"));
    assert!(cursor.next_batch(ANY, 1 << 10, &mut batch).expect("a batch"));
    assert_eq!(names(&batch), b"c", "the large one does not fit beside it");
    assert!(cursor.next_batch(ANY, 1 << 10, &mut batch).expect("a batch"));
    assert_eq!(batch.iter().collect::<Vec<_>>(), [(&b"d"[..], &large[..])]);
    assert!(!cursor.next_batch(ANY, 1 << 10, &mut batch).expect("a batch"));
    assert_eq!(names(&batch), b"e");
}

fn steps_follow_batches(engine: &Arc<dyn Engine>) {
    fill(engine, b"bcdefghijk");
    let (mut cursor, mut batch) = (open(engine), Batch::default());
    assert!(cursor.seek(b"b").expect("seek"));
    assert!(cursor.next_batch(3, ANY, &mut batch).expect("a batch"));
    assert!(cursor.next().expect("next"));
    assert_eq!(cursor.key(), b"f");
    assert!(cursor.prev_batch(2, ANY, &mut batch).expect("a batch, against the direction"));
    assert_eq!((names(&batch), cursor.key()), (b"fe".to_vec(), &b"d"[..]));
    assert!(cursor.next_batch(4, ANY, &mut batch).expect("and forward again"));
    assert_eq!((names(&batch), cursor.key()), (b"defg".to_vec(), &b"h"[..]));
    assert!(cursor.prev().expect("prev"));
    assert_eq!((cursor.key(), cursor.value()), (&b"g"[..], &b"base"[..]));
}

fn staged_writes_are_copied(engine: &Arc<dyn Engine>) {
    fill(engine, b"bcegik");
    let mut txn = begin(engine);
    txn.delete(Space::Records, b"c").expect("free");
    txn.put(Space::Records, b"d", b"mine").expect("free");
    txn.put(Space::Records, b"e", b"mine").expect("free");
    let pairs: Pairs = scan(&*txn, Space::Records, b"", b"");
    let values: Vec<(u8, &[u8])> = pairs.iter().map(|(key, v)| (key[0], v.as_slice())).collect();
    let (base, mine) = (&b"base"[..], &b"mine"[..]);
    let all = [(b'b', base), (b'd', mine), (b'e', mine), (b'g', base), (b'i', base), (b'k', base)];
    assert_eq!(values, all);
    let (mut cursor, mut batch) =
        (txn.cursor(Space::Records, b"", b"").expect("a cursor"), Batch::default());
    assert!(cursor.seek(b"f").expect("seek"), "no staged write from here on");
    assert!(cursor.next_batch(2, ANY, &mut batch).expect("a batch"));
    assert_eq!((names(&batch), cursor.key()), (b"gi".to_vec(), &b"k"[..]));
    assert!(cursor.prev_batch(4, ANY, &mut batch).expect("back over staged writes"));
    assert_eq!((names(&batch), cursor.key()), (b"kige".to_vec(), &b"d"[..]));
    assert!(!cursor.prev_batch(ANY, ANY, &mut batch).expect("the rest"));
    assert_eq!(names(&batch), b"db");
}
