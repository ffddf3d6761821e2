//! A document of the log, decoded once for all change streams; of a log of lists, all operations with a stamp.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use nagi_bson::{Doc, Value};
use nagi_budget::{Budget, Charge, Pool, meter};
use nagi_error::Result;

use super::{
    super::read::{Entry, LogReader},
    LogPosition,
    ids::IdHash,
};

/// Larger documents have a charge of their own.
const LARGE_BYTES: usize = 256 << 10;
/// Memory of a document and of an operation beside their bytes.
const DOCUMENT_BYTES: usize = 160;
const OP_BYTES: usize = 120;
/// The fields that an event has in addition to its operation.
const EVENT_BYTES: usize = 300;

/// How an operation's event is shown: to streams with and without `showExpandedEvents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Plain,
    Expanded,
}

/// A document of the log: one operation, or the operations of a transaction (or of a part of it). A log of lists has
/// one for each stamp, with the operations of all commits that have it.
pub struct LogDocument {
    /// The stamp at which the log has it.
    pub stamp: u64,
    /// The stamp of its transaction's last document: the cluster time of all events of the transaction.
    pub cluster_time: u64,
    /// The number of operations of its transaction in documents before it.
    pub first_op: usize,
    /// Other documents of its transaction follow.
    continued: bool,
    /// The feed has it and is charged for it, so the meters of the threads that have it do not count it.
    shared: bool,
    bytes: Vec<u8>,
    ops: Vec<Op>,
    /// For a large document that the feed has: streams may hold it when the feed has removed it.
    charge: Option<Charge>,
}

struct Op {
    at: Range<usize>,
    head: Head,
    /// The time on the clock when it was made, in milliseconds since 1970.
    wall_ms: i64,
    /// Where the transaction of a client is named that it belongs to.
    transaction: Option<Names>,
    pre_image: Option<Box<[u8]>>,
    /// The event, once a stream has asked for it; without bytes if it has none.
    events: [OnceLock<Box<[u8]>>; 2],
}

/// The document that names the transaction of an operation.
#[derive(Debug, Clone, Copy)]
enum Names {
    /// That of the log.
    Document,
    /// The operation's own.
    Operation,
}

/// What streams look at first.
#[derive(Debug, Clone, Copy)]
struct Head {
    letter: u8,
    id: Option<IdHash>,
}

impl Head {
    fn of(op: Doc<'_>) -> Head {
        let letter = op.get("op").as_str().and_then(|name| name.bytes().next()).unwrap_or(0);
        let within = |name: &str| op.get(name).as_doc().unwrap_or(Doc::EMPTY).get("_id");
        let id = match letter {
            b'i' | b'd' => Some(within("o")),
            b'u' => Some(within("o2")),
            _ => None,
        };
        Head { letter, id: id.map(IdHash::of) }
    }
}

/// What streams look at first: an operation, before it is read.
#[derive(Debug, Clone, Copy)]
pub struct OpHead<'d> {
    /// `op`.
    pub letter: u8,
    /// The `_id` of the document that it changes, if it changes one.
    pub id: Option<IdHash>,
    pub namespace: &'d str,
}

/// A transaction of which some documents were read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    cluster_time: u64,
    ops: usize,
}

