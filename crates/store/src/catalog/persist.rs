//! The stored catalog: one document for each collection, read at start.
//!
//!   {ns, uuid, options, space, layout, indexes: [{spec, ident, ready, keyedAlone, side}]}      under its ident
//!
//! Multikey paths are stored under the index's ident, with one u64 (little-endian) per field, because they change
//! with ordinary writes.

use std::sync::Arc;

use nagi_bson::{Binary, Doc, DocBuf, DocWriter, Value, number};
use nagi_error::{Code, Error, Result, bail};
use nagi_kv::{Engine, Read, Space, Txn, sync::atomic::Ordering};
use nagi_lang::collation::Collation;

use super::{
    Catalog, Collection, CollectionOptions, CollectionState, CollectionVersion, Uuid,
    bucket_facts::StoredFacts,
};
use crate::{
    Index, IndexSpec, Namespace,
    annotations::Annotations,
    engine_error::engine,
    ident::{CatalogKey, Ident},
    index::{Building, Bulk, Multikey, multikey_words},
    node::{Board, Lease},
    record_key::Layout,
};

/// Version of all formats in docs/format.md.
const FORMAT: u32 = 4;
/// Older versions that can be read; everything written afterwards has the newest version.
const OLDER: &[u32] = &[1, 2, 3];
/// Version of data over a cluster with idents whose keys have stripes, from the first of these on.
const STRIPED_FORMAT: u32 = 5;

/// The value of `layout` for a collection whose record keys are its ids.
pub(crate) const LAYOUT_IDS: i64 = 2;
/// The same for the collection that shows the change log.
const LAYOUT_STAMPS: i64 = 3;
/// The same for the collection that shows the pre-images in the change log.
const LAYOUT_PRE_IMAGES: i64 = 4;

/// The catalog found at start.
pub(crate) struct Loaded {
    pub(crate) catalog: Catalog,
    /// Its version, if several nodes may change it.
    pub(crate) version: u64,
    pub(crate) next_ident: u32,
    /// Ranges that a crash left partly dropped.
    pub(crate) dropped: Vec<(Space, Ident)>,
    /// Indexes whose build was cut off by a crash, with their collections.
    pub(crate) unfinished: Vec<(Namespace, Box<str>)>,
}

/// Reads the whole catalog. Linear in the number of collections. `seat`: that of this node among several.
pub(crate) fn load(from: &dyn Engine, seat: Option<&Lease>) -> Result<Loaded> {
    check_format(from, seat)?;
    if from.capabilities().only_writer {
        return load_all(from.latest());
    }
    // Other nodes may change it meanwhile.
    let snapshot = from.snapshot().map_err(engine)?;
    let read: &dyn Read = &*snapshot;
    let changes = Board::read(read).map_err(engine)?.changes;
    Ok(Loaded { version: changes.version, ..load_all(read)? })
}

fn load_all(read: &dyn Read) -> Result<Loaded> {
    let mut loaded = Loaded {
        catalog: Catalog::default(),
        version: 0,
        next_ident: 1,
        dropped: Vec::new(),
        unfinished: Vec::new(),
    };
    let mut cursor = read.cursor(Space::Catalog, &[], &[]).map_err(engine)?;
    let mut found = cursor.seek(&[]).map_err(engine)?;
    while found {
        match *cursor.key() {
            [kind, a, b, c, d] if kind == CatalogKey::Collection as u8 => {
                let ident = Ident(u32::from_be_bytes([a, b, c, d]));
                let doc = Doc::parse_wrapped(cursor.value()).map_err(Error::from);
                doc.and_then(|doc| load_collection(read, ident, doc, &mut loaded))
                    .map_err(|error| named(error, ident, cursor.value()))?;
            }
            [kind, a, b, c, d] if kind == CatalogKey::Dropped as u8 => {
                let space = match cursor.value() {
                    [number] => Space::by_number(*number).ok_or_else(corrupt)?,
                    _ => return Err(corrupt()),
                };
                loaded.dropped.push((space, Ident(u32::from_be_bytes([a, b, c, d]))));
            }
            [kind, ..] if kind == CatalogKey::NextIdent as u8 => {
                loaded.next_ident = stored_ident(cursor.value())?;
            }
            _ => {}
        }
        found = cursor.next().map_err(engine)?;
    }
    Ok(loaded)
}

