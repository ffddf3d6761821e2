//! Builds from sorted keys (bulk builds) with concurrent writers.

use std::cell::{Cell, RefCell};

use nagi_bson::DocBuf;
use nagi_error::Result;
use nagi_kv::Space;
use nagi_store::{BuildOptions, IndexSelector, WriteOptions};

use crate::{
    random::Random,
    support::{Done, Fixture, error, parse},
};

/// Memory limit of a build: small enough that a few thousand keys make many runs and groups of runs.
const LITTLE: u64 = 64 << 10;

const SCAN: &str = "Index Build: scanning collection";
const LOAD: &str = "Index Build: inserting keys from external sorter into index";
const DRAIN: &str = "Index Build: draining writes received during build";

/// Specifications of every kind of index.
fn specs() -> Vec<DocBuf> {
    [
        "{key: {a: 1}, name: 'single'}",
        "{key: {a: -1, 'o.b': 1}, name: 'compound', sparse: true}",
        "{key: {t: 1, a: -1}, name: 'multikey'}",
        "{key: {a: 1, _id: -1}, name: 'unique', unique: true}",
        "{key: {s: 1}, name: 'partial', partialFilterExpression: {a: {$gt: 3}}}",
        "{key: {s: 'hashed'}, name: 'hashed'}",
        "{key: {'$**': 1}, name: 'wildcard'}",
        "{key: {s: 'text', words: 'text'}, name: 'text'}",
        "{key: {p: '2d'}, name: 'plane'}",
        "{key: {p: '2dsphere', a: 1}, name: 'sphere'}",
        "{key: {s: 1}, name: 'collated', collation: {locale: 'de', strength: 1}}",
    ]
    .map(parse)
    .into()
}

fn document(id: i32, random: &mut Random) -> DocBuf {
    let (a, b) = (random.below(9), random.below(1000));
    let tail = match random.below(4) {
        0 => format!("t: [1, {b}, 'x'], o: {{b: {b}}}"),
        1 => format!("t: ['x', [{b}]], o: [{{b: 1}}, {{b: 2.5}}]"),
        2 => format!("t: {b}.5"),
        _ => "t: []".to_owned(),
    };
    parse(&format!(
        "{{_id: {id}, a: {a}, s: 'Wort {b}', words: ['und', 'run {b}'], p: [{a}, {a}.25], {tail}}}"
    ))
}

fn filled(count: i32) -> Fixture {
    fill(Fixture::new(), count)
}

fn fill(f: Fixture, count: i32) -> Fixture {
    let mut random = Random::new(7);
    for from in (0..count).step_by(500) {
        let collection = f.collection();
        let docs: Vec<_> =
            (from..count.min(from + 500)).map(|id| document(id, &mut random)).collect();
        let insert = |txn: &mut nagi_store::WriteTxn<'_>| {
            docs.iter().try_for_each(|doc| txn.insert(&collection, doc.as_doc()).map(drop))
        };
        f.store.write(WriteOptions::default(), &mut { insert }).unwrap();
    }
    f
}

fn build(f: &Fixture, specs: &[DocBuf], options: BuildOptions<'_>) -> Result<()> {
    let specs: Vec<_> = specs.iter().map(DocBuf::as_doc).collect();
    f.store.create_indexes(&f.namespace, &specs, options).map(drop)
}

/// Number of stored index entries.
fn stored(f: &Fixture) -> usize {
    let mut cursor = f.engine.latest().cursor(Space::Index, &[], &[]).unwrap();
    let (mut count, mut found) = (0, cursor.seek(&[]).unwrap());
    while found {
        count += 1;
        found = cursor.next().unwrap();
    }
    count
}

/// Number of sorts that have data on disk.
fn spills(f: &Fixture) -> u64 {
    f.store.spill_figures().open
}

fn write_one(f: &Fixture, random: &mut Random) {
    let id = random.below(2000) as i32;
    let action = random.below(3);
    let new = document(id, random);
    f.store
        .write(WriteOptions::default(), &mut |txn| {
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
        })
        .unwrap();
}

