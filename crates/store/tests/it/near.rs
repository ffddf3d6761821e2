//! Records that are read by a cursor are those that searches find.

use nagi_store::{NearRecords, RecordBuf, RecordId, WriteOptions, WriteTxn};

use crate::{
    random::Random,
    support::{Fixture, parse},
};

/// A collection of `count` documents without every `gap`th.
fn filled(count: i64, gap: i64) -> (Fixture, Vec<RecordId>) {
    let f = Fixture::new();
    let ids: Vec<_> = (0..count).map(|n| f.insert(&format!("{{_id: {n}}}")).unwrap()).collect();
    let collection = f.collection();
    for id in ids.iter().skip(3).step_by(gap as usize) {
        let snapshot = f.store.snapshot().unwrap();
        let mut buf = RecordBuf::default();
        let doc = snapshot.reader().record(&collection, id.key(), &mut buf).unwrap().unwrap();
        let doc = doc.to_buf();
        let delete = &mut |txn: &mut WriteTxn<'_>| txn.delete(&collection, id.key(), doc.as_doc());
        f.store.write(WriteOptions::default(), delete).unwrap();
    }
    (f, ids)
}

#[test]
fn a_cursor_finds_what_searches_find() {
    let (f, ids) = filled(400, 5);
    let collection = f.collection();
    let mut random = Random::new(11);
    for _ in 0..200 {
        let snapshot = f.store.snapshot().unwrap();
        let (reader, mut near) = (snapshot.reader(), NearRecords::default());
        for _ in 0..6 {
            // Dense or sparse, in front of the place of the call before or behind it, beyond the end, with duplicates.
            let (begin, spread) = (random.below(400), 1 + random.below(12));
            let mut wanted: Vec<RecordId> = (0..1 + random.below(40))
                .map(|n| match (begin + n * random.below(spread + 1)) as usize {
                    at if at < ids.len() => ids[at].clone(),
                    beyond => RecordId::Id(10_000 + beyond as i64),
                })
                .collect();
            wanted.sort();
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let mut buf = RecordBuf::default();
            near.records(reader, &collection, &wanted, &mut buf, &mut |at, doc| {
                found.push((at, doc.map(|doc| doc.to_buf())));
            })
            .unwrap();
            reader
                .records(&collection, &wanted, &mut buf, &mut |at, doc| {
                    expected.push((at, doc.map(|doc| doc.to_buf())));
                })
                .unwrap();
            assert_eq!(found, expected, "{wanted:?}");
        }
    }
}

#[test]
fn a_forgotten_cursor_reads_another_snapshot() {
    let f = Fixture::new();
    let collection = f.collection();
    let ids: Vec<_> = (0..10).map(|n| f.insert(&format!("{{_id: {n}}}")).unwrap()).collect();
    let (mut near, mut buf) = (NearRecords::default(), RecordBuf::default());
    for expected in [5, 4] {
        let snapshot = f.store.snapshot().unwrap();
        let mut count = 0;
        near.records(snapshot.reader(), &collection, &ids[..5], &mut buf, &mut |_, doc| {
            count += usize::from(doc.is_some());
        })
        .unwrap();
        assert_eq!(count, expected);
        near.forget();
        let gone = parse("{_id: 2}");
        let delete =
            &mut |txn: &mut WriteTxn<'_>| txn.delete(&collection, ids[2].key(), gone.as_doc());
        if expected == 5 {
            f.store.write(WriteOptions::default(), delete).unwrap();
        }
    }
}
