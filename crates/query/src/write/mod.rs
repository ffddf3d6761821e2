//! Write statements: insert, update, delete, findAndModify.
//!
//! A statement that changes at most one document runs in one transaction: plan, find, change. After a conflict all
//! of it is repeated.
//!
//! A multi-document statement changes its documents in [`groups`], each in a transaction of its own: large updates need
//! bounded memory, other writers are not blocked for long, and after an error the groups before it stay committed.

mod by_ids;
mod delete;
mod find_and_modify;
mod groups;
mod insert;
mod measurements;
mod open_buckets;
mod run;
mod series_counts;
mod series_delete;
mod series_filter;
mod series_update;
mod turns;
mod update;

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_budget::meter;
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

use self::{
    groups::{Change, change_all},
    run::{Run, on_collection},
};
use crate::{
    plan::{self, FindSpec, Hint, Plan, find::parse_sort},
    source::{Cx, Env, Source, renew, serialize},
};

pub use by_ids::{BY_IDS_MAX, ById, ByIdOutcome, ByIds, change_by_ids};
pub(crate) use delete::prepare as prepare_delete;
pub use delete::{DeleteStatement, delete};
pub(crate) use find_and_modify::refuse_of_series;
pub use find_and_modify::{FindAndModifyRequest, FoundAndModified, find_and_modify};
pub(crate) use insert::insert_measurements;
pub use insert::{InsertOutcome, InsertStatement, insert, prepare_target, try_insert};
pub use series_counts::write_bucket_catalog;
pub(crate) use series_counts::write_counts;
pub(crate) use series_delete::filter_of as filter_of_series;
pub(crate) use series_update::with_prepared as with_series_update;
pub(crate) use update::prepare as prepare_update;
pub use update::{UpdateOutcome, UpdateStatement, update};

/// Records that one transaction reads again and changes.
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

/// The buckets of a time series collection; none for anything else.
fn series(store: &Store, namespace: &Namespace) -> Option<Arc<Collection>> {
    store.written_buckets_of(namespace)
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
        let more = more?;
        self.check_whole(Some(&plan))?;
        if !more {
            return Ok(None);
        }
        env.changing(source.doc().len())?;
        found.clear();
        serialize(&*source, found);
        let id = source.record_id().map(RecordKey::to_id);
        // From here on there is the copy only.
        drop(source);
        meter::end_read();
        Ok(id)
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
        let ids = rest(&mut *source, &mut cx);
        env.note_run(&plan, &mut *source);
        self.check_whole(Some(&plan))?;
        ids
    }

    /// Checks what was read of the collection, and of the indexes of a plan: what was dropped meanwhile was perhaps
    /// read in part.
    ///
    /// # Errors
    /// 175.
    fn check_whole(&self, plan: Option<&Plan>) -> Result<()> {
        if self.store.is_newest(&self.collection) {
            return Ok(());
        }
        let collection = Some(self.collection.clone());
        let read = match plan {
            Some(plan) => plan::reads(collection, plan),
            None => collection.map(|collection| (collection, Vec::new())).into_iter().collect(),
        };
        plan::check_still_there(self.store, &read)
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

/// The ids of the records that a source still yields.
fn rest(source: &mut dyn Source, cx: &mut Cx<'_>) -> Result<Vec<RecordId>> {
    let mut ids = Vec::new();
    while source.advance(cx)? {
        ids.extend(source.record_id().map(RecordKey::to_id));
    }
    Ok(ids)
}

/// Options for the writes and commits of a statement.
#[derive(Clone, Copy)]
struct How {
    durability: Durability,
    bypass_validation: bool,
    keep_empty_timestamps: bool,
}

impl How {
    /// The options of a transaction that `check` may interrupt.
    fn options<'c>(self, check: &'c dyn Fn() -> Result<()>) -> WriteOptions<'c> {
        WriteOptions {
            durability: self.durability,
            interrupt: Some(check),
            bypass_validation: self.bypass_validation,
            keep_empty_timestamps: self.keep_empty_timestamps,
        }
    }
}