/// `validate` compares every index with the records, entry by entry, in both directions.
#[test]
fn all_kinds_are_whole_in_little_memory() {
    let f = filled(2000);
    let phases = RefCell::new(Vec::new());
    let progress = |phase: &'static str, done: i64, total: i64| {
        assert!((0..=total).contains(&done), "{phase}: {done} of {total}");
        if phases.borrow().last() != Some(&phase) {
            phases.borrow_mut().push(phase);
        }
    };
    let options = BuildOptions {
        memory_bytes: Some(LITTLE),
        progress: Some(&progress),
        ..BuildOptions::default()
    };
    build(&f, &specs(), options).unwrap();
    f.check_valid();
    assert_eq!(phases.into_inner(), [SCAN, LOAD], "nobody wrote: nothing was to be drained");
    let figures = f.store.spill_figures();
    assert!(figures.runs > 10, "keys were spilled: {figures:?}");
    assert_eq!(figures.open, 0, "runs are gone");
    // The memory of any build, the keys of eleven indexes, and one step of the charge.
    let pool = f.store.budget().pool(nagi_budget::Pool::IndexBuilds);
    assert!(pool.used == 0 && pool.peak <= (16 << 20) + 11 * LITTLE, "{pool:?}");
    assert!(f.collection().indexes.iter().all(|index| index.ready));
    for (name, is_multikey) in [("single", false), ("multikey", true), ("wildcard", true)] {
        assert_eq!(f.collection().index(name).unwrap().is_multikey(), is_multikey, "{name}");
    }
    // The result is the same as that of a build with enough memory for all keys.
    let again = filled(2000);
    build(&again, &specs(), BuildOptions::default()).unwrap();
    for spec in ["single", "compound", "multikey", "unique", "hashed", "wildcard", "collated"] {
        assert_eq!(f.ids(spec), again.ids(spec), "{spec}");
    }
}

/// A large number of runs is merged in groups, and a key larger than the sort buffer gets a run of its own.
#[test]
fn runs_are_merged_in_groups() {
    let f = Fixture::new();
    let long = "x".repeat(60_000);
    for from in 0..20 {
        let collection = f.collection();
        let insert = |txn: &mut nagi_store::WriteTxn<'_>| {
            (0..100).try_for_each(|n| {
                let id = from * 100 + n;
                let doc = match n {
                    0 => parse(&format!("{{_id: {id}, a: '{long}{id}'}}")),
                    _ => parse(&format!("{{_id: {id}, a: {}, pad: 1}}", (id * 7919) % 2003)),
                };
                txn.insert(&collection, doc.as_doc()).map(drop)
            })
        };
        f.store.write(WriteOptions::default(), &mut { insert }).unwrap();
    }
    let options = BuildOptions { memory_bytes: Some(1), ..BuildOptions::default() };
    build(&f, &[parse("{key: {a: 1}, name: 'a'}")], options).unwrap();
    f.check_valid();
    assert_eq!(spills(&f), 0);
}

#[test]
fn writers_go_on_while_keys_are_sorted() {
    for seed in 0..2 {
        let [plain, clustered] = Fixture::each();
        let f = fill(if seed % 2 == 0 { plain } else { clustered }, 1500);
        let done = Done::default();
        let drained = Cell::new(0);
        let progress = |phase: &'static str, done: i64, _: i64| {
            if phase == DRAIN {
                drained.set(done);
            }
        };
        std::thread::scope(|scope| {
            let over = done.guard();
            for writer in 0..3 {
                let (f, done) = (&f, &done);
                scope.spawn(move || {
                    let mut random = Random::new(seed * 10 + writer);
                    // Bounded, because the logged changes have to be drained.
                    for _ in 0..1000 {
                        if !done.is_over() {
                            write_one(f, &mut random);
                        }
                    }
                });
            }
            let options = BuildOptions {
                memory_bytes: Some(LITTLE << (4 * seed)),
                progress: Some(&progress),
                ..BuildOptions::default()
            };
            let (first, second) = (&specs()[..6], &specs()[6..]);
            build(&f, if seed == 0 { first } else { second }, options).unwrap();
            drop(over);
        });
        f.check_valid();
        assert!(f.collection().indexes.iter().all(|index| index.ready));
        assert!(drained.get() > 0, "writers were there during the build");
        assert_eq!(spills(&f), 0);
    }
}

/// Builds a unique index; runs `act` once when the build is in this phase.
fn build_unique(f: &Fixture, at: &str, act: &dyn Fn()) -> String {
    let once = Cell::new(true);
    let progress = |phase: &'static str, _: i64, _: i64| {
        if phase == at && once.replace(false) {
            act();
        }
    };
    let options = BuildOptions { progress: Some(&progress), ..BuildOptions::default() };
    let result = build(f, &[parse("{key: {u: 1}, name: 'u', unique: true}")], options);
    assert!(!once.get(), "the build was never there");
    error(result)
}

