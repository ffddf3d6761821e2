//! Several index builds of one collection at once, interleaved with drops, failures and changes.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use nagi_error::{Code, Error, Result};
use nagi_store::{BuildOptions, CollMod, IndexSelector, Namespace, Rename, WriteOptions};

use crate::{
    random::Random,
    support::{Done, Fixture, error, parse},
};

/// Below and above the size from which indexes are built from sorted keys.
const SIZES: [i32; 2] = [600, 1500];

fn filled(count: i32) -> Fixture {
    fill(Fixture::new(), count)
}

fn fill(f: Fixture, count: i32) -> Fixture {
    let collection = f.collection();
    let insert = |txn: &mut nagi_store::WriteTxn<'_>| {
        (0..count).try_for_each(|id| {
            // `d` is unique except in the last document.
            let d = if id == count - 1 { 0 } else { id };
            let doc =
                parse(&format!("{{_id: {id}, a: {id}, b: {}, d: {d}, t: [{id}, 'x']}}", id % 7));
            txn.insert(&collection, doc.as_doc()).map(drop)
        })
    };
    f.store.write(WriteOptions::default(), &mut { insert }).unwrap();
    f
}

/// Builds the indexes; `act` runs once, in the middle.
fn build_with(f: &Fixture, specs: &[&str], act: &dyn Fn()) -> Result<()> {
    let once = Cell::new(true);
    let progress = |_: &'static str, _: i64, _: i64| {
        if once.replace(false) {
            act();
        }
    };
    let specs: Vec<_> = specs.iter().map(|spec| parse(spec)).collect();
    let specs: Vec<_> = specs.iter().map(|spec| spec.as_doc()).collect();
    let options = BuildOptions { progress: Some(&progress), ..BuildOptions::default() };
    f.store.create_indexes(&f.namespace, &specs, options).map(drop)
}

const A: &str = "{key: {a: 1}, name: 'a'}";
const B: &str = "{key: {b: 1}, name: 'b'}";
const T: &str = "{key: {t: 1}, name: 't'}";
const UNIQUE_D: &str = "{key: {d: 1}, name: 'u', unique: true}";

