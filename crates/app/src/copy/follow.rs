//! Applies the change log: documents in batches, and what happens to whole collections one after the other.
//!
//! A collection is known by its UUID at the source. Its name may be another one there already when its events are
//! applied, so what is read of it is read by UUID, and the state maps the UUID to the name that the target has reached.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nagi_bson::{Doc, DocBuf, doc};

use super::events::{self, Batch, Event};
use super::filter::Filter;
use super::link::{Link, NAMESPACE_NOT_FOUND, Result, Trouble, failed, operation_time};
use super::listing::{self, Kind, Listed, Ns, Uuid};
use super::progress::{Progress, note};
use super::state::{self, Entry, Phase, State};
use super::stream::{Events, Stream};
use super::{alter, base, token, write};

/// A request waits so long for an event.
const WAIT_MS: i64 = 500;
/// The token is stored at least so often, so that an idle copy stays within the log.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);
/// The target is near the source when it is at most so many seconds behind it.
const NEAR_SECONDS: u64 = 2;

/// When to stop following.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// A signal.
    Stopped,
    /// The target is near the source.
    Near,
    /// All changes up to a time are applied.
    Time(u64),
}

/// A copy that follows the source.
pub(super) struct Follower {
    pub(super) source: Link,
    pub(super) target: Link,
    pub(super) pairs: Vec<write::Pair>,
    pub(super) filter: Filter,
    pub(super) state: State,
    pub(super) stream: Stream,
    pub(super) progress: Progress,
    batch: Batch,
    /// Collections whose indexes or options have changed.
    altered: HashSet<Uuid>,
    saved: Instant,
}

impl Follower {
    pub(super) fn new(
        source: Link,
        target: Link,
        workers: usize,
        filter: Filter,
        state: State,
        progress: Progress,
    ) -> Result<Follower> {
        let stream = Stream::open(source.another(), state.token.clone())?;
        let pair = |_| write::Pair { source: source.another(), target: target.another() };
        let pairs = (0..workers).map(pair).collect();
        Ok(Follower {
            source,
            target,
            pairs,
            filter,
            state,
            stream,
            progress,
            batch: Batch::default(),
            altered: HashSet::new(),
            saved: Instant::now(),
        })
    }

    /// The time of the source's newest operation.
    pub(super) fn newest(&mut self) -> Result<u64> {
        Ok(operation_time(&self.source.run(&doc! { "ping": 1, "$db": "admin" })?))
    }

    /// Follows. Returns the number of changes that were applied.
    pub(super) fn follow(&mut self, until: Until) -> Result<u64> {
        let mut count = 0;
        loop {
            self.source.stop().check()?;
            let events = self.stream.next(WAIT_MS)?;
            let more = self.take(&events)?;
            count += more;
            let time = self.stream.time()?;
            let behind = token::seconds(events.newest).saturating_sub(token::seconds(time));
            let has_arrived = match until {
                Until::Stopped => false,
                Until::Near => behind <= NEAR_SECONDS,
                Until::Time(end) => time >= end,
            };
            if self.batch.is_full() || more == 0 || has_arrived {
                self.apply()?;
                self.state.token = self.stream.token.clone();
                if more > 0 || self.saved.elapsed() >= SAVE_INTERVAL {
                    self.save()?;
                }
            }
            if behind <= NEAR_SECONDS {
                self.align()?;
            }
            if has_arrived {
                self.save()?;
                return Ok(count);
            }
            self.progress.tick(Some(behind));
        }
    }

    fn save(&mut self) -> Result<()> {
        self.saved = Instant::now();
        self.state.save(&mut self.target)
    }

    /// Takes events into the batch. Returns how many of them concern what is copied.
    fn take(&mut self, events: &Events) -> Result<u64> {
        let mut count = 0;
        for doc in events.iter()? {
            let Some(event) = events::parse(doc) else {
                return failed(format!(
                    "the source has sent an event that this version does not know: {}",
                    doc.get("operationType").as_str().unwrap_or("?")
                ));
            };
            match event {
                Event::Write { uuid, id, change } => {
                    let time = events::time(doc);
                    if self.state.entries.get(&uuid).is_some_and(|e| time > e.skip_to) {
                        self.batch.add(uuid, id, change, time);
                        count += 1;
                    }
                }
                Event::Altered { uuid } => {
                    let known = uuid.filter(|uuid| self.state.entries.contains_key(uuid));
                    count += u64::from(known.is_some());
                    self.altered.extend(known);
                }
                Event::Other => {}
                structural => {
                    // What comes before it is applied under the names of before.
                    self.apply()?;
                    count += u64::from(self.structural(structural, doc)?);
                    self.state.token = doc.get("_id").as_doc().unwrap_or(Doc::EMPTY).to_buf();
                    self.save()?;
                }
            }
        }
        Ok(count)
    }

