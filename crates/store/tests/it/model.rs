//! Random operations against a plain map: documents, unique keys, counts, lookups, the cache.

use std::collections::BTreeMap;

use nagi_bson::{DocBuf, Value, ValueBuf, compare};
use nagi_error::Code;
use nagi_store::WriteOptions;

use crate::{random::Random, support::Fixture};

/// The reference model: documents by `_id`; `u` is unique where present.
#[derive(Default)]
struct Model {
    docs: BTreeMap<i32, DocBuf>,
}

impl Model {
    fn clashes(&self, doc: &DocBuf, own: i32) -> bool {
        let value = doc.get("u");
        !value.is_missing()
            && self.docs.iter().any(|(id, other)| {
                let other = other.get("u");
                *id != own && !other.is_missing() && compare::equal(other, value)
            })
    }
}

fn document(random: &mut Random, id: i32) -> DocBuf {
    let unique =
        (random.below(3) == 0).then(|| ValueBuf::new(Value::Int32(random.below(40) as i32)));
    let (mut any, list) = (random.value(2), random.value(1));
    if matches!(any.value(), Value::Timestamp(0)) {
        // Zero would be replaced by the time of the insert.
        any = ValueBuf::new(Value::Timestamp(1));
    }
    DocBuf::build(|w| {
        w.put("_id", id);
        w.put("x", any.value());
        if let Some(unique) = &unique {
            w.put("u", unique.value());
        }
        w.array("l", |w| {
            w.push(list.value());
            w.push(id % 3);
        });
    })
}

fn step(f: &Fixture, model: &mut Model, random: &mut Random) {
    let id = random.below(60) as i32;
    let doc = document(random, id);
    let action = random.below(4);
    let clash = model.clashes(&doc, id);
    let exists = model.docs.contains_key(&id);
    let result = f.store.write(WriteOptions::default(), &mut |txn| {
        let collection = txn.collection(&f.namespace).unwrap();
        let record = txn.reader().find_id(&collection, id.into())?;
        assert_eq!(record.is_some(), exists);
        let Some(record) = record.filter(|_| action > 0) else {
            return txn.attempt(|txn| txn.insert(&collection, doc.as_doc())).map(drop);
        };
        let mut buf = nagi_store::RecordBuf::default();
        let old = txn.reader().record(&collection, record.key(), &mut buf)?.unwrap().to_buf();
        match action {
            1 => txn.delete(&collection, record.key(), old.as_doc()),
            _ => {
                txn.attempt(|txn| txn.update(&collection, record.key(), old.as_doc(), doc.as_doc()))
            }
        }
    });
    let inserts = action == 0 || !exists;
    match result {
        Err(error) => {
            assert_eq!(error.code(), Code::DUPLICATE_KEY, "{error}");
            assert!(inserts && exists || clash && (inserts || action != 1), "{error}");
        }
        Ok(_) if !inserts && action == 1 => drop(model.docs.remove(&id)),
        Ok(_) => {
            assert!(!clash);
            model.docs.insert(id, doc);
        }
    }
}

#[test]
fn the_store_agrees_with_a_map() {
    for seed in 0..6 {
        let [plain, clustered] = Fixture::each();
        let mut f = if seed % 2 == 0 { plain } else { clustered };
        let mut model = Model::default();
        let mut random = Random::new(seed);
        f.index("{key: {u: 1}, name: 'u', unique: true, sparse: true}").unwrap();
        f.index("{key: {x: -1, _id: 1}, name: 'x'}").unwrap();
        for round in 0..4 {
            for _ in 0..150 {
                step(&f, &mut model, &mut random);
                check_one(&f, &model, random.below(60) as i32);
            }
            if round == 1 {
                f.index("{key: {l: 1, x: 1}, name: 'l'}").unwrap_err();
                f.index("{key: {l: 1}, name: 'l'}").unwrap();
            }
            f.check_valid();
            assert_eq!(f.collection().count(), model.docs.len() as i64);
            f.reopen();
        }
    }
}

fn check_one(f: &Fixture, model: &Model, id: i32) {
    let mut buf = Vec::new();
    let found = f.store.find_by_id(&f.collection(), id.into(), &mut buf).unwrap();
    let expected = model.docs.get(&id).map(|doc| doc.as_doc());
    assert_eq!(found.map(|doc| doc.as_bytes()), expected.map(|doc| doc.as_bytes()));
}