/// The next ident, as it is stored.
pub(crate) fn stored_ident(value: &[u8]) -> Result<u32> {
    value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(corrupt)
}

#[cold]
fn corrupt() -> Error {
    Error::bug("the stored catalog is damaged")
}

/// Refuses a data directory of a newer format; marks a new or older one. Data of an older one are not marked while
/// other nodes use them: these would not understand what is written from then on.
fn check_format(on: &dyn Engine, seat: Option<&Lease>) -> Result<()> {
    let key = Ident(0).catalog_key(CatalogKey::Format);
    let mut buf = Vec::new();
    match on.latest().get(Space::Catalog, &key, &mut buf).map_err(engine)? {
        Some(found) if *found == FORMAT.to_le_bytes() => return Ok(()),
        Some(found) if *found == STRIPED_FORMAT.to_le_bytes() && !on.capabilities().only_writer => {
            return Ok(());
        }
        Some(found) if OLDER.iter().any(|older| *found == older.to_le_bytes()) => {
            seat.map_or(Ok(()), only_user)?;
        }
        Some(found) => bail!(
            Code::UNSUPPORTED_FORMAT,
            "The data files have format {}, this server reads format {FORMAT}: they were opened by a newer version",
            found.first_chunk().map_or_else(
                || format!("{found:?}"),
                |bytes| u32::from_le_bytes(*bytes).to_string()
            )
        ),
        None => {}
    }
    let mut txn = on.begin(nagi_kv::TxnOptions::default()).map_err(engine)?;
    txn.put(Space::Catalog, &key, &FORMAT.to_le_bytes()).map_err(engine)?;
    match txn.commit(nagi_kv::Durability::Synced) {
        // Another node does the same.
        Err(nagi_kv::Error::Conflict) => check_format(on, seat),
        other => other.map(drop).map_err(engine),
    }
}

/// Fails if another node uses the data.
fn only_user(seat: &Lease) -> Result<()> {
    let (seats, now) = seat.seats().map_err(engine)?;
    let other = seats.iter().find(|other| other.node != seat.node() && other.until >= now);
    match other {
        Some(other) => bail!(
            Code::UNSUPPORTED_FORMAT,
            "This server would raise the format of the data to {FORMAT}, and server {} still uses them: stop all \
             servers of the older version first",
            other.name
        ),
        None => Ok(()),
    }
}

/// Stages that there are idents whose keys have stripes: an older server must not open these data.
pub(crate) fn put_striped_format(txn: &mut dyn Txn) -> Result<()> {
    if !is_striped_format(&*txn)? {
        let key = Ident(0).catalog_key(CatalogKey::Format);
        txn.put(Space::Catalog, &key, &STRIPED_FORMAT.to_le_bytes()).map_err(engine)?;
    }
    Ok(())
}

/// True if there are, or have been, idents whose keys have stripes. One get.
pub(crate) fn is_striped_format(read: &(impl Read + ?Sized)) -> Result<bool> {
    let (key, mut buf) = (Ident(0).catalog_key(CatalogKey::Format), Vec::new());
    let stored = read.get(Space::Catalog, &key, &mut buf).map_err(engine)?;
    Ok(stored == Some(&STRIPED_FORMAT.to_le_bytes()))
}

/// Adds the name of the unreadable entry to an error, unless it is of an engine that does not answer: then the entry
/// may be right.
#[cold]
fn named(error: Error, ident: Ident, entry: &[u8]) -> Error {
    if error.code() == Code::HOST_UNREACHABLE {
        return error;
    }
    let name = namespace_of(entry).map_or_else(|| format!("number {}", ident.0), String::from);
    let text = format!(
        "the catalog entry of collection {name} cannot be read: {}; start once with --repair to \
         save its documents",
        error.message()
    );
    Error::new(error.code(), text)
}

