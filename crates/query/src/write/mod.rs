//! Write statements: insert, update, delete, findAndModify.
//!
//! A statement that changes at most one document runs in one transaction: plan, find, change. After a conflict all
//! of it is repeated.
//!
//! A multi-document statement works in two phases:
//!
//! ```text
//!   find     collects the ids of all matching records, so that it never meets its own changes
//!   change   in chunks, each a transaction: reads every record again, leaves out those that no longer match
//! ```
//!
//! So large updates need bounded memory, other writers are not blocked for long, and after an error the chunks
//! before it stay committed.

mod delete;
mod find_and_modify;
mod insert;
mod run;
mod update;

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_error::{Code, Error, Result, bail};
use nagi_lang::{
    collation::{Asked, Collation},
    expr::{LetVars, MetaSet, ParseCx},
    filter::{Allowed, Filter, MatchInfo},
    sort::SortSpec,
    update::UpdateCx,
};
use nagi_store::{
    Collection, Durability, KeysWritten, Namespace, RecordBuf, RecordId, RecordKey, Store,
    WriteOptions, WriteTxn,
};

use self::run::{Run, on_collection};
use crate::{
    plan::{self, FindSpec, Hint, find::parse_sort},
    source::{Cx, Env, carry},
};

pub(crate) use delete::prepare as prepare_delete;
pub use delete::{DeleteStatement, delete};
pub use find_and_modify::{FindAndModifyRequest, FoundAndModified, find_and_modify};
pub use insert::{InsertOutcome, InsertStatement, insert, prepare_target, try_insert};
pub(crate) use update::prepare as prepare_update;
pub use update::{UpdateOutcome, UpdateStatement, update};

/// Records changed in one transaction of a multi-document statement.
const CHUNK_RECORDS: usize = 500;
/// Staged bytes after which a chunk is committed.
const CHUNK_BYTES: usize = 8 << 20;

/// Runs a single-document statement. It is repeated if its collection is dropped or renamed between the catalog
/// lookup and the write, so that it takes effect either before or after that.
fn ordered<T>(env: &Env<'_>, one: bool, mut statement: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match statement() {
            Err(error) if one && error.code() == Code::QUERY_PLAN_KILLED => {
                env.interrupt().check()?;
            }
            done => return done,
        }
    }
}

/// Returns true if an error ends the whole command instead of one statement: the operation is cancelled, or its
/// transaction is over.
pub fn ends_command(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::INTERRUPTED
            | Code::INTERRUPTED_AT_SHUTDOWN
            | Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE
            | Code::MAX_TIME_MS_EXPIRED
            | Code::CURSOR_KILLED
            | Code::WRITE_CONFLICT
            | Code::LOCK_TIMEOUT
            | Code::SNAPSHOT_TOO_OLD
            | Code::SNAPSHOT_UNAVAILABLE
            | Code::NO_SUCH_TRANSACTION
            | Code::TRANSACTION_TOO_LARGE_FOR_CACHE
            | Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION
    )
}

/// Looks up the collection; refuses views. None if it does not exist.
fn target(store: &Store, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
    let collection = store.collection(namespace);
    if collection.as_ref().is_some_and(|c| c.is_view()) {
        bail!(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {namespace} is a view, not a collection"
        );
    }
    Ok(collection)
}

/// The parsed parts that all statements have in common.
pub(crate) struct Selection<'a> {
    pub(crate) filter: Arc<Filter>,
    pub(crate) sort: Option<Arc<SortSpec>>,
    pub(crate) hint: Option<Hint<'a>>,
    pub(crate) lets: LetVars,
    pub(crate) collation: Option<&'static Collation>,
    /// Metadata that found documents must carry.
    pub(crate) metas: MetaSet,
}

/// The collation of a statement: the one it names, or else the collection's. Errors for views differ.
pub(crate) fn collation_of(
    store: &Store,
    namespace: &Namespace,
    asked: Asked,
) -> Option<&'static Collation> {
    match asked {
        Asked::Given(collation) => collation,
        Asked::Inherited => store.collection(namespace).and_then(|c| c.options.collation),
    }
}

impl<'a> Selection<'a> {
    pub(crate) fn parse(
        filter: Doc<'_>,
        sort: Doc<'_>,
        hint: Option<Hint<'a>>,
        let_vars: Doc<'_>,
        collation: Option<&'static Collation>,
        env: &Env<'_>,
    ) -> Result<Selection<'a>> {
        let lets = LetVars::parse(let_vars, env.now_ms(), collation)?;
        let mut cx = ParseCx::with_let(lets.names())
            .collated(collation)
            .with_scripts(env.scripts().is_some());
        let filter = Filter::parse_with(filter, &mut cx, Allowed::WITH_NEAR)?;
        let filter = Arc::new(filter.normalize());
        let sort = parse_sort(sort, collation, filter.metas())?;
        let metas = sort.as_ref().map_or(MetaSet::NONE, |sort| sort.metas());
        Ok(Selection { filter, sort, hint, lets, collation, metas })
    }

    pub(crate) fn spec(&self, collection: Option<Arc<Collection>>, one: bool) -> FindSpec<'a> {
        FindSpec {
            sort: self.sort.clone(),
            hint: self.hint,
            limit: one.then_some(1),
            metas: self.metas,
            ..FindSpec::new(collection, self.filter.clone())
        }
    }
}

