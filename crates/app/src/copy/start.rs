//! The beginning of a copy, and the continuation of one that was interrupted.
//!
//! The list of collections must be that of the time from which the change log is followed: an event that the list
//! already shows would otherwise be taken for a later one. So the list is read behind the beginning of the stream, and
//! again if the stream has events of collections until the list was complete.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nagi_bson::{Array, DocBuf, doc};

use super::events::{self, Event};
use super::filter::{Filter, OWN_DB};
use super::link::{Link, Result, failed, operation_time};
use super::listing::{self, Kind, Listed, Ns, Uuid, drop_namespace, stored};
use super::progress::{Progress, note};
use super::state::{self, Entry, Phase, State};
use super::stream::Stream;
use super::{base, token};

/// The attempts to list collections while none is created, renamed or dropped.
const LISTINGS_MAX: usize = 20;
const WAIT_MS: i64 = 200;
/// The begin of the names of connections.
const APP_NAME: &str = "nagi copy ";
/// How long requests of a process that was killed may be executed.
const OTHERS_END: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);

/// The state of the copy into the target, with all collections created: that of an earlier run, or a new one.
pub(super) fn begin(
    source: &mut Link,
    target: &mut Link,
    run: &str,
    filter: &Filter,
    progress: &Progress,
) -> Result<State> {
    let name = source_name(source)?;
    let earlier = state::load(target, run, &name, filter)?;
    match &earlier {
        Some(state) => {
            wait_for_others(target, run)?;
            state.take_over(target)?;
        }
        None => drop(State::begin(target, run, &name, filter)?),
    }
    refuse_itself(source, target, run)?;
    match earlier {
        Some(state) if state.phase != Phase::Listing => {
            note("continues an earlier copy");
            return Ok(state);
        }
        Some(state) => undo(target, &state)?,
        None => {}
    }
    let mut state = State::begin(target, run, &name, filter)?;
    match make(source, target, &mut state, filter, progress) {
        Ok(()) => Ok(state),
        Err(trouble) => {
            // If this fails too, the next run does it.
            drop(undo(target, &state));
            Err(trouble)
        }
    }
}

/// Removes the collections that were created, which have no documents yet, and the state.
fn undo(target: &mut Link, state: &State) -> Result<()> {
    for entry in state.entries.values() {
        if base::count(target, &stored(&entry.ns, entry.kind))? > 0 {
            return failed(format!(
                "{} in the target has documents, and an unfinished copy would drop it: rename it, or drop the \
                 database {OWN_DB}",
                entry.ns
            ));
        }
        drop_namespace(target, &entry.ns)?;
    }
    listing::drop_own(target)
}

/// Waits until no other process has a connection to the target for a copy: what one that was killed has sent may still
/// be executed, and would replace newer documents. Fails if another process goes on.
fn wait_for_others(target: &mut Link, run: &str) -> Result<()> {
    let end = Instant::now() + OTHERS_END;
    let own = app_name(run);
    loop {
        let command = doc! { "currentOp": 1, "$all": true, "$ownOps": true, "$db": "admin" };
        let reply = target.run(&command)?;
        let list = reply.get("inprog").as_array().unwrap_or(Array::EMPTY);
        let other = list.iter().filter_map(|operation| operation.as_doc()).find(|operation| {
            let name = operation.get("appName").as_str().unwrap_or("");
            name.starts_with(APP_NAME) && name != own
        });
        let Some(other) = other else { return Ok(()) };
        if Instant::now() > end {
            let client = other.get("client").as_str().unwrap_or("another machine");
            return failed(format!("another nagi copy writes to the target, from {client}"));
        }
        target.stop().pause(POLL)?;
    }
}

/// The name of this process's connections.
pub(super) fn app_name(run: &str) -> String {
    format!("{APP_NAME}{run}")
}

