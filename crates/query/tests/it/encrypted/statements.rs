//! Statements whose filters have conditions on tags.

use super::*;

/// The filter that a client's filter becomes, whose fields `n` and `m` have the values `values`; others are `rest`.
fn rewritten(
    fixture: &Fixture,
    encryption: &Encryption,
    rest: &str,
    values: &[(&str, u8)],
) -> DocBuf {
    let rest = doc(rest);
    let filter = DocBuf::build(|out| {
        out.extend(rest.as_doc());
        for (name, n) in values {
            out.put(name, encrypted(&find_payload(*n)));
        }
    });
    let searched = Searched::Filter(filter.as_doc());
    let rewritten = encryption.rewrite(&fixture.store, &fixture.ns, searched, 0, &|| Ok(()));
    rewritten.unwrap().expect("a payload").filter().to_buf()
}

fn update_where(
    fixture: &Fixture,
    encryption: &Encryption,
    statement: UpdateStatement<'_>,
) -> Result<nagi_query::UpdateOutcome> {
    let statement = UpdateStatement { encryption: Some(encryption), ..statement };
    update(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &Env::new(&(), NOW_MS))
}

#[test]
fn a_condition_on_tags_sets_no_array_position() {
    for condition in ["{arr: 5}", "{arr: {$elemMatch: {$gt: 4}}}"] {
        let fixture = fixture();
        let encryption = encryption(&fixture, EncryptionOptions::new(random));
        store_values(&fixture, &encryption, &[2, 1], 1, 0);
        let arr = doc("{$set: {arr: [1, 5]}}");
        let first = doc("{_id: 1}");
        let set = UpdateStatement::new(first.as_doc(), Value::Doc(arr.as_doc()));
        update_where(&fixture, &encryption, set).unwrap();
        let filter = rewritten(&fixture, &encryption, condition, &[("n", 1)]);
        let change = doc("{$set: {'arr.$': 9}}");
        let statement = UpdateStatement::new(filter.as_doc(), Value::Doc(change.as_doc()));
        assert_eq!(update_where(&fixture, &encryption, statement).unwrap().modified, 1);
        let request = FindRequest { filter: first.as_doc(), ..FindRequest::new(&fixture.ns) };
        let found = fixture.find(&request).unwrap();
        assert_eq!(found[0].get("arr").to_string(), "[ 1, 9 ]", "{condition}");
    }
}

#[test]
fn an_upsert_takes_nothing_from_conditions_on_tags() {
    let fixture = fixture();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    store_values(&fixture, &encryption, &[1], 1, 0);
    store_values(&fixture, &encryption, &[2], 2, 0);
    let filter = rewritten(&fixture, &encryption, "{_id: 9, a: 7}", &[("n", 1), ("m", 2)]);
    let payload = insert_payload(3, 0);
    let change = DocBuf::build(|out| out.doc("$set", |out| out.put("n", encrypted(&payload))));
    let statement = UpdateStatement {
        upsert: true,
        ..UpdateStatement::new(filter.as_doc(), Value::Doc(change.as_doc()))
    };
    assert!(update_where(&fixture, &encryption, statement).unwrap().upserted.is_some());
    let seventh = doc("{a: 7}");
    let request = FindRequest { filter: seventh.as_doc(), ..FindRequest::new(&fixture.ns) };
    let document = &fixture.find(&request).unwrap()[0];
    assert_eq!(document.get(SAFE_CONTENT).as_array().map(|tags| tags.count()), Some(1));
    assert_eq!(found(&fixture, &encryption, 3), [9]);
}

#[test]
fn cached_plans_of_conditions_on_tags_are_not_shown() {
    let fixture = fixture();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    fixture.index("{key: {a: 1}, name: 'a'}");
    fixture.index("{key: {b: 1}, name: 'b'}");
    store_values(&fixture, &encryption, &[1, 2, 3], 1, 0);
    let cached = || {
        let stats = fixture.aggregate("[{$planCacheStats: {}}]").unwrap();
        stats.iter().map(|entry| entry.get("createdFromQuery").to_string()).collect::<Vec<_>>()
    };
    let filter = rewritten(&fixture, &encryption, "{a: null}", &[("n", 1)]);
    let request = FindRequest { filter: filter.as_doc(), ..FindRequest::new(&fixture.ns) };
    assert_eq!(fixture.find(&request).unwrap().len(), 3);
    assert_eq!(cached(), [""; 0]);
    let plain = doc("{a: null, b: null}");
    fixture.find(&FindRequest { filter: plain.as_doc(), ..request }).unwrap();
    assert_eq!(cached().len(), 1, "other entries are shown");
}

#[test]
fn a_duplicate_key_of_another_index_is_no_conflict() {
    let fixture = fixture();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    let ns = nagi_store::Namespace::new("test", "enxcol_.c.esc").unwrap();
    let esc = Fixture { store: fixture.store.clone(), ns };
    esc.index("{key: {x: 1}, name: 'x', unique: true}");
    assert_eq!(try_store(&fixture, &encryption, &[1, 2], 1, 0), [11_000], "not repeated for ever");
}