    /// Applies the batch.
    fn apply(&mut self) -> Result<()> {
        let (events, newest) = (self.batch.events, self.batch.newest);
        if events == 0 {
            return Ok(());
        }
        let writes = self.batch.take();
        write::apply(&mut self.pairs, &self.state.entries, writes, newest)?;
        self.progress.changes.fetch_add(events, Ordering::Relaxed);
        Ok(())
    }

    /// Applies what happened to a whole collection. Returns false if it is nothing that is copied.
    fn structural(&mut self, event: Event<'_>, doc: Doc<'_>) -> Result<bool> {
        match event {
            Event::Create { uuid: Some(uuid), ns } => self.created(uuid, &ns),
            Event::Drop { uuid: Some(uuid) } => self.dropped(&uuid),
            Event::Rename { uuid, to } => self.renamed(uuid, &to, events::time(doc)),
            _ => Ok(false),
        }
    }

    fn created(&mut self, uuid: Uuid, ns: &Ns) -> Result<bool> {
        if !self.filter.covers(&ns.db, &ns.name) {
            return Ok(false);
        }
        match self.state.entries.get(&uuid) {
            // An earlier run may have been killed before or after it was created.
            Some(entry) if entry.target == Uuid::default() => {
                self.dropped(&uuid)?;
            }
            Some(_) => return Ok(false),
            None => {}
        }
        let listed = self.at_source(&ns.db, &uuid)?;
        // One that does not exist any more needs no copy: an event of its end follows.
        let Some(listed) = listed else { return Ok(false) };
        self.free(ns)?;
        self.create(uuid, ns, &listed)?;
        self.altered.insert(uuid);
        Ok(true)
    }

    /// The collection with this UUID, as it is now.
    fn at_source(&mut self, db: &str, uuid: &Uuid) -> Result<Option<Listed>> {
        let listed = listing::of_database(&mut self.source, db)?;
        Ok(listed.into_iter().find(|listed| listed.uuid == *uuid))
    }

    /// Makes a name free in the target, if a collection that is copied has it.
    fn free(&mut self, ns: &Ns) -> Result<()> {
        match self.state.at(ns) {
            Some(uuid) => self.dropped(&uuid).map(drop),
            None => Ok(()),
        }
    }

    /// Creates a collection in the target and stores that it is copied: first without its UUID, so that the next run
    /// knows whose it is.
    pub(super) fn create(&mut self, uuid: Uuid, ns: &Ns, listed: &Listed) -> Result<()> {
        if listing::one(&mut self.target, ns)?.is_some() {
            return failed(format!(
                "the source has {ns} now, and the target has another {ns} that is not of this copy: drop or rename \
                 that one, and run the command again"
            ));
        }
        let mut entry =
            Entry { ns: ns.clone(), target: Uuid::default(), kind: listed.kind, skip_to: 0 };
        self.state.put(&mut self.target, uuid, entry.clone())?;
        listing::create(&mut self.target, ns, listed)?;
        let Some(made) = listing::one(&mut self.target, ns)? else {
            return failed(format!("{ns} has disappeared from the target"));
        };
        entry.target = made.uuid;
        self.state.put(&mut self.target, uuid, entry)
    }

    pub(super) fn dropped(&mut self, uuid: &Uuid) -> Result<bool> {
        let Some(entry) = self.state.entries.get(uuid) else { return Ok(false) };
        listing::drop_namespace(&mut self.target, &entry.ns.clone())?;
        self.altered.remove(uuid);
        self.state.remove(&mut self.target, uuid)?;
        Ok(true)
    }