/// Runs a transaction of a statement, and repeats it after conflicts.
fn with_txn<T>(
    store: &Store,
    how: How,
    env: &Env<'_>,
    f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
) -> Result<T> {
    let check = || env.interrupt().check();
    let options = how.options(&check);
    // A conflict counts when it happens, because the next attempt may wait long for the record, and in a store
    // transaction the caller makes that attempt. Only a conflict of the commit is not seen before the next attempt.
    let mut is_open = false;
    let mut keys = KeysWritten::default();
    let done = store.write(options, &mut |txn| {
        if is_open {
            env.note_attempt(true, KeysWritten::default());
        }
        let done = f(txn);
        keys = txn.keys_written();
        is_open = !matches!(&done, Err(error) if error.code() == Code::WRITE_CONFLICT);
        if !is_open {
            env.note_attempt(true, KeysWritten::default());
        }
        done
    });
    if is_open {
        env.note_attempt(false, if done.is_ok() { keys } else { KeysWritten::default() });
    }
    done.map(|written| written.value)
}

/// The effect of a change on one record.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    matched: u64,
    modified: u64,
}

impl Tally {
    fn add(&mut self, more: Tally) {
        self.matched += more.matched;
        self.modified += more.modified;
    }
}

/// Changes records that have to be read again, in chunks of one transaction each; documents that no longer match are
/// left out. `examined` is the number of documents that the request had examined before these were found. Errors end
/// the statement, but earlier chunks stay committed.
fn in_chunks(
    run: &Run<'_>,
    (ids, examined): (&[RecordId], u64),
    by: &mut dyn Change,
) -> Result<Tally> {
    let mut rest = ids;
    let mut read = 0;
    let mut total = Tally::default();
    let mut scratch = Scratch::default();
    while !rest.is_empty() {
        run.env.note_yield();
        let (done, tally, error) = with_txn(run.store, run.how, run.env, &mut |txn| {
            chunk(run, txn, rest, by, &mut scratch)
        })?;
        total.add(tally);
        read += done as u64;
        run.env.note_reread(examined, read);
        if let Some(error) = error {
            return Err(error);
        }
        rest = &rest[done..];
    }
    Ok(total)
}

/// Buffers of [`in_chunks`].
#[derive(Default)]
struct Scratch {
    doc: Vec<u8>,
    buf: RecordBuf,
    arena: Bump,
}

/// One transaction. Returns how many of the records it has dealt with, and the error at which it stopped.
fn chunk(
    run: &Run<'_>,
    txn: &mut WriteTxn<'_>,
    ids: &[RecordId],
    by: &mut dyn Change,
    Scratch { doc, buf, arena }: &mut Scratch,
) -> Result<(usize, Tally, Option<Error>)> {
    let Run { collection, env, .. } = run;
    let (mut done, mut bytes, mut tally) = (0, 0, Tally::default());
    // The records of a dropped collection are gone, which does not mean that they were deleted.
    txn.enter(collection)?;
    for id in ids.iter().take(CHUNK_RECORDS) {
        env.interrupt().check()?;
        done += 1;
        doc.clear();
        env.changing(collection.mean_bytes())?;
        match txn.reader().record(collection, id.key(), buf)? {
            Some(found) => {
                env.changing(found.len())?;
                doc.extend_from_slice(found.as_bytes());
            }
            None => continue,
        }
        renew(arena);
        let (arena, found) = (&*arena, Doc::trusted(doc));
        let one = txn.attempt(|txn| match run.matching(found, arena)? {
            Some(info) => by.change(txn, (id.key(), found, info), arena),
            None => Ok(Tally::default()),
        });
        match one {
            Ok(one) => tally.add(one),
            Err(error) if error.code() == Code::WRITE_CONFLICT => return Err(error),
            Err(error) => return Ok((done, tally, Some(error))),
        }
        bytes += doc.len();
        if bytes > CHUNK_BYTES {
            break;
        }
    }
    Ok((done, tally, None))
}