/// The name in an entry whose rest may not be a valid document: it is the first field.
pub(crate) fn namespace_of(entry: &[u8]) -> Option<&str> {
    let value = entry.get(4..)?.strip_prefix(b"\x02ns\0")?;
    let (length, text) = value.split_first_chunk()?;
    let length = usize::try_from(i32::from_le_bytes(*length)).ok()?;
    let text = text.get(..length)?.strip_suffix(b"\0")?;
    std::str::from_utf8(text).ok().filter(|name| Namespace::parse(name).is_ok())
}

/// Loads a collection's entry as the next start will.
///
/// # Errors
/// The error that the start would fail with.
pub(crate) fn check_entry(entry: &[u8]) -> Result<()> {
    let nothing = nagi_kv::Memory::new();
    let mut into = Loaded {
        catalog: Catalog::default(),
        version: 0,
        next_ident: 0,
        dropped: Vec::new(),
        unfinished: Vec::new(),
    };
    let loaded = load_collection(nothing.latest(), Ident(0), Doc::parse_wrapped(entry)?, &mut into);
    into.catalog.close();
    loaded
}

/// Loads an index: an index with a collation stores it; `_id` has the collection's.
fn load_spec(
    spec: Doc<'_>,
    namespace: &Namespace,
    options: &CollectionOptions,
) -> Result<IndexSpec> {
    if let Some(name) = &options.clustered
        && spec.get("clustered").is_truthy()
    {
        return Ok(IndexSpec::clustered(name, options.collation));
    }
    let is_id = spec.get("name").as_str() == Some("_id_");
    Collation::keep(spec.get("collation"));
    IndexSpec::parse_with(spec, namespace, true, options.collation.filter(|_| is_id))
}

fn load_collection(read: &dyn Read, ident: Ident, doc: Doc<'_>, into: &mut Loaded) -> Result<()> {
    let collection = Collection::new(load_version(read, ident, doc)?);
    let unfinished = collection.indexes.iter().filter(|index| !index.ready);
    into.unfinished
        .extend(unfinished.map(|index| (collection.namespace.clone(), index.spec.name.clone())));
    collection.state.set_current(Some(Arc::clone(&collection)));
    into.catalog.names.put(&collection);
    Ok(())
}

/// The collection as it is stored; nothing refers to it yet.
pub(super) fn load_version(
    read: &dyn Read,
    ident: Ident,
    doc: Doc<'_>,
) -> Result<CollectionVersion> {
    let namespace = Namespace::parse(doc.get("ns").as_str().ok_or_else(corrupt)?)?;
    let Value::Binary(uuid) = doc.get("uuid") else { return Err(corrupt()) };
    let options = doc.get("options").as_doc().ok_or_else(corrupt)?;
    Collation::keep(options.get("collation"));
    let mut options = CollectionOptions::parse(options, &namespace)?;
    let (space, layout) = (load_space(doc)?, load_layout(doc, &options)?);
    if layout == Layout::PreImages {
        // It only lists its clustered index.
        options.clustered = None;
    }
    let mut indexes = Vec::new();
    for index in doc.get("indexes").as_array().ok_or_else(corrupt)?.iter() {
        let stored = index.as_doc().ok_or_else(corrupt)?;
        let index = load_index(read, stored, &namespace, &options)?;
        indexes.push(Arc::new(index.of_records(layout, (space, ident))));
    }
    let (count, data_bytes) = load_counters(read, ident)?;
    let bucket_facts = StoredFacts::load(read, ident)?;
    let uuid = Uuid({ uuid.bytes }.try_into().map_err(|_| corrupt())?);
    Ok(CollectionVersion {
        uuid,
        namespace,
        validator: options.condition()?,
        options,
        indexes: indexes.into(),
        ident,
        space,
        layout,
        state: Arc::new(CollectionState::stored(count, data_bytes, bucket_facts)),
        version_annotations: Annotations::default(),
    })
}

