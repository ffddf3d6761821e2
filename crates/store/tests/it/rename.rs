//! A rename across databases copies while other threads write: no acknowledged write is lost.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use nagi_error::{Code, Result, err};
use nagi_store::{
    BuildOptions, CollMod, IndexSelector, Namespace, Rename, TargetFacts, WriteOptions,
};

use crate::support::{Fixture, parse};

fn insert(f: &Fixture, id: usize, options: WriteOptions<'_>) -> Result<()> {
    let doc = parse(&format!("{{_id: {id}}}"));
    let Some(collection) = f.store.collection(&f.namespace) else {
        return Err(err!(Code::QUERY_PLAN_KILLED, "gone"));
    };
    f.store.write(options, &mut |txn| txn.insert(&collection, doc.as_doc())).map(drop)
}

#[test]
fn what_was_acknowledged_is_in_the_copy() {
    let f = Fixture::new();
    f.store.collection_or_create(&f.namespace).unwrap();
    let target = Namespace::parse("other.c").unwrap();
    let acknowledged = [AtomicUsize::new(0), AtomicUsize::new(0)];
    std::thread::scope(|scope| {
        for (writer, count) in acknowledged.iter().enumerate() {
            let f = &f;
            scope.spawn(move || {
                loop {
                    let id = count.load(SeqCst) * 2 + writer;
                    match insert(f, id, WriteOptions::default()) {
                        Ok(()) => count.fetch_add(1, SeqCst),
                        Err(error) => {
                            assert_eq!(error.code(), Code::QUERY_PLAN_KILLED, "{error}");
                            return;
                        }
                    };
                }
            });
        }
        while acknowledged.iter().any(|count| count.load(SeqCst) < 300) {
            std::thread::yield_now();
        }
        f.store.rename_collection(&f.namespace, &target, Rename::default(), &|| Ok(())).unwrap();
    });
    let copy = f.store.collection(&target).unwrap();
    let all: usize = acknowledged.iter().map(|count| count.load(SeqCst)).sum();
    assert_eq!(copy.count() as usize, all);
    assert_eq!(f.store.validate(&copy).unwrap().errors, Vec::<String>::new());
}

#[test]
fn writers_wait_for_the_copy_and_go_on_when_it_ends_early() {
    let f = Fixture::new();
    f.store.collection_or_create(&f.namespace).unwrap();
    (0..100).for_each(|id| insert(&f, id, WriteOptions::default()).unwrap());
    let stop = || Err(err!(Code::INTERRUPTED, "operation was interrupted"));
    let asked = Cell::new(0);
    let thrice = || {
        asked.set(asked.get() + 1);
        if asked.get() < 3 { Ok(()) } else { stop() }
    };
    let meanwhile = || {
        let options = WriteOptions { interrupt: Some(&thrice), ..WriteOptions::default() };
        assert_eq!(insert(&f, 500, options).unwrap_err().code(), Code::INTERRUPTED);
        stop()
    };
    let target = Namespace::parse("other.c").unwrap();
    let failed = f.store.rename_collection(&f.namespace, &target, Rename::default(), &meanwhile);
    assert_eq!(failed.unwrap_err().code(), Code::INTERRUPTED);
    assert_eq!(asked.get(), 3);
    insert(&f, 500, WriteOptions::default()).unwrap();
    assert_eq!(f.collection().count(), 101);
    assert_eq!(f.store.catalog().iter().count(), 1);
}

