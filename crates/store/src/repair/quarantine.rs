//! Quarantine: records that are not valid documents are removed from their collection and their bytes are kept.
//!
//!   record of db.c, bytes that are not valid BSON  -->  local.lost_and_found.<uuid of db.c>
//!      { _id, ns: "db.c", recordId: 7, error: "...", byteCount: 120, bytes: BinData(0, ...) }
//!
//! MongoDB deletes such records; a person who knows the data may still recover something from them, so their bytes
//! are kept unchanged. A document stored under another `_id` than its own (in a collection clustered by `_id`) is
//! moved to its correct key, if that is free. Indexes and wrong counters are repaired afterwards from the remaining
//! records.

use nagi_bson::{Binary, Doc, DocBuf, Value};
use nagi_error::Result;

use crate::{
    Collection, Namespace, RecordKey, Store, WriteOptions, WriteTxn, engine_error::engine, index,
    record, record_key::StorageKey,
};

const DATABASE: &str = "local";
/// Records and bytes moved per transaction.
pub(super) const RECORDS_AT_ONCE: usize = 256;
pub(super) const BYTES_AT_ONCE: usize = 4 << 20;
/// Bytes of one record that are kept: they must fit in a document.
const KEPT_BYTES_MAX: usize = 15 << 20;
/// Bytes of the record's key that are kept.
const KEPT_KEY_BYTES_MAX: usize = 64 << 10;
/// Records between interrupt checks.
const ASK_EACH: u32 = 64;

/// A record that is not a valid document, or is stored under the wrong key.
pub(super) struct Corrupt {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) error: String,
    /// The bytes it contributes to the collection's size counter.
    pub(super) counted: i64,
    /// For a document stored under another `_id` than its own: its correct key.
    pub(super) home: Option<StorageKey>,
}

/// The namespace in which the bytes of a collection's corrupt records are kept.
pub fn lost_and_found(collection: &Collection) -> String {
    format!("{DATABASE}.lost_and_found.{}", collection.uuid)
}

impl Store {
    /// Moves every record of the collection that is not valid BSON to the lost and found. Returns their number.
    /// Index keys are unchanged. Reads the whole collection.
    pub(crate) fn quarantine_corrupt(
        &self,
        collection: &Collection,
        interrupt: Option<&dyn Fn() -> Result<()>>,
    ) -> Result<i64> {
        let mut moved = 0;
        let mut from = collection.ident.bytes().to_vec();
        loop {
            let found = self.corrupt_records(collection, &from, interrupt)?;
            let Some(last) = found.last() else { return Ok(moved) };
            from = [&last.key[..], &[0]].concat();
            let count = self.move_out(collection, &found, interrupt)?;
            moved += count;
            log::warn!(target: "STORAGE", id = 9_000_055, namespace = collection.namespace.as_str(),
                records = count, to = lost_and_found(collection).as_str();
                "Repair: records that are not valid BSON were moved out of their collection");
        }
    }

    /// Moves records to the lost and found. Returns their number, without those that another writer has changed.
    pub(super) fn move_out(
        &self,
        collection: &Collection,
        found: &[Corrupt],
        interrupt: Option<&dyn Fn() -> Result<()>>,
    ) -> Result<i64> {
        let name = Namespace::parse(&lost_and_found(collection))?;
        let kept = self.collection_or_create(&name)?;
        let options = WriteOptions { interrupt, ..WriteOptions::default() };
        let count =
            self.write_value(options, &mut |txn| move_all(txn, collection, &kept, found))?;
        // The cache may hold them under an `_id` that cannot be determined any more.
        if let Some(cache) = &self.cache {
            cache.clear();
        }
        Ok(count)
    }

    /// Returns the next invalid records.
    fn corrupt_records(
        &self,
        collection: &Collection,
        from: &[u8],
        interrupt: Option<&dyn Fn() -> Result<()>>,
    ) -> Result<Vec<Corrupt>> {
        let snapshot = self.snapshot()?;
        let read = snapshot.reader().read;
        let cursor = read.cursor(collection.space, from, &collection.ident.end());
        let mut cursor = cursor.map_err(engine)?;
        let mut more = cursor.seek(from).map_err(engine)?;
        let (mut all, mut bytes, mut spare, mut looked) = (Vec::new(), 0, Vec::new(), 0_u32);
        while more && all.len() < RECORDS_AT_ONCE && bytes < BYTES_AT_ONCE {
            let doc = record::decode_bytes(cursor.value(), &mut spare);
            let counted = doc.as_ref().map_or(0, |doc| doc.len() as i64);
            let wrong = match doc.and_then(|doc| Ok(Doc::parse(doc)?)) {
                Err(error) => Some((error.to_string(), None)),
                Ok(doc) => {
                    home(collection, doc).filter(|home| **home != *cursor.key()).map(|home| {
                        ("is stored under the _id of another document".to_owned(), Some(home))
                    })
                }
            };
            if let Some((error, home)) = wrong {
                let (key, value) = (cursor.key().to_vec(), cursor.value().to_vec());
                bytes += value.len();
                all.push(Corrupt { key, value, error, counted, home });
            }
            looked += 1;
            if looked.is_multiple_of(ASK_EACH)
                && let Some(ask) = interrupt
            {
                ask()?;
            }
            more = cursor.next().map_err(engine)?;
        }
        Ok(all)
    }
}

fn move_all(
    txn: &mut WriteTxn<'_>,
    collection: &Collection,
    kept: &Collection,
    found: &[Corrupt],
) -> Result<i64> {
    let (mut count, mut buf) = (0, Vec::new());
    for record in found {
        let now = txn.reader().read.get(collection.space, &record.key, &mut buf);
        // Another writer may have replaced or removed the record.
        if now.map_err(engine)? != Some(&record.value[..]) {
            continue;
        }
        if let Some(home) = &record.home
            && txn.move_record(collection, &record.key, home, &record.value)?
        {
            continue;
        }
        txn.take_out(collection, &record.key, record.counted)?;
        txn.insert(kept, kept_document(collection, record).as_doc())?;
        count += 1;
    }
    Ok(count)
}

/// The key under which a document belongs, if the collection is clustered by `_id`.
fn home(collection: &Collection, doc: Doc<'_>) -> Option<StorageKey> {
    let index = collection.id_index().filter(|index| index.is_of_records())?;
    let mut key = Vec::new();
    index::append_id(index, doc.get("_id"), &mut key);
    Some(RecordKey::Key(&key).stored(collection.ident))
}

/// The insert adds `_id`.
fn kept_document(collection: &Collection, record: &Corrupt) -> DocBuf {
    let id = match collection.layout.of_stored(&record.key) {
        RecordKey::Key(key) => RecordKey::Key(&key[..key.len().min(KEPT_KEY_BYTES_MAX)]),
        number => number,
    };
    let kept = &record.value[..record.value.len().min(KEPT_BYTES_MAX)];
    DocBuf::build(|w| {
        w.put("ns", collection.namespace.as_str());
        w.put("recordId", id.value());
        w.put("error", record.error.as_str());
        w.put("byteCount", record.value.len() as i64);
        w.put("bytes", Value::Binary(Binary { subtype: 0, bytes: kept }));
    })
}
