//! An execution: an opened plan that owns everything it needs, so that it can wait in the server's cursor table for
//! its next getMore.
//!
//!   open -> batch, batch, ...          within one request
//!        -> save -> (parked) -> batch  in the next request, whose first `batch` reopens the engine's cursors
//!
//! Between requests it holds no snapshot. So a getMore sees later writes, as in MongoDB.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::{Code, Result, err};
use nagi_lang::expr::{LetVars, System, Vars};
use nagi_store::{Arrivals, Collection, Index, RecordId, Snapshot, Store};

use crate::{
    access::QuerySettings,
    change_stream::StreamState,
    limits::DOC_BYTES_MAX,
    plan::{self, Planned, describe},
    request::running_stream::RunningStream,
    source::{
        Answer, Cx, Env, ExecutionStats, Interrupt, ParallelBatch, Receiver, Room, Source,
        plan_root, sum_stats,
    },
};

/// The receiver's answer to a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// The document was taken; more are wanted.
    More,
    /// The document was taken; the batch is full.
    Last,
    /// The document was taken; there is no space for another one like it. Unlike [`Take::Last`], no further document
    /// is read to find out if there is one.
    Full,
    /// The document was not taken, because the batch is full. It comes first in the next batch.
    Refused,
}

/// The kind of request, which determines the prefix of run-time errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Find,
    Aggregate,
}

/// A running find or aggregate.
pub struct Execution {
    store: Arc<Store>,
    root: Box<dyn Source>,
    snapshot: Option<Snapshot>,
    lets: LetVars,
    now_ms: i64,
    system: System,
    settings: Option<Arc<QuerySettings>>,
    purpose: Purpose,
    /// The collections and indexes that it reads. When it continues, they must still exist.
    reads: Vec<(Arc<Collection>, Vec<String>)>,
    /// A document that the receiver refused.
    refused: Option<Vec<u8>>,
    summary: String,
    saved: bool,
    done: bool,
    blocking_sort: bool,
    planned: Planned,
    tailable: bool,
    wants_token: bool,
    /// The last examined record, for a resume token.
    position: Option<RecordId>,
    /// [`Index::multikey_changes`] when it was planned or last continued.
    noted: u64,
    /// The plan, if it is all of the execution and its stages are to be described.
    shown: Option<Arc<plan::Node>>,
    parallel: Option<ParallelBatch>,
    stream: Option<RunningStream>,
    /// It shows only what is durable.
    durable: bool,
}

/// The parts of a new execution.
pub(crate) struct Parts {
    pub(crate) store: Arc<Store>,
    pub(crate) root: Box<dyn Source>,
    pub(crate) snapshot: Snapshot,
    pub(crate) lets: LetVars,
    pub(crate) now_ms: i64,
    pub(crate) system: System,
    pub(crate) settings: Option<Arc<QuerySettings>>,
    pub(crate) purpose: Purpose,
    pub(crate) reads: Vec<(Arc<Collection>, Vec<String>)>,
    pub(crate) summary: String,
    pub(crate) blocking_sort: bool,
    pub(crate) planned: Planned,
    pub(crate) tailable: bool,
    pub(crate) wants_token: bool,
    /// [`Index::multikey_changes`] from before it was planned.
    pub(crate) noted: u64,
    /// The plan, if its stages are to be described.
    pub(crate) shown: Option<Arc<plan::Node>>,
    pub(crate) stream: Option<Arc<StreamState>>,
}

impl Execution {
    pub(crate) fn new(parts: Parts) -> Execution {
        Execution {
            store: parts.store,
            parallel: ParallelBatch::of(&*parts.root),
            root: parts.root,
            snapshot: Some(parts.snapshot),
            lets: parts.lets,
            now_ms: parts.now_ms,
            system: parts.system,
            settings: parts.settings,
            purpose: parts.purpose,
            reads: parts.reads,
            refused: None,
            summary: parts.summary,
            saved: false,
            done: false,
            blocking_sort: parts.blocking_sort,
            planned: parts.planned,
            tailable: parts.tailable,
            wants_token: parts.wants_token,
            position: None,
            noted: parts.noted,
            shown: parts.shown,
            stream: parts.stream.map(RunningStream::new),
            durable: false,
        }
    }

    /// Of the change log it shows only what a crash cannot undo any more: readers that copy it must not be ahead of it.
    /// Each batch then waits for the sync of what was committed before it. Other collections are read as ever.
    pub fn show_durable_log(&mut self) {
        let of_log = |reads: &Collection| reads.is_change_log() || reads.is_pre_images();
        self.durable = self.reads.iter().any(|(collection, _)| of_log(collection));
    }

