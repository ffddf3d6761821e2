//! The roles of the threads of a schedule. An operation may fail only with the errors that MongoDB returns.

use nagi_bson::{Doc, number};
use nagi_error::{Code, Error, Result};
use nagi_store::{
    BuildOptions, CollMod, Durability, IndexSelector, Lifetime, Rename, Transaction, WriteOptions,
};

use crate::{
    random::Random,
    world::{World, find, gone, parse},
};

pub(crate) struct Role {
    pub(crate) name: &'static str,
    /// True if documents or indexes of other threads may be gone afterwards.
    pub(crate) drops: bool,
    /// The number distinguishes the threads of one role.
    pub(crate) run: fn(&World, i32, &mut Random),
}

const fn row(name: &'static str, drops: bool, run: fn(&World, i32, &mut Random)) -> Role {
    Role { name, drops, run }
}

/// The most important roles are listed more than once.
pub(crate) const ROLES: &[Role] = &[
    row("build", false, build),
    row("build", false, build),
    row("build", false, build),
    row("write", false, write),
    row("write", false, write),
    row("drop-index", true, drop_index),
    row("change", false, change),
    row("reindex", false, reindex),
    // Meanwhile another thread may create a collection of that name.
    row("rename", true, rename),
    row("recreate", true, recreate),
    row("transfer", false, transfer),
    row("read", false, read),
];

/// Errors that are acceptable while other threads do DDL.
const REFUSALS: &[Code] = &[
    Code::INDEX_BUILD_ABORTED,
    Code::DUPLICATE_KEY,
    Code::INDEX_NOT_FOUND,
    Code::BACKGROUND_OPERATION_IN_PROGRESS_FOR_NAMESPACE,
    Code::INDEX_OPTIONS_CONFLICT,
    Code::INTERRUPTED,
    Code::CANNOT_CONVERT_INDEX_TO_UNIQUE,
    Code::INVALID_OPTIONS,
    Code::CONFLICTING_OPERATION_IN_PROGRESS,
    Code::NAMESPACE_NOT_FOUND,
    Code::NAMESPACE_EXISTS,
    Code::QUERY_PLAN_KILLED,
    Code::WRITE_CONFLICT,
    Code::SNAPSHOT_UNAVAILABLE,
    Code::NO_SUCH_TRANSACTION,
];

fn may_fail<T>(result: Result<T>) -> Option<T> {
    let in_order = |error: &Error| REFUSALS.contains(&error.code());
    result.inspect_err(|error| assert!(in_order(error), "{error}")).ok()
}

const NAMES: [&str; 5] = ["a", "t", "u", "p", "au"];

fn spec(name: &str) -> nagi_bson::DocBuf {
    parse(match name {
        "a" => "{key: {a: 1}, name: 'a'}",
        "t" => "{key: {t: 1}, name: 't'}",
        "u" => "{key: {u: 1}, name: 'u', unique: true}",
        "p" => "{key: {u: -1}, name: 'p', partialFilterExpression: {a: {$gt: 0}}}",
        // Fails if two documents have the same `a`.
        _ => "{key: {a: -1}, name: 'au', unique: true}",
    })
}

fn build(world: &World, _: i32, random: &mut Random) {
    for _ in 0..2 {
        let (one, two) = (random.pick(&NAMES), random.pick(&NAMES));
        let names = if one == two || random.below(2) == 0 { vec![one] } else { vec![one, two] };
        let specs: Vec<_> = names.iter().map(|name| spec(name)).collect();
        let specs: Vec<_> = specs.iter().map(|spec| spec.as_doc()).collect();
        let stop_at = if random.below(4) == 0 { random.below(12) } else { u64::MAX };
        let asked = std::cell::Cell::new(0);
        let interrupt = || {
            asked.set(asked.get() + 1);
            match asked.get() > stop_at {
                true => nagi_error::bail!(Code::INTERRUPTED, "stopped"),
                false => Ok(()),
            }
        };
        // Uses the current name of the collection: a missing collection would be created.
        let Some(collection) = world.collection() else { return };
        if world.store.collection(&collection.namespace).is_none() {
            continue;
        }
        let options = BuildOptions { interrupt: Some(&interrupt), ..BuildOptions::default() };
        let namespace = &world.name;
        if *namespace != collection.namespace {
            continue;
        }
        if may_fail(world.store.create_indexes(namespace, &specs, options)).is_some() {
            names.iter().for_each(|name| world.note_built(name));
        }
    }
}

