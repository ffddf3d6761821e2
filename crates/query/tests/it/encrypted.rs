//! Encrypted collections: writers of the same value, compactions beside them, and compactions that are cancelled at any
//! place.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nagi_bson::{Binary, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result, err};
use nagi_lang::encrypted::{FIND_EQUALITY, INSERT, SAFE_CONTENT, SUBTYPE, Token, derive, seal};
use nagi_query::{
    Compacted, Compaction, Encryption, EncryptionOptions, Env, FieldTokens, FindRequest,
    InsertStatement, Interrupt, RunTransaction, Searched, UpdateStatement, compact, insert, update,
};
use nagi_store::Durability;

use crate::fixture::{Fixture, NOW_MS, doc};

mod compaction;
mod statements;

const ECOC: Token = [77; 32];
const FIELDS: &str = "{encryptedFields: {fields: [{path: 'n', keyId: {$binary: {base64: \
                      'EdWLigxsTWmgvQAAAAAAAQ==', subType: '04'}}, bsonType: 'int', \
                      queries: {queryType: 'equality'}}]}}";

/// Bytes that are used once; nothing here depends on their secrecy.
fn random() -> Result<[u8; 16]> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Ok(u128::from(NEXT.fetch_add(1, Relaxed)).to_be_bytes())
}

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.create("c", doc(FIELDS).as_doc()).unwrap();
    let state = doc("{clusteredIndex: {key: {_id: 1}, unique: true}}");
    fixture.create("enxcol_.c.esc", state.as_doc()).unwrap();
    fixture.create("enxcol_.c.ecoc", state.as_doc()).unwrap();
    fixture.index("{key: {__safeContent__: 1}, name: 'tags'}");
    fixture
}

fn encryption(fixture: &Fixture, options: EncryptionOptions) -> Encryption {
    let information = doc("{type: 1, schema: {'test.c': {}}}");
    let information = Value::Doc(information.as_doc());
    Encryption::parse(&fixture.store, Some(&fixture.ns), information, options).unwrap()
}

fn put(out: &mut DocWriter<'_>, name: &str, bytes: &[u8]) {
    out.put(name, Value::Binary(Binary { subtype: 0, bytes }));
}

/// What a client sends to store the value `n`, with the contention factor `k`.
fn insert_payload(n: u8, k: u64) -> Vec<u8> {
    let esc = derive(&[n + 100; 32], k);
    let mut sealed = Vec::new();
    seal(&ECOC, random().unwrap(), &esc, &mut sealed);
    let doc = DocBuf::build(|out| {
        put(out, "d", &derive(&[n; 32], k));
        put(out, "s", &esc);
        put(out, "p", &sealed);
        put(out, "u", &[9; 16]);
        out.put("t", 16);
        put(out, "v", &[5; 64]);
        put(out, "e", &[8; 32]);
        put(out, "l", &[n + 50; 32]);
        out.put("k", k as i64);
    });
    [&[INSERT], doc.as_bytes()].concat()
}

/// What a client sends to find the value `n`.
fn find_payload(n: u8) -> Vec<u8> {
    let doc = DocBuf::build(|out| {
        put(out, "d", &[n; 32]);
        put(out, "s", &[n + 100; 32]);
        put(out, "l", &[n + 50; 32]);
        out.put("cm", 1_i64);
    });
    [&[FIND_EQUALITY], doc.as_bytes()].concat()
}

fn encrypted(bytes: &[u8]) -> Value<'_> {
    Value::Binary(Binary { subtype: SUBTYPE, bytes })
}

fn store_values(fixture: &Fixture, encryption: &Encryption, ids: &[i32], n: u8, k: u64) {
    let errors = try_store(fixture, encryption, ids, n, k);
    assert!(errors.is_empty(), "{errors:?}");
}

/// The codes of errors.
fn try_store(fixture: &Fixture, encryption: &Encryption, ids: &[i32], n: u8, k: u64) -> Vec<i32> {
    let payload = insert_payload(n, k);
    let docs: Vec<DocBuf> = ids
        .iter()
        .map(|id| {
            DocBuf::build(|out| {
                out.put("_id", *id);
                out.put("n", encrypted(&payload));
            })
        })
        .collect();
    let docs: Vec<_> = docs.iter().map(DocBuf::as_doc).collect();
    let statement = InsertStatement {
        docs: &docs,
        ordered: true,
        done: &[],
        statement: None,
        durability: Durability::Buffered,
        bypass_validation: false,
        keep_empty_timestamps: false,
        encryption: Some(encryption),
    };
    let done = insert(&fixture.store, &fixture.ns, &statement, &Env::new(&(), NOW_MS)).unwrap();
    done.errors.iter().map(|(_, error)| error.code().0).collect()
}