/// The UUID preconditions of a client hold at the moment the names change, not only before: another collection
/// created meanwhile under the name remains.
#[test]
fn another_collection_in_the_place_of_the_one_that_is_meant_stays() {
    let f = Fixture::new();
    let target = Namespace::parse("other.c").unwrap();
    let source = f.store.collection_or_create(&f.namespace).unwrap().uuid;
    let meant = f.store.collection_or_create(&target).unwrap().uuid;
    let how = Rename { drop_target: true, target: Some(meant), ..Rename::default() };
    (0..100).for_each(|id| insert(&f, id, WriteOptions::default()).unwrap());
    let again = Cell::new(true);
    let meanwhile = || {
        if again.replace(false) {
            f.store.drop_collection(&target)?;
            f.store.collection_or_create(&target)?;
        }
        Ok(())
    };
    let failed = f.store.rename_collection(&f.namespace, &target, how, &meanwhile).unwrap_err();
    assert_eq!(failed.code(), Code::COLLECTION_UUID_MISMATCH);
    assert_eq!(failed.info().unwrap().get("expectedCollection").as_str(), Some("c"));
    let new = f.store.collection(&target).unwrap();
    assert!(new.uuid != meant && new.count() == 0);
    assert_eq!(f.collection().count(), 100);
    assert_eq!(f.store.catalog().iter().count(), 2);

    let there = Namespace::new(f.namespace.database(), "there").unwrap();
    let wrong = Some(new.uuid);
    let how = Rename { source: wrong, ..Rename::default() };
    let code = |result: Result<()>| result.unwrap_err().code();
    let renamed = f.store.rename_collection(&f.namespace, &there, how, &|| Ok(()));
    assert_eq!(code(renamed), Code::COLLECTION_UUID_MISMATCH);
    let dropped = f.store.drop_collection_of(&f.namespace, wrong).map(drop);
    assert_eq!(code(dropped), Code::COLLECTION_UUID_MISMATCH);
    let changes = CollMod { uuid: wrong, capped_size: Some(4096), ..CollMod::default() };
    let changed = f.store.coll_mod(&f.namespace, changes).map(drop);
    assert_eq!(code(changed), Code::COLLECTION_UUID_MISMATCH);
    assert_eq!(f.collection().uuid, source);
    let how = Rename { source: Some(source), ..Rename::default() };
    f.store.rename_collection(&f.namespace, &there, how, &|| Ok(())).unwrap();
    assert!(f.store.drop_collection_of(&there, Some(source)).unwrap().is_some());
}

/// What is written over a collection has the options and indexes that this had before; changes made meanwhile are not
/// lost with the old collection.
#[test]
fn a_collection_is_replaced_only_if_nothing_of_it_has_changed() {
    let f = Fixture::new();
    let [from, to] = ["d.from", "d.to"].map(|name| Namespace::parse(name).unwrap());
    let replace = |facts: &TargetFacts| f.store.replace_collection(&from, &to, facts);
    let facts = || TargetFacts::of(f.store.collection(&to).as_deref());
    let refused = |facts: &TargetFacts, what: &str| {
        f.store.collection_or_create(&from).unwrap();
        let refused = replace(facts).unwrap_err();
        assert_eq!(refused.code(), Code::COMMAND_FAILED);
        assert!(refused.to_string().contains(what), "{refused}");
    };
    let none = facts();
    f.store.collection_or_create(&to).unwrap();
    refused(&none, "indexes of target collection d.to changed");
    let plain = facts();
    let index = parse("{name: 'a_1', key: {a: 1}}");
    f.store.create_indexes(&to, &[index.as_doc()], BuildOptions::default()).unwrap();
    refused(&plain, "indexes of target collection d.to changed");
    let indexed = facts();
    let validator = parse("{validator: {a: 1}}");
    f.store.drop_collection(&to).unwrap();
    f.store.create_collection(&to, validator.as_doc()).unwrap();
    refused(&indexed, "collection options of target collection d.to changed");
    // Another collection with the same options and indexes is no change.
    let same = facts();
    f.store.drop_collection(&to).unwrap();
    f.store.create_collection(&to, validator.as_doc()).unwrap();
    replace(&same).unwrap();

    let series = Namespace::parse("d.s").unwrap();
    let options = parse("{timeseries: {timeField: 't', metaField: 'm'}}");
    f.store.create_collection(&series, options.as_doc()).unwrap();
    let spare = Namespace::parse("d.system.buckets.tmp.x").unwrap();
    let buckets = f.store.buckets_of(&series).unwrap();
    let own = buckets.options.timeseries.clone().unwrap();
    let (_, facts) = f.store.spare_buckets(&series, &spare, &own).unwrap();
    f.store.create_indexes(&buckets.namespace, &[index.as_doc()], BuildOptions::default()).unwrap();
    let refused = f.store.replace_buckets(&spare, &series, &facts).unwrap_err();
    assert_eq!(refused.code(), Code::COMMAND_FAILED);
    f.store.drop_indexes(&buckets.namespace, IndexSelector::Name("a_1")).unwrap();
    f.store.replace_buckets(&spare, &series, &facts).unwrap();
}
