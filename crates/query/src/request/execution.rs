//! An execution: an opened plan with everything it needs, owned, so that it can wait for its next
//! getMore in the server's cursor table.
//!
//!   open -> batch, batch, ...         within one request
//!        -> save -> (parked) -> batch  the next request; cursors are opened again where they were
//!
//! Between requests it holds no snapshot. A getMore therefore sees later writes, as MongoDB's does.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::{Code, Result, err};
use nagi_lang::expr::{LetVars, System, Vars};
use nagi_store::{Arrivals, Collection, Index, RecordId, Snapshot, Store};

use crate::{
    access::QuerySettings,
    limits::DOC_BYTES_MAX,
    plan::{self, Planned, describe},
    source::{Cx, Env, ExecutionStats, Interrupt, Source, plan_root, sum_stats},
};

/// What the receiver of a batch did with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// Took it, wants more.
    More,
    /// Took it, the batch is full.
    Last,
    /// Did not take it, the batch is full. It comes first in the next batch.
    Refused,
}

/// Which kind of request it serves; decides the prefix of run-time errors.
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
    /// What it reads; checked to be still there when it continues.
    reads: Vec<(Arc<Collection>, Vec<String>)>,
    /// A document that a receiver refused.
    refused: Option<Vec<u8>>,
    summary: String,
    saved: bool,
    done: bool,
    blocking_sort: bool,
    planned: Planned,
    tailable: bool,
    wants_token: bool,
    /// The record looked at last, for a resume token.
    position: Option<RecordId>,
    /// [`Index::multikey_changes`] when it was planned, or continued last.
    noted: u64,
    /// The plan, if it is all of the execution and its stages shall be described.
    shown: Option<Arc<plan::Node>>,
}

/// How an execution is made.
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
    /// [`Index::multikey_changes`] before it was planned.
    pub(crate) noted: u64,
    /// The plan, if its stages shall be described.
    pub(crate) shown: Option<Arc<plan::Node>>,
}

impl Execution {
    pub(crate) fn new(parts: Parts) -> Execution {
        Execution {
            store: parts.store,
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
        }
    }

