//! The change log of a replica set member: MongoDB's oplog.
//!
//! Each change appends an entry to `Space::Changes` in its own commit. The collection `local.oplog.rs` reads as the
//! entries in the order of their stamps, which are its record keys:
//!
//! ```text
//!   stamp | position     value                                             document of local.oplog.rs
//!   (5,1) | 0            {op: "i", ...}                                    {op: "i", ..., ts: (5,1), t, v, wall}
//!   (5,2) | 0            {op: "u", ...}                                    {op: "u", ..., ts: (5,2), t, v, wall}
//!   (5,3) | 0, 1, 2      {lsid, txnNumber, op: "i", ...}, ...       {lsid, ..., o: {applyOps: [...]}, ts: (5,3), ...}
//! ```
//!
//! Changes of a client's transaction share a stamp, so the log shows them as one `applyOps`; beyond
//! [`APPLY_OPS_BYTES_MAX`] as several, each of which refers to the one before. All other changes have stamps of their
//! own, also if one commit makes several of them.
//!
//! A value is [`HEAD_BYTES`] bytes and a document: format, flags, term (little-endian) and wall-clock time in
//! milliseconds since 1970 (little-endian). Time and term are not part of the document because its fields come in
//! another order. The pre-image of a change, if its collection records them, follows the document.

mod catalog;
mod delta;
mod document;
mod feed;
mod listed;
mod patch;
mod pre_images;
mod read;
mod retain;
mod trim_lists;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use nagi_bson::{Binary, Doc, DocBuf, DocWriter, Value};

pub use feed::{
    ChangeScope, IdHash, LogDocument, LogPosition, Look, OpHead, Portion, Shown, Watch,
};
pub(crate) use feed::{ChangedIds, Feed};
pub(crate) use listed::Lists;
pub use patch::patch;
pub(crate) use pre_images::{
    PRE_IMAGES_NAMESPACE, PreImages, connect, image_at, options as image_options,
};
pub(crate) use read::LogReader;
pub use retain::Trimmed;
pub(crate) use retain::{newest_term, resume};

use crate::{
    Catalog, Collection, Namespace, Uuid,
    catalog::CollectionState,
    clock,
    record_key::Layout,
    store::commit::{Change, ChangeLog, Client, Joins, Statement},
};

/// The collection that shows the log.
pub const NAMESPACE: &str = "local.oplog.rs";

/// The entries of one `applyOps`, with some room for its own fields.
pub(crate) const APPLY_OPS_BYTES_MAX: usize = 15 << 20;

/// The first byte of a value.
const FORMAT: u8 = 1;
/// The same if the document before the change follows the entry's document.
const FORMAT_WITH_PRE_IMAGE: u8 = 2;
/// A flag: a change of a client's transaction.
const IN_TRANSACTION: u8 = 1;
/// A flag: the first entry of its stamp, whose transaction has others at the stamp before.
const CONTINUES: u8 = 2;
/// A flag: an entry of a retryable write whose session has made the entry at the stamp before as well.
const FOLLOWS: u8 = 4;
const HEAD_BYTES: usize = 18;

/// `stmtId` of statements in a transaction, which is not written.
const WHOLE: i32 = -1;

/// Makes MongoDB's oplog entries. See the module's header.
#[derive(Default)]
pub struct Oplog {
    term: AtomicI64,
}

impl Oplog {
    /// Writes the head of an entry. Returns its term.
    fn head(&self, in_transaction: bool, entry: &mut Vec<u8>) -> i64 {
        let term = self.term.load(SeqCst);
        entry.extend_from_slice(&[FORMAT, if in_transaction { IN_TRANSACTION } else { 0 }]);
        entry.extend_from_slice(&term.to_le_bytes());
        entry.extend_from_slice(&clock::now_ms().to_le_bytes());
        term
    }
}

impl ChangeLog for Oplog {
    fn entry(&self, change: &Change<'_>, by: &Client, entry: &mut Vec<u8>) -> Joins {
        let statement = by.statement().filter(|statement| statement.number >= 0);
        // Collections that a statement creates are not changes of the statement, except in a transaction.
        let of_statement = matches!(change, Change::Document { .. });
        let statement = statement.filter(|s| of_statement || s.id == WHOLE);
        let in_transaction = statement.is_some_and(|statement| statement.id == WHOLE);
        let term = self.head(in_transaction, entry);
        if statement.is_some() {
            by.note_logged_term(term);
        }
        let mut out = DocWriter::new(entry);
        put_statement(statement, &mut out);
        let logged = match *change {
            Change::Document { collection, .. } if !is_logged(&collection.namespace) => false,
            Change::Document { collection, before, after, edit, .. } => {
                document::write(collection, (before, after), edit, &mut out)
            }
            Change::Catalog {
                before: Some(before), after: Some(after), by_coll_mod: true, ..
            } => catalog::write_coll_mod(before, after, &mut out),
            Change::Catalog { before, after, target, .. } => {
                catalog::write(before, after, target, &mut out)
            }
            Change::DatabaseDropped(database) => {
                let logged = database != "local";
                command(database, None, &mut out, |out| out.put("dropDatabase", 1));
                logged
            }
        };
        if let Some(statement) = statement.filter(|statement| logged && statement.id >= 0) {
            out.put("stmtId", statement.id);
            if let Some(before) = statement.before {
                put_op_time(before, &mut out);
            }
        }
        out.finish();
        match *change {
            _ if !logged => entry.clear(),
            Change::Document { collection, before: Some(before), .. }
                if collection.options.pre_images =>
            {
                entry[0] = FORMAT_WITH_PRE_IMAGE;
                entry.extend_from_slice(before.as_bytes());
            }
            _ => {}
        }
        if in_transaction { Joins::WithinTransaction } else { Joins::No }
    }