fn load_index(
    read: &dyn Read,
    stored: Doc<'_>,
    namespace: &Namespace,
    options: &CollectionOptions,
) -> Result<Index> {
    let spec = stored.get("spec").as_doc().ok_or_else(corrupt)?;
    let ident = load_ident(stored.get("ident"))?;
    let spec = load_spec(spec, namespace, options)?;
    let multikey = load_multikey(read, ident, multikey_words(&spec))?;
    let ready = stored.get("ready").is_truthy();
    let mut index = Index::new(spec, ready, ident, Arc::new(multikey))?;
    index.keyed_alone = stored.get("keyedAlone").is_truthy();
    if stored.element("side").is_some() {
        index = index.logged(Bulk::new(load_ident(stored.get("side"))?));
    }
    // Of a build that is in progress on another node.
    if let Value::Binary(owner) = stored.get("owner") {
        index.building = Some(Building {
            build: load_ident(stored.get("build"))?,
            replaces: stored.get("replaces").is_truthy(),
            owner: Some({ owner.bytes }.try_into().map_err(|_| corrupt())?),
        });
        index.logs = stored.get("logs").is_truthy();
        index.deferred = index.deferred.filter(|_| !stored.get("strict").is_truthy());
        index.doubts = match stored.get("doubts") {
            Value::Missing => None,
            doubts => Some(load_ident(doubts)?),
        };
    }
    Ok(index)
}

fn load_ident(stored: Value<'_>) -> Result<Ident> {
    let number = number::truncate_to_i64(stored).and_then(|n| u32::try_from(n).ok());
    number.map(Ident).ok_or_else(corrupt)
}

/// The records' space; entries of the first versions have none, and their space is `Records`.
fn load_space(doc: Doc<'_>) -> Result<Space> {
    let number = match doc.get("space") {
        Value::Missing => return Ok(Space::Records),
        number => number::truncate_to_i64(number).and_then(|n| u8::try_from(n).ok()),
    };
    number.and_then(Space::by_number).filter(|space| space.is_records()).ok_or_else(corrupt)
}

/// The kind of record keys; in the first versions they were always numbers.
fn load_layout(doc: Doc<'_>, options: &CollectionOptions) -> Result<Layout> {
    match doc.get("layout") {
        Value::Missing => Ok(Layout::Numbers),
        layout
            if number::truncate_to_i64(layout) == Some(LAYOUT_IDS)
                && options.clustered.is_some() =>
        {
            Ok(Layout::Ids)
        }
        layout if number::truncate_to_i64(layout) == Some(LAYOUT_STAMPS) => Ok(Layout::Stamps),
        layout if number::truncate_to_i64(layout) == Some(LAYOUT_PRE_IMAGES) => {
            Ok(Layout::PreImages)
        }
        _ => Err(corrupt()),
    }
}

fn load_multikey(read: &dyn Read, ident: Ident, field_count: usize) -> Result<Multikey> {
    let mut buf = Vec::new();
    let key = ident.catalog_key(CatalogKey::Multikey);
    let stored = read.get(Space::Catalog, &key, &mut buf).map_err(engine)?.unwrap_or(&[]);
    let multikey = Multikey::new(field_count);
    for (chunk, (seen, durable)) in
        stored.as_chunks().0.iter().zip(multikey.seen.iter().zip(&multikey.durable))
    {
        seen.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
        durable.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
    }
    Ok(multikey)
}

/// The stored number of documents and the sum of their sizes.
pub(crate) fn load_counters(read: &dyn Read, ident: Ident) -> Result<(i64, i64)> {
    let mut buf = Vec::new();
    let stored = read.get(Space::Counters, &ident.bytes(), &mut buf).map_err(engine)?;
    let counters = stored.unwrap_or(&[]).as_chunks().0;
    let at = |at: usize| counters.get(at).map_or(0, |bytes| i64::from_le_bytes(*bytes));
    Ok((at(0), at(1)))
}