    /// Hands out documents until the receiver has enough or there are no more. True if there may be
    /// more; false once it is exhausted.
    ///
    /// # Errors
    /// Run-time errors of the plan with MongoDB's prefix, the interrupt's, the receiver's, and 175 if
    /// what it reads was dropped meanwhile.
    pub fn batch(
        &mut self,
        interrupt: &dyn Interrupt,
        take: &mut dyn FnMut(Doc<'_>) -> Result<Take>,
    ) -> Result<bool> {
        if let Some(bytes) = self.refused.take() {
            let answer = take(Doc::trusted(&bytes))?;
            if answer != Take::Refused {
                note(self.wants_token, &mut *self.root, &mut self.position);
            }
            match answer {
                Take::More => {}
                Take::Last => return Ok(!self.done),
                Take::Refused => {
                    self.refused = Some(bytes);
                    return Ok(true);
                }
            }
        }
        if self.done {
            return Ok(false);
        }
        let more = self.pull(interrupt, take);
        let more = more.map_err(|error| self.explain_error(error))?;
        // What was dropped meanwhile may have been read in part.
        check_still_there(&self.store, &self.reads)?;
        self.done = !more && self.refused.is_none();
        Ok(more)
    }

    fn pull(
        &mut self,
        interrupt: &dyn Interrupt,
        take: &mut dyn FnMut(Doc<'_>) -> Result<Take>,
    ) -> Result<bool> {
        let snapshot = match &self.snapshot {
            Some(snapshot) => snapshot.clone(),
            None => {
                check_still_there(&self.store, &self.reads)?;
                self.store.snapshot()?
            }
        };
        let values = self.lets.values();
        let env = Env::new(interrupt, self.now_ms)
            .with_system(self.system.clone())
            .with_settings(self.settings.clone());
        let vars = Vars::with_system(&values, env.system())
            .with_scripts(interrupt.scripts())
            .with_pace(&env);
        // The next batch draws other random numbers.
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
        loop {
            if !self.root.advance(&mut cx)? {
                note(self.wants_token, &mut *self.root, &mut self.position);
                return Ok(self.tailable && !self.root.is_at_end());
            }
            check_size(self.root.doc())?;
            match take(self.root.doc())? {
                Take::More => note(self.wants_token, &mut *self.root, &mut self.position),
                Take::Last => {
                    note(self.wants_token, &mut *self.root, &mut self.position);
                    break;
                }
                Take::Refused => {
                    self.refused = Some(self.root.doc().as_bytes().to_vec());
                    return Ok(true);
                }
            }
        }
        if self.purpose == Purpose::Find {
            return Ok(!self.root.is_at_end());
        }
        // A pipeline is requested one more, so that a full last batch closes the cursor.
        if self.root.advance(&mut cx)? {
            self.refused = Some(self.root.doc().as_bytes().to_vec());
            return Ok(true);
        }
        Ok(false)
    }

    /// Where a later `find` with `$_resumeAfter` may continue: behind the record that was looked at last.
    pub fn resume_token(&self) -> Option<DocBuf> {
        let id = self.position.as_ref().map_or(Value::Null, |id| id.key().value());
        self.wants_token.then(|| DocBuf::build(|w| w.put("$recordId", id)))
    }

    /// What tells of documents behind the end that a tailable cursor waits at.
    pub fn arrivals(&self) -> Option<Arc<Arrivals>> {
        let (collection, _) = self.reads.first().filter(|_| self.tailable)?;
        Some(Arc::clone(collection.arrivals()))
    }

    /// Lets go of the snapshot and of all cursors. The next `batch` takes the position up again.
    pub fn save(&mut self) {
        if self.snapshot.take().is_some() {
            self.root.save();
            self.saved = true;
        }
    }

    /// The log's `planSummary`, such as `IXSCAN { a: 1 }`.
    pub fn plan_summary(&self) -> &str {
        &self.summary
    }

    /// The stages and what they did so far, as explain shows them; none if they were not wanted when it began.
    pub fn stages(&mut self) -> Option<DocBuf> {
        let node = self.shown.clone()?;
        Some(DocBuf::build(|out| match plan_root(&mut *self.root) {
            Some(plan) => describe::write_node(&node, Some(plan), out),
            None => describe::write_node(&node, Some(&mut *self.root), out),
        }))
    }

    /// What was looked at so far.
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

/// Keeps the place of the scan, if a token is wanted.
fn note(wanted: bool, root: &mut dyn Source, position: &mut Option<RecordId>) {
    if wanted {
        *position = root.position().or(position.take());
    }
}

/// Collections with the names of their indexes that a plan walks.
pub(crate) type Reads = [(Arc<Collection>, Vec<String>)];

/// Fails if a collection or an index that is being read does not exist any more.
pub(crate) fn check_still_there(store: &Store, reads: &Reads) -> Result<()> {
    for (collection, indexes) in reads {
        let now = store.collection(&collection.namespace);
        let Some(now) = now.filter(|now| now.uuid == collection.uuid) else {
            return Err(err!(
                Code::QUERY_PLAN_KILLED,
                "collection dropped. UUID {}",
                collection.uuid
            ));
        };
        // One that was built again under its name is another index.
        let is_gone = |name: &&String| {
            let (then, now_there) = (collection.index(name), now.index(name));
            now_there.map(|index| now.build_uuid(index))
                != then.map(|index| collection.build_uuid(index))
        };
        if let Some(gone) = indexes.iter().find(is_gone) {
            return Err(err!(
                Code::QUERY_PLAN_KILLED,
                "query plan killed :: index '{gone}' dropped"
            ));
        }
    }
    Ok(())
}

/// A pipeline may make documents larger than a client can take.
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