#[test]
fn a_missing_state_collection_is_an_error_if_there_are_documents() {
    let fixture = fixture();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    store_values(&fixture, &encryption, &[1], 1, 0);
    let esc = nagi_store::Namespace::new("test", "enxcol_.c.esc").unwrap();
    fixture.store.drop_collection(&esc).unwrap();
    let payload = find_payload(1);
    let filter = DocBuf::build(|out| out.put("n", encrypted(&payload)));
    let search = || {
        let searched = Searched::Filter(filter.as_doc());
        encryption.rewrite(&fixture.store, &fixture.ns, searched, 0, &|| Ok(()))
    };
    let missing = |error: nagi_error::Error| assert_eq!(error.code(), Code::NAMESPACE_NOT_FOUND);
    missing(search().unwrap_err());
    missing(encryption.prepare(&fixture.store, &fixture.ns).unwrap_err());
    missing(compact_with(&fixture, false, &()).unwrap_err());
    let collection = fixture.store.collection(&fixture.ns).unwrap();
    let emptied = fixture.store.write(nagi_store::WriteOptions::default(), &mut |txn| {
        let mut buf = nagi_store::RecordBuf::default();
        let found = txn.reader().record_by_id(&collection, Value::Int32(1), &mut buf)?;
        let (id, doc) = found.map(|(id, doc)| (id, doc.to_buf())).expect("it was stored");
        txn.delete(&collection, id.key(), doc.as_doc())
    });
    emptied.unwrap();
    search().unwrap();
    encryption.prepare(&fixture.store, &fixture.ns).unwrap();
    assert!(fixture.store.collection(&esc).unwrap().options.clustered.is_some());
    store_values(&fixture, &encryption, &[2], 1, 0);
    assert_eq!(found(&fixture, &encryption, 1), [2]);
}

#[test]
fn a_range_with_other_parameters_than_its_field_is_refused() {
    let fixture = Fixture::new();
    let fields = FIELDS.replace("queryType: 'equality'", "queryType: 'range', sparsity: 1");
    fixture.create("c", doc(&fields).as_doc()).unwrap();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    encryption.prepare(&fixture.store, &fixture.ns).unwrap();
    let store = |sparsity: i64| {
        let payload = insert_payload(1, 0);
        let payload = DocBuf::build(|out| {
            out.extend(nagi_bson::Doc::parse(&payload[1..]).unwrap());
            out.put("sp", sparsity);
        });
        let payload = [&[INSERT], payload.as_bytes()].concat();
        let change = DocBuf::build(|out| out.put("n", encrypted(&payload)));
        let statement = UpdateStatement {
            upsert: true,
            ..UpdateStatement::new(nagi_bson::Doc::EMPTY, Value::Doc(change.as_doc()))
        };
        update_where(&fixture, &encryption, statement).map_err(|error| error.code())
    };
    assert_eq!(store(2).unwrap_err(), Code::BAD_VALUE);
    assert!(store(1).unwrap().upserted.is_some());
}

#[test]
fn a_stored_option_with_other_state_collections_is_not_trusted() {
    let fixture = Fixture::new();
    for (name, code) in [("escCollection", 7_406_900), ("ecocCollection", 7_406_902)] {
        let fields = FIELDS.replace("{fields:", &format!("{{{name}: 'users', fields:"));
        let ns = nagi_store::Namespace::new("test", name).unwrap();
        fixture.create(name, doc(&fields).as_doc()).unwrap();
        let information = doc(&format!("{{type: 1, schema: {{'test.{name}': {{}}}}}}"));
        let information = Value::Doc(information.as_doc());
        let options = EncryptionOptions::new(random);
        let error = Encryption::parse(&fixture.store, Some(&ns), information, options).unwrap_err();
        assert_eq!(error.code().0, code);
    }
}

const TWO_FIELDS: &str = "{encryptedFields: {fields: [\
    {path: 'n', keyId: {$binary: {base64: 'CQkJCQkJCQkJCQkJCQkJCQ==', subType: '04'}}, bsonType: 'int', \
     queries: {queryType: 'equality'}}, \
    {path: 'o.m', keyId: {$binary: {base64: 'EdWLigxsTWmgvQAAAAAAAQ==', subType: '04'}}, bsonType: 'int', \
     queries: {queryType: 'equality'}}]}}";

/// A value has the tags of the field that it was encrypted for.
#[test]
fn a_value_cannot_move_to_another_encrypted_field() {
    let fixture = Fixture::new();
    fixture.create("c", doc(TWO_FIELDS).as_doc()).unwrap();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    encryption.prepare(&fixture.store, &fixture.ns).unwrap();
    // The payloads have the key of `n`.
    store_values(&fixture, &encryption, &[1], 1, 0);
    let all = doc("{}");
    let run = |change: &str| {
        let change = doc(&format!("{{u: {change}}}"));
        let statement = UpdateStatement::new(all.as_doc(), change.get("u"));
        match update_where(&fixture, &encryption, statement) {
            Ok(done) => done.modified as i32,
            Err(error) => error.code().0,
        }
    };
    assert_eq!(run("[{$set: {'o.m': '$n'}}]"), 6_371_211, "copied");
    assert_eq!(run("{$rename: {n: 'o.m'}}"), 6_371_211, "moved");
    assert_eq!(run("[{$replaceWith: {o: {m: '$n'}}}]"), 6_371_211, "in a new document");
    assert_eq!(run("{$set: {plain: 1}}"), 1);
    assert_eq!(run("[{$set: {n: '$n', other: 1}}]"), 1, "the same field");
    assert_eq!(found(&fixture, &encryption, 1), [1]);
    assert_eq!(run("{$rename: {n: 'kept'}}"), 1, "to a plain field");
    assert_eq!(found(&fixture, &encryption, 1), []);
    assert_eq!(run("{$rename: {kept: 'n'}}"), 1, "and back");
    assert_eq!(found(&fixture, &encryption, 1), [1]);
    // A value of another key stays where it is, whatever stored it there.
    let payload = insert_payload(2, 0);
    let own = DocBuf::build(|out| out.doc("$set", |out| out.put("o.m", encrypted(&payload))));
    let statement = UpdateStatement::new(all.as_doc(), Value::Doc(own.as_doc()));
    assert_eq!(update_where(&fixture, &encryption, statement).unwrap().modified, 1);
    assert_eq!(run("{$set: {plain: 2}}"), 1);
}