fn numbered(count: i32) -> Fixture {
    let f = Fixture::new();
    (0..count).for_each(|id| {
        f.insert(&format!("{{_id: {id}, u: {id}}}")).unwrap();
    });
    f
}

fn change(f: &Fixture, id: i32, new: Option<i32>) {
    let collection = f.collection();
    f.store
        .write(WriteOptions::default(), &mut |txn| {
            let record = txn.reader().find_id(&collection, id.into())?.unwrap();
            let mut buf = nagi_store::RecordBuf::default();
            let old = txn.reader().record(&collection, record.key(), &mut buf)?.unwrap().to_buf();
            match new {
                None => txn.delete(&collection, record.key(), old.as_doc()),
                Some(u) => {
                    let new = parse(&format!("{{_id: {id}, u: {u}}}"));
                    txn.update(&collection, record.key(), old.as_doc(), new.as_doc())
                }
            }
        })
        .unwrap();
}

#[test]
fn a_duplicate_that_arises_in_any_phase_fails_the_build() {
    for phase in [SCAN, LOAD] {
        let f = numbered(1500);
        let built = build_unique(&f, phase, &|| {
            f.insert("{_id: 'twin', u: 5}").unwrap();
        });
        let expected = "E11000 duplicate key error collection: d.c index: u dup key: { u: 5 }";
        assert!(built.starts_with("11000: ") && built.ends_with(expected), "{phase}: {built}");
        assert_eq!((f.collection().indexes.len(), f.collection().count()), (1, 1501));
        f.check_valid();
    }
}

#[test]
fn duplicates_of_a_moment_fail_nothing() {
    for phase in [SCAN, LOAD] {
        let f = numbered(1500);
        let built = build_unique(&f, phase, &|| {
            // Both are deleted, the older is deleted, the newer is deleted.
            f.insert("{_id: 2001, u: 5}").unwrap();
            change(&f, 5, None);
            change(&f, 2001, None);
            f.insert("{_id: 2002, u: 6}").unwrap();
            change(&f, 6, None);
            f.insert("{_id: 2003, u: 7}").unwrap();
            change(&f, 2003, None);
            // Two documents swap their values.
            change(&f, 8, Some(-1));
            change(&f, 9, Some(8));
            change(&f, 8, Some(9));
        });
        assert_eq!(built, "ok", "{phase}");
        f.check_valid();
        assert_eq!(
            f.ids("u").split(' ').take(9).collect::<Vec<_>>().join(" "),
            "0 1 2 3 4 2002 7 9 8"
        );
        assert!(error(f.insert("{_id: 3000, u: 6}")).starts_with("11000"));
        f.insert("{_id: 3000, u: 5}").unwrap();
    }
}

/// Each record passes its key to the next one: the scan sees many keys twice that two records never had at the same
/// time.
#[test]
fn keys_that_many_records_pass_on_are_no_duplicates() {
    let f = numbered(1500);
    let built = build_unique(&f, LOAD, &|| {
        (0..1500).rev().for_each(|id| change(&f, id, Some(id + 1)));
    });
    assert_eq!(built, "ok");
    f.check_valid();
}

#[test]
fn duplicates_that_are_there_are_found() {
    let f = numbered(1500);
    // More duplicates than a build defers to its end.
    for from in 0..30 {
        let collection = f.collection();
        let insert = |txn: &mut nagi_store::WriteTxn<'_>| {
            (0..500).try_for_each(|n| {
                let doc = parse(&format!("{{_id: {}, u: 'same'}}", 2000 + from * 500 + n));
                txn.insert(&collection, doc.as_doc()).map(drop)
            })
        };
        f.store.write(WriteOptions::default(), &mut { insert }).unwrap();
    }
    let failed = error(f.index("{key: {u: 1}, name: 'u', unique: true}"));
    let text = "E11000 duplicate key error collection: d.c index: u dup key: { u: \"same\" }";
    assert!(failed.starts_with("11000: ") && failed.ends_with(text), "{failed}");
    assert_eq!(f.collection().indexes.len(), 1);
    // A small number of duplicates is checked at the end, and may have disappeared by then.
    let f = numbered(1500);
    f.insert("{_id: 'twin', u: 3}").unwrap();
    assert!(error(f.index("{key: {u: 1}, name: 'u', unique: true}")).ends_with("{ u: 3 }"));
    assert_eq!(build_unique(&f, LOAD, &|| change(&f, 3, None)), "ok");
    f.check_valid();
}

