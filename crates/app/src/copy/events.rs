//! Events of the change stream, and the newest change of each document among them.
//!
//! Of several changes of a document only the last one is applied. It is applied as a whole document: that of an insert
//! or a replacement, and for an update the document as it is now. The latter may be newer than the event; the events
//! that made it so follow, and applying them again ends with the same document. See decision 117.

use std::collections::HashMap;

use nagi_bson::{Doc, DocBuf, Value, ValueBuf};

use super::listing::{Ns, Uuid, uuid_of};

/// What an event tells.
#[derive(Debug)]
pub(super) enum Event<'e> {
    Write {
        uuid: Uuid,
        id: Value<'e>,
        change: Change,
    },
    Create {
        /// `None` for views and time series.
        uuid: Option<Uuid>,
        ns: Ns,
    },
    Drop {
        uuid: Option<Uuid>,
    },
    Rename {
        uuid: Uuid,
        to: Ns,
    },
    /// Indexes or options of a collection have changed.
    Altered {
        uuid: Option<Uuid>,
    },
    /// What changes nothing that is copied.
    Other,
}

/// What has happened to a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Insert(DocBuf),
    Replace(DocBuf),
    /// It is read at the source: an update, or a document that is too large for an event.
    Read {
        is_insert: bool,
    },
    Delete,
}

/// Parses an event; `None` if it has not what it must have.
pub(super) fn parse(event: Doc<'_>) -> Option<Event<'_>> {
    let uuid = uuid_of(event.get("collectionUUID"));
    let namespace = |name: &str| {
        let ns = event.get(name).as_doc()?;
        let text = |name: &str| ns.get(name).as_str().map(str::to_owned);
        Some(Ns { db: text("db")?, name: text("coll")? })
    };
    let full = event.get("fullDocument").as_doc();
    let write = |change: Change| {
        let id = event.get("documentKey").as_doc()?.get("_id");
        Some(Event::Write { uuid: uuid?, id, change })
    };
    match event.get("operationType").as_str()? {
        "insert" => write(match full {
            Some(full) => Change::Insert(full.to_buf()),
            None => Change::Read { is_insert: true },
        }),
        "replace" => write(match full {
            Some(full) => Change::Replace(full.to_buf()),
            None => Change::Read { is_insert: false },
        }),
        "update" => write(Change::Read { is_insert: false }),
        "delete" => write(Change::Delete),
        "create" => Some(Event::Create { uuid, ns: namespace("ns")? }),
        "drop" => Some(Event::Drop { uuid }),
        "rename" => Some(Event::Rename { uuid: uuid?, to: namespace("to")? }),
        "createIndexes" | "dropIndexes" | "modify" => Some(Event::Altered { uuid }),
        _ => Some(Event::Other),
    }
}

/// The time of an event.
pub(super) fn time(event: Doc<'_>) -> u64 {
    match event.get("clusterTime") {
        Value::Timestamp(time) => time,
        _ => 0,
    }
}

/// A document and its last change.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) uuid: Uuid,
    /// The `_id`.
    pub(super) id: ValueBuf,
    pub(super) change: Change,
    /// The order of the inserts, for capped collections.
    order: u64,
}

/// The changes of a run of events.
#[derive(Default)]
pub(super) struct Batch {
    writes: HashMap<(Uuid, Vec<u8>), Write>,
    pub(super) events: u64,
    bytes: usize,
    /// The time of the newest event.
    pub(super) newest: u64,
}

/// A batch is applied when it has this many events or bytes.
const EVENTS_MAX: u64 = 20_000;
const BYTES_MAX: usize = 32 << 20;

