//! Runs the store on the memory engine under a scheduler driven by a seed: index builds, DDL, writers, transactions
//! and cursors in many interleavings.
//!
//!   cargo test -p nagi-store --features shuttle --test schedules
//!
//! `NAGI_SCHEDULES` sets the number of schedules, `NAGI_SEED` the first seed. A failure prints its seed, and
//! `NAGI_SEED=n NAGI_SCHEDULES=1` repeats it: the seed also determines the operations.
#![allow(clippy::unwrap_used)] // helpers of tests may

#[path = "../it/history.rs"]
mod history;
#[allow(dead_code)]
#[path = "../it/random.rs"]
mod random;
mod roles;
mod stalling;
mod world;

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use shuttle::{
    Config, FailurePersistence, MaxSteps, Runner,
    scheduler::{PctScheduler, RandomScheduler},
};

use history::{Act, Log};
use nagi_bson::{Doc, doc};
use nagi_kv::{Active, Engine, Memory};
use nagi_store::{Rename, Store, StoreOptions, WriteOptions, WriteTxn};
use random::Random;
use roles::{ROLES, Role};
use stalling::Stalling;
use world::World;

const SCHEDULES: u64 = 300;
/// Stack size of a schedule's thread, as for a thread of the server.
const STACK_BYTES: usize = 1 << 20;
/// Steps after which a schedule counts as endless.
const STEPS_MAX: usize = 2_000_000;
/// Runs of a schedule with thread priorities: the first one measures its length.
const PRIORITY_RUNS: usize = 3;
/// Priority changes per run.
const PRIORITY_CHANGES: usize = 4;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `scenario` once for each seed.
fn explore(name: &str, scenario: fn(u64)) {
    let first = number("NAGI_SEED", 1);
    for seed in first..first + number("NAGI_SCHEDULES", SCHEDULES) {
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        config.failure_persistence = FailurePersistence::None;
        config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
        let run = move || scenario(seed);
        // Random scheduling finds likely interleavings; the other two find those in which threads must stall for
        // long.
        let result = catch_unwind(AssertUnwindSafe(|| match seed % 3 {
            0 => {
                let scheduler = PctScheduler::new_from_seed(seed, PRIORITY_CHANGES, PRIORITY_RUNS);
                Runner::new(scheduler, config).run(run);
            }
            1 => {
                Runner::new(Stalling::new_from_seed(seed), config).run(run);
            }
            _ => {
                Runner::new(RandomScheduler::new_from_seed(seed, 1), config).run(run);
            }
        }));
        if let Err(panic) = result {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("{name}: failed with NAGI_SEED={seed} NAGI_SCHEDULES=1\n").as_bytes(),
            );
            resume_unwind(panic);
        }
    }
}