    fn note(&self, object: Doc<'_>, entry: &mut Vec<u8>) {
        self.head(false, entry);
        let mut out = DocWriter::new(entry);
        out.put("op", "n");
        out.put("ns", "");
        out.put("o", object);
        out.finish();
    }

    fn begin_term(&self, term: i64) {
        self.term.store(term, SeqCst);
    }
}

/// The `_id` of the document that a change is of.
pub(crate) fn changed_id<'c>(change: &Change<'c>) -> Option<Value<'c>> {
    match *change {
        Change::Document { before, after, .. } => Some(after.or(before)?.get("_id")),
        _ => None,
    }
}

/// The first stamp that may have an entry, for readers of the collection.
pub(crate) fn first_of(shown: &CollectionState) -> u64 {
    shown.first_record.load(SeqCst) as u64
}

/// The collection of a catalog that shows the log.
pub(crate) fn shown_in(catalog: &Catalog) -> Option<Arc<Collection>> {
    let namespace = Namespace::parse(NAMESPACE).ok()?;
    let shown = catalog.collection(&namespace)?;
    (shown.layout == Layout::Stamps).then(|| Arc::clone(shown))
}

/// Marks an entry as one that continues the transaction of the stamp before, which has `ops` entries there and
/// earlier. The number becomes a field of its document, which readers do not show.
pub(crate) fn mark_continued(entry: &mut Vec<u8>, ops: i64) {
    if let Some(flags) = entry.get_mut(1) {
        *flags |= CONTINUES;
    }
    let Some(rest) = entry.get(HEAD_BYTES..) else { return };
    let (doc, behind) = parts(rest);
    let (doc, behind) = (Doc::trusted(doc), behind.to_vec());
    let marked = DocBuf::build(|out| {
        out.put(OPS_BEFORE, ops);
        out.extend(doc);
    });
    entry.truncate(HEAD_BYTES);
    entry.extend_from_slice(marked.as_bytes());
    entry.extend_from_slice(&behind);
}

/// Marks an entry of a retryable write as one that follows another of its session at the stamp before.
pub(crate) fn mark_following(entry: &mut [u8]) {
    if let Some(flags) = entry.get_mut(1) {
        *flags |= FOLLOWS;
    }
}

/// The document of an entry, and the bytes behind it. `bytes`: a value without its head.
fn parts(bytes: &[u8]) -> (&[u8], &[u8]) {
    let length = bytes.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    bytes.split_at(length.min(bytes.len()))
}

/// The bytes of an entry that readers of the log get.
pub(crate) fn shown_bytes(entry: &[u8]) -> usize {
    entry.get(HEAD_BYTES..).map_or(entry.len(), |rest| HEAD_BYTES + parts(rest).0.len())
}

/// Changes of `local`, of profiles and of what shows the log itself belong to this server only.
fn is_logged(namespace: &Namespace) -> bool {
    namespace.database() != "local"
        && namespace.collection() != "system.profile"
        && namespace.as_str() != PRE_IMAGES_NAMESPACE
}

/// True if a change of this kind has an entry in the log.
pub(crate) fn belongs_to_log(change: &Change<'_>) -> bool {
    match *change {
        Change::Document { collection, .. } => is_logged(&collection.namespace),
        Change::Catalog { before, after, .. } => {
            after.or(before).is_some_and(|changed| is_logged(&changed.namespace))
        }
        Change::DatabaseDropped(database) => database != "local",
    }
}

/// The field of an entry that continues a transaction: the number of the transaction's entries before it.
const OPS_BEFORE: &str = "opsBefore";

/// The field that refers to the session's entry before.
const OP_TIME_BEFORE: &str = "prevOpTime";

fn put_op_time((stamp, term): (u64, i64), out: &mut DocWriter<'_>) {
    out.doc(OP_TIME_BEFORE, |out| {
        out.put("ts", Value::Timestamp(stamp));
        out.put("t", term);
    });
}

fn put_statement(statement: Option<Statement>, out: &mut DocWriter<'_>) {
    let Some(statement) = statement else { return };
    out.doc("lsid", |out| {
        out.put("id", uuid(&Uuid(statement.session)));
        out.put("uid", Value::Binary(Binary { subtype: 0, bytes: &statement.user }));
    });
    out.put("txnNumber", statement.number);
}

fn uuid(uuid: &Uuid) -> Value<'_> {
    Value::Binary(Binary { subtype: 4, bytes: &uuid.0 })
}

/// Writes an entry for a command of a database.
fn command(
    database: &str,
    collection: Option<&Collection>,
    out: &mut DocWriter<'_>,
    fill: impl FnOnce(&mut DocWriter<'_>),
) {
    out.put("op", "c");
    out.put("ns", &*format!("{database}.$cmd"));
    if let Some(collection) = collection {
        out.put("ui", uuid(&collection.uuid));
    }
    out.doc("o", fill);
}