/// What identifies the source in the state: its replica set, or its kind.
fn source_name(source: &mut Link) -> Result<String> {
    let hello = source.greeting()?;
    match (hello.get("setName").as_str(), hello.get("msg").as_str()) {
        (Some(set), _) => Ok(format!("replica set {set}")),
        (None, Some(router)) => Ok(router.to_owned()),
        // The stream explains that it has no log.
        (None, None) => Ok("standalone".to_owned()),
    }
}

/// Fails if the state that was just written to the target is at the source too: by any of its servers.
fn refuse_itself(source: &mut Link, target: &mut Link, run: &str) -> Result<()> {
    let find = doc! { "find": "state", "filter": { "run": run }, "$db": OWN_DB };
    match source.list(&find)?.is_empty() {
        true => Ok(()),
        false => {
            listing::drop_own(target)?;
            failed("the source and the target are the same deployment")
        }
    }
}

/// Creates the collections.
fn make(
    source: &mut Link,
    target: &mut Link,
    state: &mut State,
    filter: &Filter,
    progress: &Progress,
) -> Result<()> {
    let (listed, token) = list(source, filter)?;
    refuse_present(target, &listed)?;
    let collections: Vec<&Listed> = listed.iter().filter(|l| l.kind != Kind::View).collect();
    for listed in &collections {
        let ns = listed.ns.clone();
        let entry = Entry { ns, target: Uuid::default(), kind: listed.kind, skip_to: 0 };
        state.put(target, listed.uuid, entry)?;
        listing::create(target, &listed.ns, listed)?;
    }
    let databases: HashSet<&str> = collections.iter().map(|l| l.ns.db.as_str()).collect();
    let mut made = Vec::new();
    for db in databases {
        made.extend(listing::of_database(target, db)?);
    }
    let mut expected = 0;
    for (uuid, mut entry) in state.entries.clone() {
        let Some(made) = made.iter().find(|made| made.ns == entry.ns) else {
            return failed(format!("{} has disappeared from the target", entry.ns));
        };
        entry.target = made.uuid;
        expected += base::divide(source, target, uuid, &entry)?;
        state.put(target, uuid, entry)?;
    }
    progress.expected.store(expected.unsigned_abs(), Ordering::Relaxed);
    note(&format!("{} collections with about {expected} documents", collections.len()));
    state.token = token;
    state.phase = Phase::Base;
    state.save(target)
}

/// The collections, and the token of a stream that begins when they were these.
fn list(source: &mut Link, filter: &Filter) -> Result<(Vec<Listed>, DocBuf)> {
    for _ in 0..LISTINGS_MAX {
        let mut stream = Stream::open(source.another(), DocBuf::new())?;
        let begin = stream.token.clone();
        let mut listed = listing::all(source, filter)?;
        let end = operation_time(&source.run(&doc! { "ping": 1, "$db": "admin" })?);
        let mut has_changed = false;
        while stream.time()? < end && !has_changed {
            source.stop().check()?;
            let events = stream.next(WAIT_MS)?;
            let mut parsed = events.iter()?.map(events::parse);
            has_changed = parsed.any(|event| {
                matches!(
                    event,
                    Some(Event::Create { .. } | Event::Drop { .. } | Event::Rename { .. })
                )
            });
        }
        if !has_changed {
            listed.retain(|listed| filter.covers(&listed.ns.db, &listed.ns.name));
            debug_assert!(token::time(begin.as_doc()).is_some(), "the stream's time was read");
            return Ok((listed, begin));
        }
    }
    failed(
        "collections of the source are created, renamed or dropped all the time: the copy cannot begin",
    )
}

/// Refuses a target that has one of the names.
fn refuse_present(target: &mut Link, listed: &[Listed]) -> Result<()> {
    let databases: HashSet<&str> = listed.iter().map(|listed| listed.ns.db.as_str()).collect();
    for db in databases {
        let present: HashSet<Ns> =
            listing::of_database(target, db)?.into_iter().map(|listed| listed.ns).collect();
        if let Some(listed) = listed.iter().find(|listed| present.contains(&listed.ns)) {
            return failed(format!(
                "the target has {} already: drop it, or leave it out with --exclude",
                listed.ns
            ));
        }
    }
    Ok(())
}