impl Batch {
    pub(super) fn add(&mut self, uuid: Uuid, id: Value<'_>, change: Change, time: u64) {
        self.events += 1;
        self.newest = time;
        self.bytes += match &change {
            Change::Insert(doc) | Change::Replace(doc) => doc.as_bytes().len(),
            _ => 0,
        };
        let id = ValueBuf::new(id);
        // The bytes: 1 and 1.0 are the keys of different versions of a document.
        let key = DocBuf::build(|out| out.put("", id.value())).into_bytes();
        let order = self.events;
        match self.writes.get_mut(&(uuid, key)) {
            Some(write) => {
                let is_insert =
                    matches!(change, Change::Insert(_) | Change::Read { is_insert: true });
                // An update leaves a document of a capped collection in its place.
                write.order = if is_insert { order } else { write.order };
                write.change = match (change, &write.change) {
                    (Change::Read { .. }, Change::Insert(_) | Change::Read { is_insert: true }) => {
                        Change::Read { is_insert: true }
                    }
                    (change, _) => change,
                };
            }
            None => {
                let key = DocBuf::build(|out| out.put("", id.value())).into_bytes();
                self.writes.insert((uuid, key), Write { uuid, id, change, order });
            }
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.events >= EVENTS_MAX || self.bytes >= BYTES_MAX
    }

    /// The changes in the order of the events, and an empty batch.
    pub(super) fn take(&mut self) -> Vec<Write> {
        let batch = std::mem::take(self);
        let mut writes: Vec<Write> = batch.writes.into_values().collect();
        writes.sort_unstable_by_key(|write| write.order);
        writes
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::doc;

    use super::super::state::binary;
    use super::*;

    fn write<'e>(event: &'e DocBuf) -> (Value<'e>, Change) {
        match parse(event.as_doc()) {
            Some(Event::Write { uuid, id, change }) => {
                assert_eq!(uuid, [3; 16]);
                (id, change)
            }
            other => panic!("{other:?}"),
        }
    }

    fn event(kind: &str, full: Option<&DocBuf>) -> DocBuf {
        DocBuf::build(|out| {
            out.put("operationType", kind);
            out.put("collectionUUID", binary(&[3; 16]));
            if let Some(full) = full {
                out.put("fullDocument", full.as_doc());
            }
            out.doc("ns", |out| {
                out.put("db", "d");
                out.put("coll", "a.b");
            });
            out.doc("to", |out| {
                out.put("db", "d");
                out.put("coll", "c");
            });
            out.doc("documentKey", |out| out.put("_id", 7));
        })
    }

    #[test]
    fn events_are_parsed() {
        let full = doc! { "_id": 7, "x": 1 };
        let changes = [
            ("insert", Change::Insert(full.clone()), Change::Read { is_insert: true }),
            ("replace", Change::Replace(full.clone()), Change::Read { is_insert: false }),
        ];
        for (kind, with, without) in changes {
            assert_eq!(write(&event(kind, Some(&full))), (Value::Int32(7), with));
            assert_eq!(write(&event(kind, None)).1, without);
        }
        assert_eq!(write(&event("update", None)).1, Change::Read { is_insert: false });
        assert_eq!(write(&event("delete", None)).1, Change::Delete);
        let rename = event("rename", None);
        match parse(rename.as_doc()) {
            Some(Event::Rename { to, .. }) => assert_eq!(to.to_string(), "d.c"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(parse(event("modify", None).as_doc()), Some(Event::Altered { .. })));
        assert!(matches!(parse(event("dropDatabase", None).as_doc()), Some(Event::Other)));
        assert!(parse(doc! { "operationType": "insert" }.as_doc()).is_none());
    }

    #[test]
    fn the_last_change_of_a_document_remains() {
        let (one, two) = (doc! { "_id": 1, "n": 1 }, doc! { "_id": 1, "n": 2 });
        let last = |changes: &[Change]| {
            let mut batch = Batch::default();
            for change in changes {
                batch.add([0; 16], Value::Int32(1), change.clone(), 5);
            }
            assert_eq!((batch.events, batch.newest), (changes.len() as u64, 5));
            let writes = batch.take();
            assert_eq!((writes.len(), batch.events), (1, 0));
            writes.into_iter().next().unwrap().change
        };
        let (insert, replace) = (Change::Insert(one), Change::Replace(two));
        let read = Change::Read { is_insert: false };
        assert_eq!(last(&[insert.clone(), replace.clone()]), replace);
        assert_eq!(last(&[insert.clone(), read.clone()]), Change::Read { is_insert: true });
        assert_eq!(last(&[read.clone(), Change::Delete]), Change::Delete);
        assert_eq!(last(&[Change::Delete, insert.clone()]), insert);
        assert_eq!(last(&[Change::Delete, insert.clone(), read.clone(), replace.clone()]), replace);
    }

    #[test]
    fn documents_are_told_apart_by_type_and_kept_in_order_of_insertion() {
        let mut batch = Batch::default();
        let insert = || Change::Insert(DocBuf::new());
        batch.add([0; 16], Value::Int32(1), insert(), 1);
        batch.add([0; 16], Value::Double(1.0), insert(), 2);
        batch.add([1; 16], Value::Int32(1), insert(), 3);
        batch.add([0; 16], Value::Int32(1), Change::Delete, 4);
        batch.add([0; 16], Value::Int32(1), insert(), 5);
        batch.add([0; 16], Value::Double(1.0), Change::Read { is_insert: false }, 6);
        let order: Vec<_> = batch.take().iter().map(|w| (w.uuid[0], w.id.value().kind())).collect();
        use nagi_bson::Type::{Double, Int};
        assert_eq!(order, [(0, Double), (1, Int), (0, Int)]);
        batch.add([0; 16], Value::Null, Change::Insert(DocBuf::from_bytes(large()).unwrap()), 1);
        assert!(batch.is_full());
    }

    fn large() -> Vec<u8> {
        DocBuf::build(|out| {
            for n in 0..3 {
                out.put(&n.to_string(), "x".repeat(11 << 20).as_str());
            }
        })
        .into_bytes()
    }
}