fn write(world: &World, own: i32, random: &mut Random) {
    for step in 0..4 {
        let id = own * 10 + random.below(3) as i32;
        // Usually a value that no other document has.
        let u = match random.below(4) {
            0 => random.below(6) as i32 + 100,
            _ => 1000 * (own + 1) + step,
        };
        let done = match random.below(3) {
            0 => world.insert(id, u),
            1 => world.change(id, None).map(drop),
            _ => world.change(id, Some(u)).map(drop),
        };
        may_fail(done);
    }
}

fn drop_index(world: &World, _: i32, random: &mut Random) {
    for _ in 0..2 {
        let which = match random.below(4) {
            0 => IndexSelector::All,
            1 => IndexSelector::Names(vec![random.pick(&NAMES), "a"]),
            _ => IndexSelector::Name(random.pick(&NAMES)),
        };
        may_fail(world.store.drop_indexes(&world.name, which));
    }
}

fn change(world: &World, _: i32, random: &mut Random) {
    for option in ["hidden", "prepareUnique", "unique"] {
        let change = parse(&format!("{{name: '{}', {option}: true}}", random.pick(&NAMES)));
        let changes = CollMod { index: Some(change.as_doc()), ..CollMod::default() };
        may_fail(world.store.coll_mod(&world.name, changes));
    }
}

fn reindex(world: &World, _: i32, _: &mut Random) {
    may_fail(world.store.reindex(&world.name, BuildOptions::default()));
}

fn rename(world: &World, _: i32, _: &mut Random) {
    let go_on = || Ok(());
    for (from, to) in [(&world.name, &world.other), (&world.other, &world.name)] {
        // An index build may be in progress; then the name does not change.
        while let Err(error) = world.store.rename_collection(from, to, Rename::default(), &go_on) {
            let retried = [
                Code::BACKGROUND_OPERATION_IN_PROGRESS_FOR_NAMESPACE,
                Code::CONFLICTING_OPERATION_IN_PROGRESS,
            ];
            if !retried.contains(&error.code()) {
                assert!(REFUSALS.contains(&error.code()), "{error}");
                break;
            }
            shuttle::thread::yield_now();
        }
    }
}

fn recreate(world: &World, own: i32, _: &mut Random) {
    may_fail(world.store.drop_collection(&world.name));
    may_fail(world.store.create_collection(&world.name, Doc::EMPTY));
    may_fail(world.insert(own * 10 + 5, own));
}

/// Moves money between the accounts, in client transactions.
fn transfer(world: &World, _: i32, random: &mut Random) {
    for _ in 0..2 {
        let amount = random.below(20) as i64 - 10;
        let Some(txn) = may_fail(Transaction::begin(&world.store, Lifetime::Long)) else {
            continue;
        };
        let add = |id: i32, amount: i64| {
            txn.store().write(WriteOptions::default(), &mut |write| {
                let Some(bank) = write.collection(&world.bank) else { return Err(gone()) };
                let Some((record, old)) = find(write, &bank, id)? else { return Err(gone()) };
                let money = number::truncate_to_i64(old.get("m")).unwrap() + amount;
                let new = parse(&format!("{{_id: {id}, m: {money}}}"));
                write.update(&bank, record.key(), old.as_doc(), new.as_doc())
            })
        };
        let moved = add(1, -amount).and_then(|_| add(2, amount));
        if may_fail(moved).is_some() {
            may_fail(txn.commit(Durability::Buffered));
        }
    }
    let spec = parse("{key: {m: 1}, name: 'm'}");
    let options = BuildOptions::default();
    may_fail(world.store.create_indexes(&world.bank, &[spec.as_doc()], options));
}

fn read(world: &World, _: i32, _: &mut Random) {
    for _ in 0..2 {
        world.check_bank("read");
        if let Some(collection) = world.collection() {
            world.check_valid("read", &collection);
        }
    }
}