/// Names of the indexes; `?` marks those that are not ready.
fn names(f: &Fixture) -> String {
    let collection = f.collection();
    let one = |index: &Arc<nagi_store::Index>| {
        format!("{}{}", index.name(), if index.ready { "" } else { "?" })
    };
    collection.indexes.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_build_publishes_what_it_has_planned_and_nothing_else() {
    for size in SIZES {
        let f = filled(size);
        let built = build_with(&f, &[A], &|| {
            build_with(&f, &[B, T], &|| ()).unwrap();
            assert_eq!(names(&f), "_id_ a? b t");
            f.insert(&format!("{{_id: {size}, a: -1, b: 1, t: 5}}")).unwrap();
        });
        built.unwrap();
        assert_eq!(names(&f), "_id_ a b t");
        f.check_valid();
        assert!(f.ids("a").starts_with(&format!("{size} 0 1 2")));
    }
}

/// The allowed number of builds runs at once; a waiting build can be interrupted and does not block the others.
#[test]
fn builds_beyond_the_limit_wait_for_a_place() {
    for (most, size) in [(1, SIZES[0]), (2, SIZES[1]), (3, SIZES[0])] {
        let f = filled(size);
        let (now, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let build = |spec: &str| {
            let spec = parse(spec);
            let once = Cell::new(true);
            let progress = |_: &'static str, _: i64, _: i64| {
                if once.replace(false) {
                    peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                    let begin = Instant::now();
                    while peak.load(SeqCst) < most {
                        assert!(begin.elapsed() < Duration::from_secs(60), "others do not come in");
                        std::thread::yield_now();
                    }
                    // A build above the limit would start at this point.
                    (0..500).for_each(|_| std::thread::yield_now());
                    now.fetch_sub(1, SeqCst);
                }
            };
            let limit = || most as u64;
            let options = BuildOptions {
                progress: Some(&progress),
                most: Some(&limit),
                ..BuildOptions::default()
            };
            f.store.create_indexes(&f.namespace, &[spec.as_doc()], options).unwrap();
        };
        std::thread::scope(|scope| {
            for key in ["a", "b", "d", "t", "x", "y"] {
                let build = &build;
                scope.spawn(move || build(&format!("{{key: {{{key}: 1}}, name: '{key}'}}")));
            }
        });
        assert_eq!(peak.load(SeqCst), most);
        assert_eq!(f.collection().indexes.len(), 7);
        f.check_valid();
    }
}

#[test]
fn who_waits_for_a_place_can_be_interrupted() {
    let f = filled(SIZES[0]);
    let none = || 0;
    let asked = Cell::new(0);
    let interrupt = || {
        asked.set(asked.get() + 1);
        match asked.get() {
            3 => Err(Error::new(Code::INTERRUPTED, "operation was interrupted")),
            _ => Ok(()),
        }
    };
    let options =
        BuildOptions { interrupt: Some(&interrupt), most: Some(&none), ..BuildOptions::default() };
    let spec = parse(A);
    let built = f.store.create_indexes(&f.namespace, &[spec.as_doc()], options);
    assert_eq!(error(built.map(drop)), "11601: operation was interrupted");
    assert_eq!(names(&f), "_id_");
    // An existing index, and an index of an empty collection, do not count against the limit.
    build_with(&f, &[A], &|| ()).unwrap();
    f.store.create_indexes(&f.namespace, &[spec.as_doc()], options).unwrap();
    let other = Namespace::parse("test.other").unwrap();
    f.store.create_indexes(&other, &[spec.as_doc()], options).unwrap();
    f.store.create_indexes(&other, &[parse(B).as_doc()], options).unwrap();
}

#[test]
fn a_build_that_fails_takes_only_its_own_indexes_out() {
    for size in SIZES {
        let f = filled(size);
        let built = build_with(&f, &[A], &|| {
            let failed = error(build_with(&f, &[T, UNIQUE_D], &|| ()));
            assert!(failed.starts_with("11000: "), "{failed}");
            assert_eq!(names(&f), "_id_ a?");
            let stop = || nagi_error::bail!(Code::INTERRUPTED, "stopped");
            let options = BuildOptions { interrupt: Some(&stop), ..BuildOptions::default() };
            let spec = parse(B);
            let failed = f.store.create_indexes(&f.namespace, &[spec.as_doc()], options);
            assert_eq!(error(failed), "11601: stopped");
            assert_eq!(names(&f), "_id_ a?");
        });
        built.unwrap();
        assert_eq!(names(&f), "_id_ a");
        f.check_valid();
        // The outer build fails, the inner one succeeds.
        let failed = build_with(&f, &[UNIQUE_D], &|| build_with(&f, &[B], &|| ()).unwrap());
        assert!(error(failed).starts_with("11000: "));
        assert_eq!(names(&f), "_id_ a b");
        f.check_valid();
    }
}

#[test]
fn a_drop_aborts_the_build_it_names() {
    for size in SIZES {
        let f = filled(size);
        let drop = |which: IndexSelector<'_>| f.store.drop_indexes(&f.namespace, which).map(|_| ());
        f.index(B).unwrap();
        let failed = build_with(&f, &[A], &|| {
            let other = build_with(&f, &[T], &|| drop(IndexSelector::Name("b")).unwrap());
            assert_eq!(error(other), "ok");
            assert_eq!(names(&f), "_id_ a? t");
            drop(IndexSelector::Key(parse("{a: 1}").as_doc())).unwrap();
        });
        assert_eq!(failed.unwrap_err().code(), Code::INDEX_BUILD_ABORTED);
        assert_eq!(names(&f), "_id_ t");
        f.check_valid();
        // The indexes of one request are aborted together or not at all.
        let built = build_with(&f, &[A, B], &|| {
            let refused = error(drop(IndexSelector::Name("a")));
            let text = "12587: cannot perform operation: an index build is currently running for \
                        collection 'd.c'";
            assert!(refused.starts_with(text), "{refused}");
            assert_eq!(names(&f), "_id_ t a? b?");
            drop(IndexSelector::Names(vec!["b", "t", "a"])).unwrap();
        });
        assert_eq!(built.unwrap_err().code(), Code::INDEX_BUILD_ABORTED);
        assert_eq!(names(&f), "_id_");
        let built = build_with(&f, &[A], &|| {
            let other = build_with(&f, &[B, T], &|| drop(IndexSelector::All).unwrap());
            assert_eq!(other.unwrap_err().code(), Code::INDEX_BUILD_ABORTED);
        });
        assert_eq!(built.unwrap_err().code(), Code::INDEX_BUILD_ABORTED);
        assert_eq!(names(&f), "_id_");
        f.check_valid();
    }
}

#[test]
fn what_mongodb_refuses_during_a_build_is_refused() {
    let f = filled(SIZES[1]);
    f.index(B).unwrap();
    let target = Namespace::parse("d.other").unwrap();
    f.store.create_collection(&target, nagi_bson::Doc::EMPTY).unwrap();
    let go_on = || Ok(());
    let elsewhere = Namespace::parse("e.c").unwrap();
    let hide = parse("{name: 'b', hidden: true}");
    let refused = |result: Result<()>| {
        let result = error(result);
        assert!(result.starts_with("12587: cannot perform operation: an index build"), "{result}");
    };
    let built = build_with(&f, &[A], &|| {
        let rename = |from, to| {
            f.store.rename_collection(
                from,
                to,
                Rename { drop_target: true, ..Rename::default() },
                &go_on,
            )
        };
        refused(rename(&f.namespace, &target));
        refused(rename(&target, &f.namespace));
        refused(rename(&f.namespace, &elsewhere));
        let changes = CollMod { index: Some(hide.as_doc()), ..CollMod::default() };
        refused(f.store.coll_mod(&f.namespace, changes).map(|_| ()));
        refused(f.store.reindex(&f.namespace, BuildOptions::default()).map(|_| ()));
    });
    built.unwrap();
    assert_eq!(names(&f), "_id_ b a");
    f.check_valid();
    let dropped = build_with(&f, &[T], &|| {
        f.store.drop_collection(&f.namespace).unwrap();
        f.store.create_collection(&f.namespace, nagi_bson::Doc::EMPTY).unwrap();
    });
    assert_eq!(dropped.unwrap_err().code(), Code::INDEX_BUILD_ABORTED);
    assert_eq!(names(&f), "_id_");
}

#[test]
fn a_restart_drops_the_indexes_of_every_build_under_way() {
    for size in SIZES {
        let mut f = filled(size);
        f.index("{key: {t: -1}, name: 'there'}").unwrap();
        let restarted = Cell::new(None);
        let _ = build_with(&f, &[A], &|| {
            let _ = build_with(&f, &[B, T], &|| {
                assert_eq!(names(&f), "_id_ there a? b? t?");
                restarted.set(Some(f.take_over()));
            });
        });
        f.store = restarted.take().unwrap();
        assert_eq!(names(&f), "_id_ there");
        f.check_valid();
    }
}

#[test]
fn indexes_that_are_built_again_have_their_names_once() {
    let f = filled(SIZES[1]);
    f.index(A).unwrap();
    f.index(T).unwrap();
    let once = Cell::new(true);
    let progress = |_: &'static str, _: i64, _: i64| {
        if once.replace(false) {
            f.store
                .drop_indexes(&f.namespace, IndexSelector::Key(parse("{t: 1}").as_doc()))
                .unwrap();
            build_with(&f, &[B, T], &|| ()).unwrap();
            let ready =
                f.collection().ready_indexes().map(|i| i.name().to_owned()).collect::<Vec<_>>();
            assert_eq!(ready, ["_id_", "a", "b", "t"]);
            assert_eq!(f.collection().named_indexes().count(), 4);
        }
    };
    let options = BuildOptions { progress: Some(&progress), ..BuildOptions::default() };
    assert_eq!(f.store.reindex(&f.namespace, options).unwrap(), 4);
    assert!(!names(&f).contains('?'), "{}", names(&f));
    assert_eq!(f.collection().named_indexes().count(), 4);
    f.check_valid();
}