    /// As [`Execution::batch_of`], for a receiver that takes all documents.
    ///
    /// # Errors
    /// Those of `batch_of`.
    pub fn batch(
        &mut self,
        interrupt: &dyn Interrupt,
        take: &mut dyn FnMut(Doc<'_>) -> Result<Take>,
    ) -> Result<bool> {
        self.batch_of(interrupt, Room::ALL, take)
    }

    /// Delivers documents until the receiver has enough or there are no more. Returns true if there may be more,
    /// and false once it is exhausted. `room` is what the receiver will probably take; more would be read without need.
    ///
    /// # Errors
    /// Run-time errors of the plan with MongoDB's prefix, errors of the interrupt and the receiver, and 175 if a
    /// collection or index that it reads was dropped in the meantime.
    pub fn batch_of(
        &mut self,
        interrupt: &dyn Interrupt,
        room: Room,
        take: &mut dyn FnMut(Doc<'_>) -> Result<Take>,
    ) -> Result<bool> {
        if let Some(bytes) = self.refused.take() {
            let answer = take(Doc::trusted(&bytes))?;
            if answer != Take::Refused {
                note(self.wants_token, &mut *self.root, &mut self.position);
                self.stream.iter_mut().for_each(|stream| stream.note(Doc::trusted(&bytes)));
            }
            match answer {
                Take::More => {}
                Take::Last | Take::Full => return Ok(!self.done),
                Take::Refused => {
                    self.refused = Some(bytes);
                    return Ok(true);
                }
            }
        }
        if self.done {
            return Ok(false);
        }
        let more = self.pull(interrupt, room, take);
        let more = more.map_err(|error| self.explain_error(error))?;
        // A collection or index that was dropped in the meantime may have been read in part.
        plan::check_still_there(&self.store, &self.reads)?;
        self.done = !more && self.refused.is_none();
        Ok(more)
    }

    fn snapshot_of_batch(&self) -> Result<Snapshot> {
        let snapshot = match &self.snapshot {
            Some(snapshot) => snapshot.clone(),
            None => {
                plan::check_still_there(&self.store, &self.reads)?;
                self.store.snapshot()?
            }
        };
        if let Some(newest) = snapshot.reader().stamp().filter(|_| self.durable) {
            self.store.sync_commits(newest)?;
        }
        Ok(snapshot)
    }

    fn pull(
        &mut self,
        interrupt: &dyn Interrupt,
        room: Room,
        take: &mut dyn FnMut(Doc<'_>) -> Result<Take>,
    ) -> Result<bool> {
        let snapshot = self.snapshot_of_batch()?;
        let values = self.lets.values();
        let env = Env::new(interrupt, self.now_ms)
            .with_system(self.system.clone())
            .with_settings(self.settings.clone());
        let vars = Vars::with_system(&values, env.system())
            .with_scripts(interrupt.scripts())
            .with_pace(&env);
        // The next batch uses other random numbers.
        self.system.seed = self.system.seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let mut cx = Cx { store: &self.store, reader: snapshot.reader(), vars: &vars, env: &env };
        if std::mem::take(&mut self.saved) {
            let now = Index::multikey_changes();
            if now != self.noted {
                self.root.doubt_keys(self.noted, false)?;
                self.noted = now;
            }
            self.root.restore(&mut cx)?;
        }
        self.snapshot = Some(snapshot.clone());
        let (refused, is_full) = (RefCell::new(None), Cell::new(false));
        let mut take = |doc: Doc<'_>| offer(doc, take, (&refused, &is_full));
        let mut receiver = Receiver::new(room, &mut take);
        if let Some(parallel) = &mut self.parallel {
            parallel.begin(&env);
        }
        loop {
            let advanced = match (self.root.advance(&mut cx), &mut self.parallel) {
                (Err(_), Some(parallel)) if env.is_exhausted() => {
                    match parallel.run(&mut *self.root, &mut receiver, &mut cx)? {
                        Answer::More => continue,
                        Answer::Full => break,
                    }
                }
                (advanced, _) => advanced?,
            };
            if !advanced {
                note(self.wants_token, &mut *self.root, &mut self.position);
                return Ok(self.tailable && !self.has_ended());
            }
            let answer = receiver.put(self.root.doc())?;
            if refused.borrow().is_none() {
                note(self.wants_token, &mut *self.root, &mut self.position);
                self.stream.iter_mut().for_each(|stream| stream.note(self.root.doc()));
            }
            if answer == Answer::Full {
                break;
            }
        }
        if let Some(parallel) = &mut self.parallel {
            parallel.end(&receiver, &env);
        }
        env.set_budget(None);
        self.refused = refused.into_inner();
        if self.refused.is_some() {
            return Ok(true);
        }
        if self.purpose == Purpose::Find || self.stream.is_some() || is_full.get() {
            return Ok(!self.has_ended());
        }
        // A pipeline is advanced once more, so that a full last batch closes the cursor.
        if self.root.advance(&mut cx)? {
            self.refused = Some(self.root.doc().as_bytes().to_vec());
            return Ok(true);
        }
        Ok(false)
    }

    fn has_ended(&self) -> bool {
        match &self.stream {
            Some(stream) => stream.has_ended(),
            None => self.root.is_at_end(),
        }
    }

    /// The position at which a later `find` with `$_resumeAfter` can continue: after the last examined record.
    /// For a change stream, the token of the place up to which it has delivered all events.
    pub fn resume_token(&self) -> Option<DocBuf> {
        if let Some(stream) = &self.stream {
            return Some(stream.token());
        }
        let id = self.position.as_ref().map_or(Value::Null, |id| id.key().value());
        self.wants_token.then(|| DocBuf::build(|w| w.put("$recordId", id)))
    }

    /// The notifier of documents beyond the end at which a tailable cursor waits.
    pub fn arrivals(&self) -> Option<Arc<Arrivals>> {
        if let Some(stream) = &self.stream {
            return Some(stream.arrivals());
        }
        let (collection, _) = self.reads.first().filter(|_| self.tailable)?;
        Some(Arc::clone(collection.arrivals()))
    }

    /// Releases the snapshot and all cursors of the engine. The next `batch` restores the position.
    pub fn save(&mut self) {
        if self.snapshot.take().is_some() {
            self.root.save();
            self.saved = true;
        }
    }

    /// True for a change stream.
    pub fn is_change_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// The log's `planSummary`, such as `IXSCAN { a: 1 }`.
    pub fn plan_summary(&self) -> &str {
        &self.summary
    }

    /// The stages and their counters so far, as explain shows them; none if they were not requested when it was
    /// opened.
    pub fn stages(&mut self) -> Option<DocBuf> {
        let node = self.shown.clone()?;
        Some(DocBuf::build(|out| match plan_root(&mut *self.root) {
            Some(plan) => describe::write_node(&node, Some(plan), out),
            None => describe::write_node(&node, Some(&mut *self.root), out),
        }))
    }

    /// The counters of examined keys and documents so far.
    pub fn stats(&mut self) -> ExecutionStats {
        let mut stats = ExecutionStats {
            has_sort_stage: self.blocking_sort,
            ..ExecutionStats::of(self.planned)
        };
        sum_stats(&mut *self.root, &mut stats);
        stats
    }

    fn explain_error(&self, error: nagi_error::Error) -> nagi_error::Error {
        match self.purpose {
            Purpose::Find => match self.reads.first() {
                Some((collection, _)) => error.context(&format!(
                    "Executor error during find command: {} :: caused by :: ",
                    collection.namespace
                )),
                None => error,
            },
            Purpose::Aggregate => {
                error.context("PlanExecutor error during aggregation :: caused by :: ")
            }
        }
    }
}

/// Offers a document to the receiver; keeps it in `refused` if it is not taken. `is_full`: no other one is wanted.
fn offer(
    doc: Doc<'_>,
    take: &mut dyn FnMut(Doc<'_>) -> Result<Take>,
    (refused, is_full): (&RefCell<Option<Vec<u8>>>, &Cell<bool>),
) -> Result<Answer> {
    check_size(doc)?;
    match take(doc)? {
        Take::More => return Ok(Answer::More),
        Take::Last => {}
        Take::Full => is_full.set(true),
        Take::Refused => *refused.borrow_mut() = Some(doc.as_bytes().to_vec()),
    }
    Ok(Answer::Full)
}

/// Stores the position of the scan, if a token is wanted.
fn note(wanted: bool, root: &mut dyn Source, position: &mut Option<RecordId>) {
    if wanted {
        *position = root.position().or(position.take());
    }
}

/// A pipeline may build documents larger than a client accepts.
fn check_size(doc: Doc<'_>) -> Result<()> {
    let max = DOC_BYTES_MAX + (16 << 10);
    if doc.len() > max {
        return Err(err!(
            Code::BSON_OBJECT_TOO_LARGE,
            "BSONObj size: {} (0x{:X}) is invalid. Size must be between 0 and {max}(16MB)",
            doc.len(),
            doc.len()
        ));
    }
    Ok(())
}