/// The ids of the documents with the value `n`, in order.
fn found(fixture: &Fixture, encryption: &Encryption, n: u8) -> Vec<i32> {
    let payload = find_payload(n);
    let filter = DocBuf::build(|out| out.put("n", encrypted(&payload)));
    let searched = Searched::Filter(filter.as_doc());
    let rewritten = encryption.rewrite(&fixture.store, &fixture.ns, searched, 0, &|| Ok(()));
    let rewritten = rewritten.unwrap().expect("a payload");
    let request = FindRequest { filter: rewritten.filter(), ..FindRequest::new(&fixture.ns) };
    let id = |doc: &DocBuf| match doc.get("_id") {
        Value::Int32(id) => id,
        other => panic!("{other:?}"),
    };
    let mut ids: Vec<i32> = fixture.find(&request).unwrap().iter().map(id).collect();
    ids.sort_unstable();
    ids
}

fn compact_with(fixture: &Fixture, cleanup: bool, interrupt: &dyn Interrupt) -> Result<Compacted> {
    let tokens = vec![FieldTokens { path: "n".into(), ecoc: ECOC }];
    let write: &RunTransaction<'_> = &|txn| txn();
    let of = Compaction { namespace: &fixture.ns, tokens, cleanup, random, write };
    compact(&fixture.store, &of, &Env::new(interrupt, NOW_MS))
}

fn state(fixture: &Fixture, kind: &str) -> Vec<DocBuf> {
    let ns = nagi_store::Namespace::new("test", &format!("enxcol_.c.{kind}")).unwrap();
    fixture.find(&FindRequest::new(&ns)).unwrap()
}

#[test]
fn writers_of_one_value_get_positions_of_their_own() {
    let fixture = fixture();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    std::thread::scope(|threads| {
        for writer in 0..4 {
            let (fixture, encryption) = (&fixture, &encryption);
            threads.spawn(move || {
                for at in 0..25 {
                    let id = writer * 100 + 2 * at;
                    store_values(fixture, encryption, &[id, id + 1], 1, 0);
                }
            });
        }
        // The others compact meanwhile.
        for cleanup in [false, true] {
            let fixture = &fixture;
            threads.spawn(move || {
                for _ in 0..20 {
                    compact_with(fixture, cleanup, &()).unwrap();
                }
            });
        }
    });
    assert_eq!(found(&fixture, &encryption, 1).len(), 200);
    assert_eq!(found(&fixture, &encryption, 2), []);
    let mut tags: Vec<Vec<u8>> = Vec::new();
    for document in fixture.find(&FindRequest::new(&fixture.ns)).unwrap() {
        let Value::Array(list) = document.get(SAFE_CONTENT) else { panic!("no tags") };
        tags.extend(list.iter().map(|tag| match tag {
            Value::Binary(tag) => tag.bytes.to_vec(),
            other => panic!("{other:?}"),
        }));
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 200, "every tag is used once");
    compact_with(&fixture, true, &()).unwrap();
    assert!(state(&fixture, "ecoc").is_empty());
    assert_eq!(found(&fixture, &encryption, 1).len(), 200);
}

/// Cancels the operation at the n-th poll.
struct StopAt(AtomicU64);

impl Interrupt for StopAt {
    fn check(&self) -> Result<()> {
        match self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Ok(()),
            Err(_) => Err(err!(Code::INTERRUPTED, "operation was interrupted")),
        }
    }
}

#[test]
fn a_compaction_that_is_cancelled_anywhere_can_be_repeated() {
    for cleanup in [false, true] {
        let fixture = fixture();
        let encryption = encryption(&fixture, EncryptionOptions::new(random));
        // More positions than one transaction deletes.
        let ids: Vec<i32> = (0..1100).collect();
        ids.chunks(100).for_each(|ids| store_values(&fixture, &encryption, ids, 1, 0));
        store_values(&fixture, &encryption, &[2000, 2001], 2, 1);
        let mut count = 1100;
        let mut stopped = 0;
        for polls in (0..).step_by(37) {
            let done = compact_with(&fixture, cleanup, &StopAt(AtomicU64::new(polls)));
            assert_eq!(found(&fixture, &encryption, 1).len(), count, "after {polls} polls");
            assert_eq!(found(&fixture, &encryption, 2), [2000, 2001], "after {polls} polls");
            if done.is_ok() {
                break;
            }
            stopped += 1;
            if stopped % 8 == 0 {
                store_values(&fixture, &encryption, &[10_000 + stopped], 1, 0);
                count += 1;
            }
        }
        assert!(stopped > 20, "{stopped}");
        compact_with(&fixture, cleanup, &()).unwrap();
        assert!(state(&fixture, "ecoc").is_empty());
        let left = state(&fixture, "esc");
        assert!(left.iter().all(|document| !document.get("value").is_missing()), "only anchors");
        assert!(!cleanup || left.len() <= 3, "{} anchors", left.len());
        assert_eq!(found(&fixture, &encryption, 1).len(), count);
    }
}