/// An index may be dropped, and its entries deleted, while it is read.
#[test]
fn an_index_that_is_dropped_while_it_is_validated_is_no_error() {
    let f = filled(SIZES[1]);
    f.index(A).unwrap();
    let before = f.collection();
    f.store.drop_indexes(&f.namespace, IndexSelector::Name("a")).unwrap();
    f.insert("{_id: 'new', a: 1}").unwrap();
    let report = f.store.validate(&before).unwrap();
    assert_eq!((report.errors, report.wrong_indexes), (vec![], vec![]));
    f.store.drop_collection(&f.namespace).unwrap();
}

/// Returns true if a step of the random test may fail with this error.
fn expected(error: &Error) -> bool {
    [
        Code::INDEX_BUILD_ABORTED,
        Code::DUPLICATE_KEY,
        Code::INDEX_NOT_FOUND,
        Code::BACKGROUND_OPERATION_IN_PROGRESS_FOR_NAMESPACE,
        Code::INDEX_OPTIONS_CONFLICT,
        Code::INTERRUPTED,
        Code::CANNOT_CONVERT_INDEX_TO_UNIQUE,
        Code::INVALID_OPTIONS,
        Code::CONFLICTING_OPERATION_IN_PROGRESS,
    ]
    .contains(&error.code())
}