impl LogDocument {
    /// The document at which a reader stands. `begun`: the transaction that it continues; updated.
    pub(super) fn read(
        log: &mut LogReader,
        begun: &mut Option<Begun>,
        last_of: &mut dyn FnMut(u64) -> Result<u64>,
    ) -> Result<LogDocument> {
        let mut bytes = Vec::new();
        log.write(&mut bytes)?;
        let before = match begun.take() {
            Some(before) => before,
            None if log.is_continued() => Begun { cluster_time: last_of(log.stamp)?, ops: 0 },
            None => Begun { cluster_time: log.stamp, ops: 0 },
        };
        let doc = Doc::trusted(&bytes);
        let parts = match (doc.get("op"), doc.get("o")) {
            (Value::String("c"), Value::Doc(o)) => o.get("applyOps").as_array(),
            _ => None,
        };
        let base = bytes.as_ptr() as usize;
        let within = |part: Doc<'_>| {
            let at = part.as_bytes().as_ptr() as usize - base;
            at..at + part.len()
        };
        let all: Vec<Range<usize>> = match parts {
            Some(parts) => parts.iter().filter_map(|part| part.as_doc()).map(within).collect(),
            None => vec![within(doc)],
        };
        let transaction = parts.is_some().then_some(Names::Document);
        let wall_ms = if let Value::DateTime(wall) = doc.get("wall") { wall } else { 0 };
        let ops = all.into_iter().enumerate().map(|(number, at)| {
            let pre_image = log.pre_image(number)?.map(|image| image.as_bytes().into());
            let head = Head::of(Doc::trusted(&bytes[at.clone()]));
            Ok(Op { at, head, wall_ms, transaction, pre_image, events: Default::default() })
        });
        let ops = ops.collect::<Result<Vec<Op>>>()?;
        let document = LogDocument {
            stamp: log.stamp,
            cluster_time: before.cluster_time,
            first_op: before.ops,
            continued: log.is_continued(),
            shared: false,
            bytes,
            ops,
            charge: None,
        };
        *begun = document.begun();
        Ok(document)
    }

    /// The operations of all commits with a stamp, of a log of lists: all of their entries, in order.
    pub(in super::super) fn of_entries(stamp: u64, entries: &[&[u8]]) -> Result<LogDocument> {
        let size = entries.iter().map(|entry| entry.len()).sum();
        let (mut bytes, mut ops) = (Vec::with_capacity(size), Vec::with_capacity(entries.len()));
        for entry in entries {
            let Entry { in_transaction, wall_ms, doc, pre_image, .. } = Entry::parse(entry)?;
            let at = bytes.len()..bytes.len() + doc.len();
            bytes.extend_from_slice(doc.as_bytes());
            ops.push(Op {
                at,
                head: Head::of(doc),
                wall_ms,
                transaction: in_transaction.then_some(Names::Operation),
                pre_image: pre_image.map(|image| image.as_bytes().into()),
                events: Default::default(),
            });
        }
        let (cluster_time, first_op, continued, shared, charge) = (stamp, 0, false, false, None);
        Ok(LogDocument { stamp, cluster_time, first_op, continued, shared, bytes, ops, charge })
    }

    /// Its transaction, if that continues in the next document.
    pub(super) fn begun(&self) -> Option<Begun> {
        let ops = self.first_op + self.ops.len();
        self.continued.then_some(Begun { cluster_time: self.cluster_time, ops })
    }

    /// It has a charge of its own while the feed or a stream holds it.
    pub(super) fn is_large(&self) -> bool {
        self.memory_bytes() > LARGE_BYTES
    }

    /// Charges a large document for as long as anyone holds it. Returns false if there is no capacity.
    pub(super) fn charge(&mut self, budget: &Arc<Budget>) -> bool {
        let mut charge = Charge::empty(budget, Pool::ChangeStreams);
        let charged = charge.try_grow(self.memory_bytes() as u64);
        self.charge = charged.then_some(charge);
        charged
    }

    /// The feed or its own charge covers it from now on, not the request that has read it.
    pub(super) fn share(&mut self) {
        self.shared = true;
        meter::count(-self.counted_bytes());
    }

    /// The bytes that the meters have counted where they were allocated, as far as they depend on the document.
    fn counted_bytes(&self) -> i64 {
        let parts = self.ops.iter().flat_map(|op| {
            let events = op.events.iter().filter_map(|event| event.get());
            events.chain(&op.pre_image).map(|bytes| bytes.len())
        });
        (self.bytes.capacity() + parts.sum::<usize>()) as i64
    }

    /// The time on the clock when an operation was made, in milliseconds since 1970.
    ///
    /// # Panics
    /// If it has fewer operations.
    pub fn wall_ms(&self, at: usize) -> i64 {
        self.ops[at].wall_ms
    }

    /// The client's transaction that an operation belongs to: `lsid` and `txnNumber`.
    ///
    /// # Panics
    /// If it has fewer operations.
    pub fn transaction(&self, at: usize) -> Option<(Value<'_>, Value<'_>)> {
        let named_in = match self.ops[at].transaction? {
            Names::Document => Doc::trusted(&self.bytes),
            Names::Operation => self.op(at),
        };
        Some((named_in.get("lsid"), named_in.get("txnNumber")))
    }

    pub fn op_count(&self) -> usize {
        self.ops.len()
    }

    /// An operation.
    ///
    /// # Panics
    /// If it has fewer.
    pub fn op(&self, at: usize) -> Doc<'_> {
        Doc::trusted(&self.bytes[self.ops[at].at.clone()])
    }

    /// What streams look at first.
    ///
    /// # Panics
    /// If it has fewer operations.
    pub fn head(&self, at: usize) -> OpHead<'_> {
        let Head { letter, id } = self.ops[at].head;
        let namespace = self.op(at).get("ns").as_str().unwrap_or("");
        OpHead { letter, id, namespace }
    }

    /// The document before an operation, if its collection records pre-images.
    pub fn pre_image(&self, at: usize) -> Option<Doc<'_>> {
        self.ops[at].pre_image.as_deref().map(Doc::trusted)
    }

    /// The event of an operation, which the first stream that needs it makes; `None` if it made no bytes.
    pub fn event(
        &self,
        at: usize,
        shown: Shown,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Option<Doc<'_>> {
        let event = self.ops[at].events[shown as usize].get_or_init(|| {
            let event: Box<[u8]> = make().into();
            if self.shared {
                meter::count(-(event.len() as i64));
            }
            event
        });
        (!event.is_empty()).then(|| Doc::trusted(event))
    }

    /// The position from which it is read next.
    pub fn position_before(&self) -> LogPosition {
        let (cluster_time, ops) = (self.cluster_time, self.first_op);
        let begun = (ops > 0 || self.continued).then_some(Begun { cluster_time, ops });
        LogPosition { after: self.stamp - 1, begun }
    }

    /// The position from which the document behind it is read next.
    pub fn position_behind(&self) -> LogPosition {
        LogPosition { after: self.stamp, begun: self.begun() }
    }

    /// The memory that it takes, with the events that streams will probably ask for.
    pub(super) fn memory_bytes(&self) -> usize {
        let images: usize =
            self.ops.iter().filter_map(|op| op.pre_image.as_ref()).map(|image| image.len()).sum();
        DOCUMENT_BYTES + self.ops.len() * (OP_BYTES + EVENT_BYTES) + 2 * self.bytes.len() + images
    }
}

impl Drop for LogDocument {
    fn drop(&mut self) {
        if self.shared {
            // The thread that frees it is rarely the one that has read it.
            meter::count(self.counted_bytes());
        }
    }
}
