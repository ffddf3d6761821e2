//! Statements by `_id` that are executed together: a bulk of updates or deletes reads its documents with two batched
//! gets and commits once.
//!
//! Only what is simple is done here. After a conflict or an error of any statement nothing was written, and the caller
//! executes the statements one by one, which gives each its own error.

use bumpalo::Bump;
use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    collation::{Asked, Collation},
    expr::ParseCx,
    filter::MatchInfo,
    update::Update,
};
use nagi_store::{Durability, KeysWritten, Namespace, RecordId, Statement, Store, WriteTxn};

use super::{
    How, Run, Selection, collation_of, ends_command, on_collection,
    update::{Edited, edit},
};
use crate::source::{Env, renew};

/// Statements that share a transaction.
pub const BY_IDS_MAX: usize = 100;
/// Bytes of documents that one transaction reads.
const BYTES_MAX: usize = 4 << 20;

/// A statement whose filter is only an `_id`, a value that stands for itself.
#[derive(Debug, Clone, Copy)]
pub struct ById<'a> {
    pub id: Value<'a>,
    /// The update; none deletes the document.
    pub update: Option<Value<'a>>,
}

/// Statements of one command, in their order.
#[derive(Clone, Copy)]
pub struct ByIds<'a> {
    pub statements: &'a [ById<'a>],
    /// For a retryable write: the statement of the session for each position. The store handle is then bound to the
    /// transaction that also records them, in which nothing was written yet.
    pub statement: Option<&'a dyn Fn(usize) -> Statement>,
    /// As in [`super::UpdateStatement`].
    pub bypass_validation: bool,
    pub keep_empty_timestamps: bool,
}

/// What a statement did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByIdOutcome {
    pub matched: bool,
    pub modified: bool,
}

/// Executes the first of these statements in one transaction: at most [`BY_IDS_MAX`], with different ids. Returns what
/// they did; nothing if they have to be executed one by one.
///
/// # Errors
/// Those that end the command; for a retryable write any other one too, after which its transaction has to be dropped.
pub fn change_by_ids(
    store: &Store,
    namespace: &Namespace,
    of: &ByIds<'_>,
    env: &Env<'_>,
) -> Result<Vec<ByIdOutcome>> {
    if store.is_bound() && of.statement.is_none() {
        return Ok(Vec::new());
    }
    let statements = &of.statements[..of.statements.len().min(BY_IDS_MAX)];
    let collation = collation_of(store, namespace, Asked::Inherited);
    let selection = Selection::parse(Doc::EMPTY, Doc::EMPTY, None, Doc::EMPTY, collation, env)?;
    let how = How {
        // An error of a commit that has happened already would make the caller execute the statements again.
        durability: Durability::Buffered,
        bypass_validation: of.bypass_validation,
        keep_empty_timestamps: of.keep_empty_timestamps,
    };
    let done = on_collection((store, env), (namespace, false), &selection, how, |run| {
        attempt(run, statements, of.statement, collation)
    });
    match done {
        Err(error) if of.statement.is_some() => Err(error),
        Err(error) if error.code() == Code::WRITE_CONFLICT || !ends_command(&error) => {
            Ok(Vec::new())
        }
        done => done,
    }
}

fn attempt(
    run: &Run<'_>,
    statements: &[ById<'_>],
    named: Option<&dyn Fn(usize) -> Statement>,
    collation: Option<&'static Collation>,
) -> Result<Vec<ByIdOutcome>> {
    let Run { store, ref collection, how, env, .. } = *run;
    if collection.options.capped || collection.mean_bytes() > BYTES_MAX / BY_IDS_MAX {
        return Ok(Vec::new());
    }
    let ids: Vec<Value<'_>> = statements.iter().map(|statement| statement.id).collect();
    let check = || env.interrupt().check();
    let options = how.options(&check);
    let mut keys = KeysWritten::default();
    let work = &mut |txn: &mut WriteTxn<'_>| {
        let mut found: Vec<Option<Found>> = Vec::new();
        found.resize_with(ids.len(), || None);
        let mut bytes = Vec::new();
        let mut too_large = false;
        let count = txn.lock_by_ids(collection, &ids, &mut |at, id, doc| {
            too_large |= bytes.len() + doc.len() > BYTES_MAX;
            if !too_large {
                found[at] = Some(Found { id: id.clone(), start: bytes.len(), len: doc.len() });
                bytes.extend_from_slice(doc.as_bytes());
            }
        })?;
        if too_large {
            bail!(Code::BAD_VALUE, "the documents are too large for one transaction");
        }
        let mut change =
            Changes { run, collation, parsed: None, arena: Bump::new(), new: Vec::new() };
        let mut done = Vec::with_capacity(count);
        for (at, found) in found[..count].iter().enumerate() {
            if let Some(named) = named {
                txn.store().client().set_statement(Some(named(at)));
            }
            done.push(match found {
                Some(Found { id, start, len }) => {
                    let doc = Doc::trusted(&bytes[*start..*start + *len]);
                    change.apply(txn, &statements[at], (id, doc))?
                }
                None => ByIdOutcome::default(),
            });
        }
        keys = txn.keys_written();
        Ok(done)
    };
    let written = match named {
        None => store.write_once(options, work),
        Some(_) => store.write(options, work),
    };
    if named.is_some() {
        store.client().set_statement(None);
    }
    let written = written?;
    env.note_attempt(false, keys);
    let count = written.value.iter().filter(|done| done.matched).count() as u64;
    env.note_lookups(count);
    Ok(written.value)
}

/// Where a document was copied to.
struct Found {
    id: RecordId,
    start: usize,
    len: usize,
}

/// Applies the statements.
struct Changes<'c, 'a> {
    run: &'c Run<'c>,
    collation: Option<&'static Collation>,
    /// The last update, and its source: bulks often repeat one.
    parsed: Option<(Value<'a>, Update)>,
    arena: Bump,
    new: Vec<u8>,
}

impl<'a> Changes<'_, 'a> {
    fn apply(
        &mut self,
        txn: &mut WriteTxn<'_>,
        statement: &ById<'a>,
        (id, doc): (&RecordId, Doc<'_>),
    ) -> Result<ByIdOutcome> {
        self.run.env.pass()?;
        let Some(update) = statement.update else {
            txn.delete(&self.run.collection, id.key(), doc)?;
            return Ok(ByIdOutcome { matched: true, modified: true });
        };
        renew(&mut self.arena);
        if !self.parsed.as_ref().is_some_and(|(source, _)| source.same_bytes(&update)) {
            let mut cx = ParseCx::with_let(&[]).collated(self.collation);
            let parsed = Update::parse(update, &[], &mut cx)?;
            if parsed.needs_position() {
                bail!(Code::BAD_VALUE, "a lookup by _id gives no position");
            }
            self.parsed = Some((update, parsed));
        }
        let Some((_, update)) = &self.parsed else { return Ok(ByIdOutcome::default()) };
        let edited = Edited { update, encryption: None, of_metadata: false };
        let found = (id.key(), doc, MatchInfo::default());
        let modified = edit(edited, self.run, txn, found, &self.arena, &mut self.new)?;
        Ok(ByIdOutcome { matched: true, modified })
    }
}