/// A build that fails in any phase, for any reason, leaves neither entries nor runs.
#[test]
fn an_ended_build_leaves_nothing() {
    type End = fn(&Fixture);
    let ends: [(&str, i32, End); 3] = [
        ("dropIndexes", 276, |f| {
            f.store.drop_indexes(&f.namespace, IndexSelector::All).unwrap();
        }),
        ("drop", 276, |f| {
            f.store.drop_collection(&f.namespace).unwrap();
        }),
        ("killOp", 11601, |_| {}),
    ];
    for (name, code, end) in ends {
        for phase in [SCAN, LOAD, DRAIN] {
            let mut f = filled(1200);
            let before = stored(&f);
            let (once, killed) = (Cell::new(true), Cell::new(false));
            let progress = |at: &'static str, _: i64, _: i64| {
                if at == LOAD {
                    // So that the log has something to drain.
                    f.insert(&format!("{{a: 1, t: [1, {}]}}", stored(&f))).unwrap();
                }
                if at == phase && once.replace(false) {
                    end(&f);
                    killed.set(name == "killOp");
                }
            };
            let interrupt = || match killed.get() {
                true => nagi_error::bail!(nagi_error::Code::INTERRUPTED, "stopped"),
                false => Ok(()),
            };
            let options = BuildOptions {
                memory_bytes: Some(LITTLE),
                progress: Some(&progress),
                interrupt: Some(&interrupt),
                ..BuildOptions::default()
            };
            let specs = [
                parse("{key: {t: 1, a: -1}, name: 'multikey'}"),
                parse("{key: {a: 1, _id: 1}, name: 'unique', unique: true}"),
            ];
            let failed = build(&f, &specs, options).unwrap_err();
            assert_eq!(failed.code().0, code, "{name} in {phase}: {failed}");
            assert!(!once.get(), "{name}: never in {phase}");
            // Background deletions finish when the store is closed.
            let documents = f.store.collection(&f.namespace).map_or(0, |c| c.count());
            assert_eq!(spills(&f), 0, "{name} in {phase}");
            f.reopen();
            let expected = if documents == 0 { 0 } else { before + documents as usize - 1200 };
            assert_eq!(stored(&f), expected, "{name} in {phase}");
        }
    }
}

/// The state left by a crash: the index published, half of its keys loaded, changes logged, runs on disk.
#[test]
fn a_crash_in_any_phase_leaves_nothing() {
    for phase in [SCAN, LOAD, DRAIN] {
        let f = filled(1200);
        let crashed = RefCell::new(None);
        let progress = |at: &'static str, done: i64, _: i64| {
            if at == LOAD {
                f.insert("{a: 1, t: [1, 2, 3]}").unwrap();
            }
            if at == phase && (done > 0 || phase == SCAN) && crashed.borrow().is_none() {
                // A copy of the data as the next start would find it.
                let engine = crate::engine();
                for space in [Space::Catalog, Space::Records, Space::Index, Space::Counters] {
                    let mut cursor = f.engine.latest().cursor(space, &[], &[]).unwrap();
                    let mut found = cursor.seek(&[]).unwrap();
                    let load = |key: &mut Vec<u8>, value: &mut Vec<u8>| {
                        key.clear();
                        value.clear();
                        // The lease of the node that crashed has ended, be it of the data or of a seat.
                        while found && space == Space::Catalog && [9, 11].contains(&cursor.key()[0])
                        {
                            found = cursor.next()?;
                        }
                        if found {
                            key.extend_from_slice(cursor.key());
                            value.extend_from_slice(cursor.value());
                            found = cursor.next()?;
                            return Ok(true);
                        }
                        Ok(false)
                    };
                    engine.load(space, &mut { load }).unwrap();
                }
                *crashed.borrow_mut() = Some((engine, f.collection().count()));
            }
        };
        let options = BuildOptions { progress: Some(&progress), ..BuildOptions::default() };
        build(&f, &[parse("{key: {t: 1}, name: 't'}")], options).unwrap();
        let (engine, count) = crashed.into_inner().expect("it was there");
        let options = crate::options();
        let store = nagi_store::Store::open(std::sync::Arc::clone(&engine), options).unwrap();
        let mut f = Fixture { engine, store, namespace: f.namespace.clone() };
        assert_eq!(f.collection().indexes.len(), 1, "{phase}");
        f.reopen();
        assert_eq!(stored(&f), count as usize, "{phase}: only the entries of _id");
        f.check_valid();
        f.index("{key: {t: 1}, name: 't'}").unwrap();
        f.check_valid();
    }
}