impl Run<'_> {
    /// The first document that matches, as `txn` sees it: its id, and its bytes, with its
    /// metadata, in `found`.
    fn first(&self, txn: &WriteTxn<'_>, found: &mut Vec<u8>) -> Result<Option<RecordId>> {
        let Run { ref collection, vars, env, .. } = *self;
        // Before it is read: a request that waits for memory holds none.
        env.changing(collection.mean_bytes())?;
        let mut cx = Cx { store: txn.store(), reader: txn.reader(), vars, env };
        let spec = self.selection.spec(Some(collection.clone()), true);
        let mut plan = plan::plan(&spec, &mut cx)?;
        let mut source = plan.start_top(env);
        let more = source.advance(&mut cx);
        env.note_run(&plan, &mut *source);
        if !more? {
            return Ok(None);
        }
        env.changing(source.doc().len())?;
        found.clear();
        carry(&*source, found);
        Ok(source.record_id().map(RecordKey::to_id))
    }

    /// The ids of all records that match now.
    fn all(&self) -> Result<Vec<RecordId>> {
        let Run { store, ref collection, vars, env, .. } = *self;
        let snapshot = store.snapshot()?;
        let mut cx = Cx { store, reader: snapshot.reader(), vars, env };
        let spec = self.selection.spec(Some(collection.clone()), false);
        let spec = FindSpec { needed: Some(Vec::new()), ..spec };
        let mut plan = plan::plan(&spec, &mut cx)?;
        let mut source = plan.start_top(env);
        let mut ids = Vec::new();
        let mut more = source.advance(&mut cx);
        while matches!(more, Ok(true)) {
            ids.extend(source.record_id().map(RecordKey::to_id));
            more = source.advance(&mut cx);
        }
        env.note_run(&plan, &mut *source);
        more.map(|_| ids)
    }

    /// How `doc` matches, if it does.
    fn matching(&self, doc: Doc<'_>, arena: &Bump) -> Result<Option<MatchInfo>> {
        let cx = nagi_lang::filter::MatchCx::new(self.vars, arena, self.env.now_ms());
        self.selection.filter.matches_with_position(doc, &cx)
    }

    /// What updates evaluate in.
    fn update_cx<'a>(
        &'a self,
        arena: &'a Bump,
        next_timestamp: &'a dyn Fn() -> u64,
    ) -> UpdateCx<'a> {
        let cx = UpdateCx::new(self.vars, arena, self.env.now_ms(), next_timestamp);
        UpdateCx { keep_empty_timestamps: self.how.keep_empty_timestamps, ..cx }
    }
}

/// Options for the writes and commits of a statement.
#[derive(Clone, Copy)]
struct How {
    durability: Durability,
    bypass_validation: bool,
    keep_empty_timestamps: bool,
}

/// Runs a transaction of a statement, and repeats it after conflicts.
fn with_txn<T>(
    store: &Store,
    how: How,
    env: &Env<'_>,
    f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
) -> Result<T> {
    let check = || env.interrupt().check();
    let options = WriteOptions {
        durability: how.durability,
        interrupt: Some(&check),
        bypass_validation: how.bypass_validation,
        keep_empty_timestamps: how.keep_empty_timestamps,
    };
    let mut attempts = 0;
    let mut keys = KeysWritten::default();
    let done = store.write(options, &mut |txn| {
        if attempts > 0 {
            env.note_attempt(true, KeysWritten::default());
        }
        attempts += 1;
        let done = f(txn);
        keys = txn.keys_written();
        done
    });
    env.note_attempt(false, if done.is_ok() { keys } else { KeysWritten::default() });
    done.map(|written| written.value)
}

/// The effect of a change on one record.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    matched: u64,
    modified: u64,
}

/// Changes many records, in chunks of one transaction each. `looked_before` is the number of documents that the
/// request had examined before these were found. `change` gets one record's id and bytes; its errors end the
/// statement, but earlier chunks stay committed.
fn in_chunks(
    run: &Run<'_>,
    (ids, looked_before): (&[RecordId], u64),
    change: &mut dyn FnMut(&mut WriteTxn<'_>, RecordKey<'_>, Doc<'_>) -> Result<Tally>,
) -> Result<Tally> {
    let Run { store, collection, how, env, .. } = run;
    let mut rest = ids;
    let mut read = 0;
    let mut total = Tally::default();
    let (mut doc, mut buf) = (Vec::new(), RecordBuf::default());
    while !rest.is_empty() {
        env.note_yield();
        let (done, tally, error) = with_txn(store, *how, env, &mut |txn| {
            let (mut done, mut bytes, mut tally) = (0, 0, Tally::default());
            for id in rest.iter().take(CHUNK_RECORDS) {
                env.interrupt().check()?;
                done += 1;
                doc.clear();
                env.changing(collection.mean_bytes())?;
                match txn.reader().record(collection, id.key(), &mut buf)? {
                    Some(found) => {
                        env.changing(found.len())?;
                        doc.extend_from_slice(found.as_bytes());
                    }
                    None => continue,
                }
                match txn.attempt(|txn| change(txn, id.key(), Doc::trusted(&doc))) {
                    Ok(one) => {
                        tally.matched += one.matched;
                        tally.modified += one.modified;
                    }
                    Err(error) if error.code() == Code::WRITE_CONFLICT => return Err(error),
                    Err(error) => return Ok((done, tally, Some(error))),
                }
                bytes += doc.len();
                if bytes > CHUNK_BYTES {
                    break;
                }
            }
            Ok((done, tally, None::<Error>))
        })?;
        total.matched += tally.matched;
        total.modified += tally.modified;
        read += done as u64;
        env.note_reread(looked_before, read);
        if let Some(error) = error {
            return Err(error);
        }
        rest = &rest[done..];
    }
    Ok(total)
}