impl CollectionVersion {
    /// The document under which it is stored, which the next start can read: that is tried first, as one entry that
    /// cannot be read keeps the whole server from starting.
    ///
    /// # Errors
    /// The error that the start would fail with.
    pub(crate) fn to_entry(&self) -> Result<DocBuf> {
        let doc = self.to_doc();
        check_entry(doc.as_bytes())?;
        Ok(doc)
    }

    /// This version, as another node has stored it, with what this process knows of the collection.
    pub(super) fn with_memory_of(mut self, older: &CollectionVersion) -> CollectionVersion {
        older.state.bucket_facts.learn(&self.state.bucket_facts);
        let indexes = self.indexes.iter().map(|index| {
            match older.indexes.iter().find(|older| older.ident == index.ident) {
                Some(older) => Arc::new(index.with_memory_of(older)),
                None => Arc::clone(index),
            }
        });
        self.indexes = indexes.collect();
        self.state = Arc::clone(&older.state);
        self
    }

    pub(super) fn to_doc(&self) -> DocBuf {
        DocBuf::build(|w| {
            w.put("ns", self.namespace.as_str());
            w.put("uuid", Value::Binary(Binary { subtype: 4, bytes: &self.uuid.0 }));
            w.put("options", Value::from(&self.options.doc));
            if self.space != Space::Records {
                w.put("space", self.space as i32);
            }
            match self.layout {
                Layout::Numbers => {}
                Layout::Ids => w.put("layout", LAYOUT_IDS as i32),
                Layout::Stamps => w.put("layout", LAYOUT_STAMPS as i32),
                Layout::PreImages => w.put("layout", LAYOUT_PRE_IMAGES as i32),
            }
            w.array("indexes", |w| {
                for index in &self.indexes {
                    w.doc(|w| {
                        w.put("spec", Value::from(&index.spec.doc));
                        w.put("ident", i64::from(index.ident.0));
                        w.put("ready", index.ready);
                        w.put("keyedAlone", index.keyed_alone);
                        if let Some(bulk) = &index.bulk {
                            w.put("side", i64::from(bulk.side.0));
                        }
                        put_build(w, index);
                    });
                }
            });
        })
    }
}

/// What other nodes have to know of a build, if there are any.
fn put_build(w: &mut DocWriter<'_>, index: &Index) {
    let Some(Building { build, replaces, owner: Some(owner) }) = index.building else { return };
    w.put("owner", Value::Binary(Binary { subtype: 4, bytes: &owner }));
    w.put("build", i64::from(build.0));
    w.put("replaces", replaces);
    w.put("logs", index.logs);
    w.put("strict", index.deferred.is_none());
    if let Some(doubts) = index.doubts {
        w.put("doubts", i64::from(doubts.0));
    }
}

impl Multikey {
    /// The stored form: all bits that were ever set.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.seen.iter().flat_map(|bits| bits.load(Ordering::Acquire).to_le_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::doc;
    use nagi_kv::{Faults, Faulty, Memory, Point};

    use super::*;
    use crate::{Store, StoreOptions};

    /// An engine that does not answer is no damage, whichever read has no answer: its text must not ask for a repair.
    #[test]
    fn an_entry_that_is_not_answered_is_not_called_damaged() {
        let faults = Faults::default();
        let engine: Arc<dyn Engine> =
            Arc::new(Faulty::new(Arc::new(Memory::new()), faults.clone()));
        let store = Store::open(Arc::clone(&engine), StoreOptions::default()).unwrap();
        let name = Namespace::parse("d.c").unwrap();
        store.create_collection(&name, doc! {}.as_doc()).unwrap();
        let mut failed = 0;
        for skip in 0.. {
            faults.arm(Point::Get, skip, 1, || nagi_kv::Error::Unreachable("away".into()));
            let loaded = load(&*engine, None);
            faults.disarm();
            let Err(error) = loaded else { break };
            assert_eq!((error.code(), error.message()), (Code::HOST_UNREACHABLE, "away"));
            failed += 1;
        }
        assert!(failed > 1, "the format and the entry's counters are read");
    }
}
