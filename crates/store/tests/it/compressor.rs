//! Collections with their own compressor: the space of their records, through all operations.

use nagi_kv::{Compressor, Space};
use nagi_store::{BuildOptions, Namespace, RecordBuf, Rename, WriteOptions};

use crate::support::{Fixture, error, parse};

fn create(f: &Fixture, name: &str, config: &str) -> String {
    let text = format!("{{storageEngine: {{wiredTiger: {{configString: '{config}'}}}}}}");
    error(f.store.create_collection(&Namespace::parse(name).unwrap(), parse(&text).as_doc()))
}

fn keys(f: &Fixture, space: Space) -> usize {
    let mut cursor = f.engine.latest().cursor(space, &[], &[0xF0]).unwrap();
    let (mut count, mut found) = (0, cursor.seek(&[]).unwrap());
    while found {
        count += 1;
        found = cursor.next().unwrap();
    }
    count
}

#[test]
fn records_lie_in_the_space_of_their_compressor_and_stay_there() {
    let mut f = Fixture::new();
    for compressor in Compressor::ALL {
        let name = compressor.name();
        f.namespace = Namespace::parse(&format!("d.{name}")).unwrap();
        assert_eq!(create(&f, &format!("d.{name}"), &format!("block_compressor={name}")), "ok");
        for id in 0..5 {
            f.insert(&format!("{{_id: {id}, a: 'x'}}")).unwrap();
        }
        f.index("{key: {a: 1}, name: 'a'}").unwrap();
        assert_eq!(keys(&f, compressor.space()), 5);
        f.reopen();
        f.insert("{_id: 9}").unwrap();
        f.store.validate(&f.collection()).unwrap();
        assert_eq!((keys(&f, compressor.space()), f.collection().count()), (6, 6));
        // A rename within the database, then one to another database, which copies.
        for to in ["d.x", "e.y"] {
            let to = Namespace::parse(to).unwrap();
            f.store.rename_collection(&f.namespace, &to, Rename::default(), &|| Ok(())).unwrap();
            f.namespace = to;
            f.check_valid();
        }
        f.store
            .convert_to_capped(
                &f.namespace,
                parse("{capped: true, size: 100000}").as_doc(),
                &|| Ok(()),
            )
            .unwrap();
        f.insert("{_id: 10}").unwrap();
        f.check_valid();
        let listed = f.collection().options.doc.as_doc().to_string();
        assert!(listed.contains(&format!("block_compressor={name}")), "{listed}");
        f.store.drop_collection(&f.namespace).unwrap();
        f.reopen();
        assert_eq!(keys(&f, compressor.space()), 0, "{name}");
    }
    assert_eq!(keys(&f, Space::Records), 0);
}

#[test]
fn deletes_updates_and_builds_find_them() {
    let f = Fixture { namespace: Namespace::parse("d.z").unwrap(), ..Fixture::new() };
    assert_eq!(create(&f, "d.z", "block_compressor=zstd"), "ok");
    let ids: Vec<_> = (0..3).map(|id| f.insert(&format!("{{_id: {id}}}")).unwrap()).collect();
    let collection = f.collection();
    f.store
        .write(WriteOptions::default(), &mut |txn| {
            txn.lock(&collection, ids[0].key())?;
            txn.update(
                &collection,
                ids[0].key(),
                parse("{_id: 0}").as_doc(),
                parse("{_id: 0, a: 7}").as_doc(),
            )?;
            txn.delete(&collection, ids[1].key(), parse("{_id: 1}").as_doc())
        })
        .unwrap();
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    f.check_valid();
    assert_eq!(f.docs(), "{ _id: 0, a: 7 } { _id: 2 }");
    f.store.compact(&f.collection(), &mut |_, _| Ok(())).unwrap();
}

#[test]
fn strings_are_checked_when_a_collection_is_made() {
    let f = Fixture::new();
    assert_eq!(
        create(&f, "d.n", "block_compressor=lzo"),
        "2: 22: Invalid argument. unknown compressor 'lzo'."
    );
    assert!(create(&f, "d.n", "leaf_page_max=4KB").starts_with("115: "));
    // The existence of the collection is checked first.
    assert!(create(&f, "d.c", "foo=bar").starts_with("48: "));
    // A valid option of an index is kept, although all indexes use one compressor.
    let spec = |config: &str| {
        parse(&format!(
            "{{key: {{a: 1}}, name: 'a', storageEngine: {{wiredTiger: {{configString: '{config}'}}}}}}"
        ))
    };
    let build = |config: &str| {
        let spec = spec(config);
        error(f.store.create_indexes(&f.namespace, &[spec.as_doc()], BuildOptions::default()))
    };
    assert!(build("nonsense=1").starts_with("2: "));
    assert!(build("block_compressor=lzo").starts_with("2: "));
    assert_eq!(build("block_compressor=zlib"), "ok");
    let collection = f.store.collection(&f.namespace).expect("made with the index");
    let kept = collection.index("a").expect("built");
    assert_eq!(kept.spec.doc.get("storageEngine").to_string(), ENGINE_OF_INDEX);
}