    fn renamed(&mut self, uuid: Uuid, to: &Ns, time: u64) -> Result<bool> {
        let is_covered = self.filter.covers(&to.db, &to.name);
        let Some(entry) = self.state.entries.get(&uuid).cloned() else {
            // Its new name may replace a collection that is copied, and is copied itself if it was not before.
            if !is_covered {
                return Ok(false);
            }
            let listed = self.at_source(&to.db, &uuid)?;
            self.free(to)?;
            if let Some(listed) = listed {
                self.create(uuid, to, &listed)?;
                self.copy_all(uuid, time)?;
            }
            return Ok(true);
        };
        if !is_covered {
            return self.dropped(&uuid);
        }
        if entry.ns == *to {
            return Ok(false);
        }
        let replaced = self.state.at(to);
        let command = DocBuf::build(|out| {
            out.put("renameCollection", entry.ns.to_string().as_str());
            out.put("to", to.to_string().as_str());
            // What is not of this copy is not replaced.
            out.put("dropTarget", replaced.is_some());
            out.put("$db", "admin");
        });
        if let Err(trouble) = self.target.run(&command) {
            // A first attempt may have succeeded without an answer.
            let made = listing::one(&mut self.target, to)?;
            let has_moved = made.is_some_and(|made| made.uuid == entry.target);
            if trouble.code() != NAMESPACE_NOT_FOUND || !has_moved {
                return Err(trouble.during(&format!("rename {} to {to}", entry.ns)));
            }
        }
        if let Some(replaced) = replaced {
            self.state.remove(&mut self.target, &replaced)?;
        }
        self.state.put(&mut self.target, uuid, Entry { ns: to.clone(), ..entry })?;
        Ok(true)
    }

    /// Copies all documents of a collection that was not copied before, or whose order is not that of the source.
    pub(super) fn copy_all(&mut self, uuid: Uuid, since: u64) -> Result<()> {
        let Some(entry) = self.state.entries.get(&uuid) else { return Ok(()) };
        base::divide(&mut self.source, &mut self.target, uuid, entry)?;
        let workers = self.pairs.len();
        base::copy(
            &mut self.source,
            &mut self.target,
            &self.state,
            since,
            workers,
            &self.progress,
        )?;
        state::drop_ranges(&mut self.target)?;
        self.state.refresh_skips(&mut self.target)
    }

    /// Aligns the indexes and options of the collections whose events tell that they have changed.
    fn align(&mut self) -> Result<()> {
        if self.altered.is_empty() {
            return Ok(());
        }
        let altered = std::mem::take(&mut self.altered);
        let all = listing::all(&mut self.source, &self.filter)?;
        for listed in all.iter().filter(|listed| altered.contains(&listed.uuid)) {
            self.align_early(listed)?;
        }
        Ok(())
    }

    /// Aligns a collection whose documents may be older than its indexes: those that they do not allow are left for the
    /// end.
    pub(super) fn align_early(&mut self, listed: &Listed) -> Result<()> {
        match self.align_one(listed) {
            Err(Trouble::Refused { text, .. }) => {
                note(&format!("left for the end: {text}"));
                Ok(())
            }
            other => other,
        }
    }

    /// Aligns the indexes and options of one collection with what the source has now.
    pub(super) fn align_one(&mut self, listed: &Listed) -> Result<()> {
        let Some(entry) = self.state.entries.get(&listed.uuid) else { return Ok(()) };
        let ns = entry.ns.clone();
        if listed.kind.is_watched() {
            alter::options(&mut self.target, &ns, listed.options.as_doc())?;
        }
        alter::indexes(&mut self.source, &mut self.target, &listed.ns, &ns)
    }

    /// After a start: the names that an earlier run has reached in the target may not be those that it has stored.
    pub(super) fn find_names(&mut self) -> Result<()> {
        let databases: HashSet<String> =
            self.state.entries.values().map(|entry| entry.ns.db.clone()).collect();
        let mut present = Vec::new();
        for db in databases {
            present.extend(listing::of_database(&mut self.target, &db)?);
        }
        for (uuid, entry) in self.state.entries.clone() {
            match present.iter().find(|listed| listed.uuid == entry.target) {
                None if entry.target == Uuid::default() => {}
                None => self.state.remove(&mut self.target, &uuid)?,
                Some(listed) if listed.ns != entry.ns => {
                    let entry = Entry { ns: listed.ns.clone(), ..entry };
                    self.state.put(&mut self.target, uuid, entry)?;
                }
                Some(_) => {}
            }
        }
        if self.state.phase == Phase::Finishing {
            for entry in self.state.entries.clone().into_values() {
                alter::loosen(&mut self.target, &entry.ns)?;
            }
            self.state.phase = Phase::Following;
            self.save()?;
        }
        Ok(())
    }

    /// The copied collections that change streams do not tell of.
    pub(super) fn unwatched(&self) -> Vec<(Uuid, Entry)> {
        let of = |entry: &Entry| matches!(entry.kind, Kind::Series | Kind::Unwatched);
        let entries = self.state.entries.iter().filter(|(_, entry)| of(entry));
        entries.map(|(uuid, entry)| (*uuid, entry.clone())).collect()
    }
}