#[test]
fn too_many_tags_are_replaced_by_tests_of_values() {
    let fixture = fixture();
    let whole = encryption(&fixture, EncryptionOptions::new(random));
    store_values(&fixture, &whole, &[1, 2, 3, 4], 1, 0);
    store_values(&fixture, &whole, &[5], 2, 0);
    for tags in 0..6 {
        let options =
            EncryptionOptions { tags_bytes_max: tags * 45, ..EncryptionOptions::new(random) };
        let limited = encryption(&fixture, options);
        let payload = find_payload(1);
        let filter = DocBuf::build(|out| out.put("n", encrypted(&payload)));
        let searched = Searched::Filter(filter.as_doc());
        let rewritten = limited.rewrite(&fixture.store, &fixture.ns, searched, 0, &|| Ok(()));
        let rewritten = rewritten.unwrap().unwrap();
        let by_tags = !rewritten.filter().get(SAFE_CONTENT).is_missing();
        assert_eq!(by_tags, tags >= 4, "{tags} tags are allowed");
        assert_eq!(found(&fixture, &limited, 1), [1, 2, 3, 4]);
        assert_eq!(found(&fixture, &limited, 2), [5]);
    }
}

#[test]
fn a_failed_update_leaves_no_positions() {
    let fixture = fixture();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    store_values(&fixture, &encryption, &[1], 1, 0);
    let payload = insert_payload(2, 0);
    // The value has another type than the field.
    let at = payload.windows(3).position(|bytes| bytes == b"\x10t\0").unwrap() + 3;
    let mut wrong = payload.clone();
    wrong[at] = 2;
    for (bytes, code) in [(&wrong, Some(121)), (&payload, None)] {
        let change = DocBuf::build(|out| out.doc("$set", |out| out.put("n", encrypted(bytes))));
        let filter = doc("{_id: 1}");
        let statement = UpdateStatement {
            encryption: Some(&encryption),
            ..UpdateStatement::new(filter.as_doc(), Value::Doc(change.as_doc()))
        };
        let env = Env::new(&(), NOW_MS);
        let done = update(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &env);
        assert_eq!(done.err().map(|error| error.code().0), code);
        let count = if code.is_some() { 1 } else { 2 };
        assert_eq!((state(&fixture, "esc").len(), state(&fixture, "ecoc").len()), (count, count));
    }
    assert_eq!(
        (found(&fixture, &encryption, 1).len(), found(&fixture, &encryption, 2)),
        (0, vec![1])
    );
}

#[test]
fn a_search_knows_how_often_its_value_was_stored_since() {
    let fixture = fixture();
    let encryption = encryption(&fixture, EncryptionOptions::new(random));
    store_values(&fixture, &encryption, &[1, 2], 1, 0);
    let payload = find_payload(1);
    let filter = DocBuf::build(|out| out.put("n", encrypted(&payload)));
    let searched = Searched::Filter(filter.as_doc());
    let check = || Ok(());
    let rewritten = encryption.rewrite(&fixture.store, &fixture.ns, searched, 2, &check);
    let rewritten = rewritten.unwrap().unwrap();
    let stored = || {
        let of = (searched, &rewritten);
        encryption.stored_since(&fixture.store, &fixture.ns, of, &check).unwrap()
    };
    let found = || {
        let request = FindRequest { filter: rewritten.filter(), ..FindRequest::new(&fixture.ns) };
        fixture.find(&request).unwrap().len()
    };
    assert_eq!((stored(), found()), (0, 2));
    store_values(&fixture, &encryption, &[3], 2, 0);
    compact_with(&fixture, true, &()).unwrap();
    assert_eq!((stored(), found()), (0, 2), "another value, and a compaction");
    store_values(&fixture, &encryption, &[4], 1, 1);
    store_values(&fixture, &encryption, &[5], 1, 0);
    assert_eq!((stored(), found()), (2, 4), "within the margin all are found");
    store_values(&fixture, &encryption, &[6, 7], 1, 0);
    assert_eq!((stored(), found()), (4, 5));
}