/// Three or four threads, each in a random role.
fn scenario(seed: u64) {
    let mut random = Random::new(seed);
    let world = Arc::new(World::new(&mut random));
    let count = 3 + random.below(2) as usize;
    let roles: Vec<&Role> =
        (0..count).map(|_| &ROLES[random.below(ROLES.len() as u64) as usize]).collect();
    let threads: Vec<_> = roles
        .iter()
        .enumerate()
        .map(|(at, role)| {
            let (world, run) = (Arc::clone(&world), role.run);
            let mut random = Random::new(seed * 31 + at as u64);
            shuttle::thread::spawn(move || run(&world, at as i32, &mut random))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let names: Vec<_> = roles.iter().map(|role| role.name).collect();
    world.check(&names.join(" "), roles.iter().any(|role| role.drops));
}

#[test]
fn builds_ddl_writers_transactions_and_cursors() {
    explore("all roles", scenario);
}

/// Two threads insert the same ascending ids: each id is inserted once.
#[test]
fn of_two_who_insert_one_id_one_does() {
    explore("rising ids", |seed| {
        let world = Arc::new(World::new(&mut Random::new(seed)));
        let insert = |world: &World| {
            (200..203).filter(|id| world.insert(*id, 1000 + *id).is_ok()).count() as i64
        };
        let before = world.collection().unwrap().count();
        let other = {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || insert(&world))
        };
        let inserted = insert(&world) + other.join().unwrap();
        assert_eq!(inserted, 3, "each id once");
        assert_eq!(world.collection().unwrap().count(), before + 3);
        world.check("inserts", false);
    });
}

/// Runs `threads` on a store with a change log and two collections. The log's entries must then produce the stored
/// state.
fn logged(threads: Vec<Box<dyn FnOnce(&Store) + Send>>) {
    let engine: Arc<dyn Engine> = Arc::new(Memory::new());
    let options = StoreOptions { change_log: Some(Arc::new(Log)), ..StoreOptions::default() };
    let store = Store::open(Arc::clone(&engine), options).unwrap();
    for name in ["a", "x"] {
        store.create_collection(&history::named(name), Doc::EMPTY).unwrap();
    }
    let spawn = |act: Box<dyn FnOnce(&Store) + Send>| {
        let store = store.for_client();
        shuttle::thread::spawn(move || act(&store))
    };
    let threads: Vec<_> = threads.into_iter().map(spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut world = history::World::new();
    let entries = history::entries(&*engine);
    entries.iter().for_each(|(_, entry)| history::apply(&mut world, entry.as_doc()));
    assert_eq!(history::seen(&store).unwrap(), world);
}

/// A writer, a transaction and name changes: the change log agrees with the stored state.
#[test]
fn the_change_log_says_what_happened() {
    const ACTS: [(Act, u64); 3] =
        [(history::write, 6), (history::change_catalog, 5), (history::transact, 2)];
    explore("change log", |seed| {
        let thread = |(number, &(act, count)): (u64, &'static (Act, u64))| {
            let mut random = Random::new(seed * 10 + number);
            Box::new(move |store: &Store| {
                (0..count).for_each(|_| drop(act(store, &mut random)));
            }) as Box<dyn FnOnce(&Store) + Send>
        };
        logged((0..).zip(&ACTS).take(2 + seed as usize % 2).map(thread).collect());
    });
}

/// Short enough that a thread may stall at any point of a write until the names have changed.
#[test]
fn a_write_beside_a_change_of_names_is_where_its_entry_says() {
    explore("a write and a change of names", |seed| {
        let write = move |store: &Store| {
            let doc = doc! { "_id": (seed as i64) };
            let insert = &mut |txn: &mut WriteTxn<'_>| match txn.collection(&history::named("a")) {
                Some(collection) => txn.insert(&collection, doc.as_doc()).map(drop),
                None => Ok(()),
            };
            let _ = store.write(WriteOptions::default(), insert);
        };
        let change = move |store: &Store| {
            let (from, how) =
                (history::named("a"), Rename { drop_target: true, ..Rename::default() });
            let changed = match seed / 3 % 3 {
                0 => store.drop_collection(&from).map(drop),
                1 => store.rename_collection(&from, &history::named("b"), how, &|| Ok(())),
                _ => store.rename_collection(&history::named("x"), &from, how, &|| Ok(())),
            };
            changed.unwrap();
        };
        logged(vec![Box::new(write), Box::new(change)]);
    });
}

/// A ticket that moves to another slot is always visible to a thread that searches for the oldest one.
#[test]
fn a_ticket_that_is_handed_on_keeps_its_stamp() {
    explore("tickets", |_| {
        let active = Arc::new(Active::new(5));
        let before = active.enter();
        let kept = active.enter();
        // A free slot before the ticket's own: the searching thread reaches it first.
        active.leave(&before);
        active.publish(9);
        let handing_on = Arc::clone(&active);
        let thread = shuttle::thread::spawn(move || {
            let next = handing_on.enter_at(kept.stamp());
            handing_on.leave(&kept);
            next
        });
        assert_eq!(active.oldest(), 5);
        active.leave(&thread.join().unwrap());
        assert_eq!((active.oldest(), active.ticket_count()), (9, 0));
    });
}
