//! Records that are no documents any more: taken out of their collection, and kept.
//!
//!   record of db.c, bytes that are no BSON  -->  local.lost_and_found.<uuid of db.c>
//!      { _id, ns: "db.c", recordId: 7, error: "...", byteCount: 120, bytes: BinData(0, ...) }
//!
//! MongoDB removes such records; who knows the data may still find something in them, so their bytes are
//! kept as they are. A document that lies under another `_id` than its own is moved to its place, if that is free.
//! Indexes, and counters that were wrong, are repaired afterwards, by what is there.

use nagi_bson::{Binary, Doc, DocBuf, Value};
use nagi_error::Result;

use crate::{
    Collection, Namespace, RecordKey, Store, WriteOptions, WriteTxn, engine_error::engine, index,
    record, record_key::StorageKey,
};

const DATABASE: &str = "local";
/// Records and bytes moved in one transaction.
const RECORDS_AT_ONCE: usize = 256;
const BYTES_AT_ONCE: usize = 4 << 20;
/// Bytes of one record that are kept: a document has to hold them.
const KEPT_BYTES_MAX: usize = 15 << 20;
/// Bytes of its key that are kept.
const KEPT_KEY_BYTES_MAX: usize = 64 << 10;
/// Records between two questions whether to continue.
const ASK_EACH: u32 = 64;

/// A record that is none, or in the wrong place.
struct Corrupt {
    key: Vec<u8>,
    value: Vec<u8>,
    error: String,
    /// What it counts for in the collection's size.
    counted: i64,
    /// It is a document that lies under another `_id` than its own: where it belongs.
    home: Option<StorageKey>,
}

/// Where the bytes of a collection's corrupt records are kept.
pub fn lost_and_found(collection: &Collection) -> String {
    format!("{DATABASE}.lost_and_found.{}", collection.uuid)
}

impl Store {
    /// Moves every record of the collection that is no valid BSON to the lost and found; how many. Index
    /// keys are left as they are. Reads the whole collection.
    pub(crate) fn set_aside_corrupt(
        &self,
        collection: &Collection,
        interrupt: Option<&dyn Fn() -> Result<()>>,
    ) -> Result<i64> {
        let name = Namespace::parse(&lost_and_found(collection))?;
        let mut moved = 0;
        let mut from = collection.ident.bytes().to_vec();
        loop {
            let found = self.corrupt_records(collection, &from, interrupt)?;
            let Some(last) = found.last() else { return Ok(moved) };
            from = [&last.key[..], &[0]].concat();
            let kept = self.collection_or_create(&name)?;
            let options = WriteOptions { interrupt, ..WriteOptions::default() };
            let count =
                self.write_value(options, &mut |txn| move_all(txn, collection, &kept, &found))?;
            // They may be remembered under an `_id` that no one can read any more.
            if let Some(cache) = &self.cache {
                cache.clear();
            }
            moved += count;
            log::warn!(target: "STORAGE", id = 9_000_055, namespace = collection.namespace.as_str(),
                records = count, to = name.as_str();
                "Repair: records that are no valid BSON were taken out of their collection");
        }
    }

    /// The next records that are none.
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
                Ok(doc) => home(collection, doc)
                    .filter(|home| **home != *cursor.key())
                    .map(|home| ("lies under another _id than its own".to_owned(), Some(home))),
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
        // Somebody may have put something better there, or removed it.
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

/// Where a document belongs if records lie under their ids.
fn home(collection: &Collection, doc: Doc<'_>) -> Option<StorageKey> {
    let index = collection.id_index().filter(|index| index.is_of_records())?;
    let mut key = Vec::new();
    index::append_id(index, doc.get("_id"), &mut key);
    Some(RecordKey::Key(&key).stored(collection.ident))
}

/// `_id` is added by the insert.
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