const ENGINE_OF_INDEX: &str = "{ wiredTiger: { configString: \"block_compressor=zlib\" } }";

/// A document whose text repeats 26 letters, so that it compresses, with a field for an index.
fn large(id: i64, length: usize) -> String {
    let text: String =
        (0..length).map(|at| char::from(b'a' + ((at * 7 + at / 26) % 26) as u8)).collect();
    format!("{{_id: {id}, k: {id}, text: '{text}'}}")
}

#[test]
fn large_documents_are_packed_and_read_as_they_were() {
    let mut f = Fixture::on(nagi_kv::Memory::saying_compressed());
    for compressor in Compressor::ALL {
        let name = compressor.name();
        f.namespace = Namespace::parse(&format!("d.{name}")).unwrap();
        assert_eq!(create(&f, &format!("d.{name}"), &format!("block_compressor={name}")), "ok");
        let texts = [large(0, 10), large(1, 16 << 10), large(2, 1 << 20), large(3, 20)];
        let ids: Vec<_> = texts.iter().map(|text| f.insert(text).unwrap()).collect();
        f.index("{key: {k: 1}, name: 'k'}").unwrap();
        f.check_valid();
        let collection = f.collection();
        let wanted: Vec<_> = texts.iter().map(|text| parse(text)).collect();
        let bytes: i64 = wanted.iter().map(|doc| doc.as_doc().len() as i64).sum();
        assert_eq!(collection.data_bytes(), bytes, "sizes are those of the documents");
        let stored = f.store.stats(&collection).unwrap().storage_bytes;
        assert_eq!(stored < bytes / 3, compressor != Compressor::None, "{name} {stored}");
        let (mut buf, mut record) = (Vec::new(), RecordBuf::default());
        for round in 0..2 {
            for (at, id) in ids.iter().enumerate() {
                let key = nagi_bson::Value::Int32(at as i32);
                let found = f.store.find_by_id(&collection, key, &mut buf).unwrap().unwrap();
                assert!(found.as_bytes() == wanted[at].as_bytes(), "{name} {at} {round}");
                let reader = f.store.latest();
                let found = reader.record(&collection, id.key(), &mut record).unwrap().unwrap();
                assert!(found.as_bytes() == wanted[at].as_bytes());
            }
        }
        for forward in [true, false] {
            let mut cursor = f.store.latest().scan(&collection, forward).unwrap();
            let mut seen = Vec::new();
            while cursor.advance().unwrap() {
                seen.push(cursor.doc().to_buf());
            }
            if !forward {
                seen.reverse();
            }
            assert!(seen.iter().zip(&wanted).all(|(a, b)| a.as_bytes() == b.as_bytes()));
        }
        f.store
            .write(WriteOptions::default(), &mut |txn| {
                txn.update(
                    &collection,
                    ids[0].key(),
                    wanted[0].as_doc(),
                    parse(&large(0, 30_000)).as_doc(),
                )?;
                txn.update(
                    &collection,
                    ids[2].key(),
                    wanted[2].as_doc(),
                    parse(&large(2, 5)).as_doc(),
                )?;
                txn.delete(&collection, ids[1].key(), wanted[1].as_doc())
            })
            .unwrap();
        f.check_valid();
        let capped = parse("{capped: true, size: 40000}");
        f.store.convert_to_capped(&f.namespace, capped.as_doc(), &|| Ok(())).unwrap();
        f.insert(&large(9, 20_000)).unwrap();
        f.check_valid();
    }
}

#[test]
fn a_damaged_record_is_an_error_of_its_reader_and_of_validate() {
    let f = Fixture::on(nagi_kv::Memory::saying_compressed());
    f.insert(&large(1, 100_000)).unwrap();
    let mut txn = f.engine.begin(nagi_kv::TxnOptions::default()).unwrap();
    let (key, mut value) = {
        let mut cursor = txn.cursor(Space::Records, &[], &[0xF0]).unwrap();
        assert!(cursor.seek(&[]).unwrap());
        (cursor.key().to_vec(), cursor.value().to_vec())
    };
    value.truncate(value.len() / 2);
    txn.put(Space::Records, &key, &value).unwrap();
    txn.commit(nagi_kv::Durability::Buffered).unwrap();
    let mut cursor = f.store.latest().scan(&f.collection(), true).unwrap();
    let text = error(cursor.advance());
    assert_eq!(text, "301: Data corruption detected: a compressed record cannot be unpacked");
    let mut buf = Vec::new();
    assert!(f.store.find_by_id(&f.collection(), nagi_bson::Value::Int32(1), &mut buf).is_err());
    assert_eq!(f.store.validate(&f.collection()).unwrap().invalid_count, 1);
}
