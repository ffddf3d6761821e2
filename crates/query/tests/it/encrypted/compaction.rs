//! Compactions beside damaged documents and locks for writes.

use std::cell::Cell;

use super::*;

#[test]
fn a_compaction_leaves_malformed_documents() {
    let fixture = fixture();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    let sealed = "{_id: 2, fieldName: 'n', value: {$binary: {base64: 'AA==', subType: '00'}}}";
    let other = "{_id: 3, fieldName: 'other', value: {$binary: {base64: 'AA==', subType: '00'}}}";
    let below = "{_id: 4, fieldName: 'n.x', value: {$binary: {base64: 'AA==', subType: '00'}}}";
    for text in [other, below] {
        fixture.insert_doc("enxcol_.c.ecoc", doc(text).as_doc()).unwrap();
    }
    for (at, text) in ["{_id: 1}", sealed].iter().enumerate() {
        fixture.insert_doc("enxcol_.c.ecoc", doc(text).as_doc()).unwrap();
        let first = 2000 * at as i32;
        let ids: Vec<i32> = (first..first + 1200).collect();
        store_values(&fixture, &encryption, &ids, 1, 0);
    }
    let done = compact_with(&fixture, true, &()).unwrap();
    assert_eq!((done.ecoc_read, done.ecoc_deleted), (2404, 2400), "in several batches");
    assert_eq!(state(&fixture, "ecoc").len(), 4);
    assert_eq!(state(&fixture, "esc").len(), 1, "an anchor");
    assert_eq!(found(&fixture, &encryption, 1).len(), 2400);
}

#[test]
fn a_compaction_writes_in_short_pieces() {
    let fixture = fixture();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    store_values(&fixture, &encryption, &(0..1200).collect::<Vec<_>>(), 1, 0);
    let pieces = Cell::new(0);
    let write: &RunTransaction<'_> = &|txn| {
        pieces.set(pieces.get() + 1);
        txn()
    };
    let tokens = vec![FieldTokens { path: "n".into(), ecoc: ECOC }];
    let of = Compaction { namespace: &fixture.ns, tokens, cleanup: false, random, write };
    compact(&fixture.store, &of, &Env::new(&(), NOW_MS)).unwrap();
    assert_eq!(pieces.get(), 1 + 3 + 3, "an anchor, positions, and documents of ECOC");
}