fn administrate(f: &Fixture, random: &mut Random) -> Result<()> {
    let name = random.pick(&["a", "b", "t", "u", "p"]);
    let specs = [
        parse(A),
        parse(B),
        parse(T),
        parse("{key: {a: -1}, name: 'u', unique: true}"),
        parse("{key: {b: 1, a: 1}, name: 'p', partialFilterExpression: {b: {$gt: 2}}}"),
    ];
    let stop_at = match random.below(3) {
        0 => random.below(60) as usize,
        _ => usize::MAX,
    };
    let asked = AtomicUsize::new(0);
    let interrupt = || match asked.fetch_add(1, SeqCst) >= stop_at {
        true => nagi_error::bail!(Code::INTERRUPTED, "stopped"),
        false => Ok(()),
    };
    let options = BuildOptions { interrupt: Some(&interrupt), ..BuildOptions::default() };
    match random.below(10) {
        0 | 1 => f.store.drop_indexes(&f.namespace, IndexSelector::Name(name)).map(drop),
        2 => f.store.drop_indexes(&f.namespace, IndexSelector::Names(vec!["a", name])).map(drop),
        3 if random.below(4) == 0 => {
            f.store.drop_indexes(&f.namespace, IndexSelector::All).map(drop)
        }
        4 => {
            let change = parse(&format!(
                "{{name: '{name}', {}: true}}",
                random.pick(&["hidden", "prepareUnique", "unique"])
            ));
            let changes = CollMod { index: Some(change.as_doc()), ..CollMod::default() };
            f.store.coll_mod(&f.namespace, changes).map(drop)
        }
        5 if random.below(3) == 0 => f.store.reindex(&f.namespace, options).map(drop),
        _ => {
            let (one, two) = (random.below(5) as usize, random.below(5) as usize);
            let several = [specs[one].as_doc(), specs[two].as_doc()];
            let count = if one == two { 1 } else { 1 + random.below(2) as usize };
            let created = f.store.create_indexes(&f.namespace, &several[..count], options)?;
            assert!(created.after >= created.before);
            Ok(())
        }
    }
}

fn write(f: &Fixture, random: &mut Random) -> Result<()> {
    let id = random.below(2200) as i32;
    let action = random.below(4);
    let a =
        if random.below(20) == 0 { random.below(2000) } else { 10_000 + random.next() % (1 << 40) };
    let new = parse(&format!("{{_id: {id}, a: {a}, b: {}, t: [{}, 'x']}}", id % 7, id % 11));
    let written = f.store.write(WriteOptions::default(), &mut |txn| {
        let collection = txn.collection(&f.namespace).unwrap();
        let Some(record) = txn.reader().find_id(&collection, id.into())? else {
            return txn.insert(&collection, new.as_doc()).map(drop);
        };
        let mut buf = nagi_store::RecordBuf::default();
        let old = txn.reader().record(&collection, record.key(), &mut buf)?.unwrap().to_buf();
        match action {
            0 => txn.delete(&collection, record.key(), old.as_doc()),
            _ => txn.update(&collection, record.key(), old.as_doc(), new.as_doc()),
        }
    });
    written.map(drop)
}

/// Three threads create, drop and change indexes, two write, one validates; `NAGI_CASES` sets the number of rounds.
#[test]
fn builds_drops_failures_and_changes_beside_writers() {
    let rounds = std::env::var("NAGI_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(4_u64);
    for seed in 0..rounds {
        let [plain, clustered] = Fixture::each();
        let f = fill(if seed % 4 < 2 { plain } else { clustered }, SIZES[seed as usize % 2]);
        let done = Done::default();
        std::thread::scope(|scope| {
            let over = done.guard();
            for writer in 0..2 {
                let (f, done) = (&f, &done);
                scope.spawn(move || {
                    let mut random = Random::new(seed * 100 + writer);
                    while !done.is_over() {
                        if let Err(error) = write(f, &mut random) {
                            assert_eq!(error.code(), Code::DUPLICATE_KEY, "{error}");
                        }
                    }
                });
            }
            scope.spawn(|| {
                while !done.is_over() {
                    let collection = f.collection();
                    let report = f.store.validate(&collection).unwrap();
                    assert!(report.errors.is_empty(), "seed {seed}: {:?}", report.errors);
                    let mut ready: Vec<_> = collection.ready_indexes().map(|i| i.name()).collect();
                    let count = ready.len();
                    ready.sort_unstable();
                    ready.dedup();
                    assert_eq!(ready.len(), count, "seed {seed}: one name twice");
                }
            });
            let admins: Vec<_> = (0..3)
                .map(|admin| {
                    let f = &f;
                    scope.spawn(move || {
                        let mut random = Random::new(seed * 100 + 50 + admin);
                        for step in 0..25 {
                            if let Err(error) = administrate(f, &mut random) {
                                assert!(expected(&error), "seed {seed}, step {step}: {error}");
                            }
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = admins.into_iter().map(|admin| admin.join()).collect();
            drop(over);
            assert!(ended.iter().all(std::thread::Result::is_ok));
        });
        assert!(!names(&f).contains('?'), "seed {seed}: {}", names(&f));
        f.check_valid();
    }
}
