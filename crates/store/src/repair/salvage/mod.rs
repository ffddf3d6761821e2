//! `--repair`: makes the catalog, indexes and counters consistent with the surviving records.
//!
//!   catalog   An entry that does not load loses the indexes, or the option, that prevent loading. An entry that
//!             cannot be read is removed. Records without a catalog entry get the collection's name if the removed
//!             entry shows it (without its options and indexes), else the name `local.orphan.<ident>`.
//!             Index keys without a catalog entry are dropped. The next ident is set beyond all used ones.
//!   then      The store opens and every collection is validated; invalid records go to the lost and found
//!             (see `quarantine`), inconsistent indexes and counters are rebuilt.
//!
//! Precondition: the engine can be read from beginning to end. The engine's own repair runs before.

mod entry;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use nagi_bson::{Binary, Doc, DocBuf, Value, number};
use nagi_error::{Code, Error, Result};
use nagi_kv::{Durability, Engine, Space, TxnOptions};

use self::entry::Kept;
use crate::{
    BuildOptions, Collection, IndexSelector, IndexSpec, Namespace, Store, StoreOptions, Uuid,
    catalog::{self, LAYOUT_IDS},
    engine_error::engine,
    ident::number_of,
    ident::{CatalogKey, Ident},
};

const ORPHANS_DATABASE: &str = "local";

/// A report of what was repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Namespaces assigned to records whose collection is missing in the catalog.
    pub orphans: Vec<String>,
    /// Catalog entries that could not be read and were removed.
    pub catalog_entries_lost: u64,
    /// Indexes and options removed from catalog entries that did not load with them.
    pub left_out: Vec<String>,
    /// Collections that were repaired, with their validation errors.
    pub repaired: Vec<(String, Vec<String>)>,
    /// The number of documents by which the counters were too high.
    pub documents_lost: i64,
    /// Records that were not valid documents, or had the `_id` of another one, and were moved to the lost and found.
    pub corrupt_records: i64,
    /// Indexes that could not be rebuilt and were dropped, with the reason.
    pub indexes_dropped: Vec<String>,
}

impl Store {
    /// Opens a store whose engine has lost part of its keys and makes it consistent again. Reads everything.
    /// `catalog_lost`: keys of the catalog were lost, so every index is rebuilt.
    pub fn salvage(
        from: Arc<dyn Engine>,
        options: StoreOptions,
        catalog_lost: bool,
    ) -> Result<(Arc<Store>, Salvaged)> {
        let mut salvaged = Salvaged::default();
        repair_catalog(&*from, &mut salvaged)?;
        let store = Store::open(from, options)?;
        let catalog = store.catalog();
        for collection in catalog.iter().filter(|collection| !collection.is_view()) {
            store.repair_collection(collection, catalog_lost, &mut salvaged)?;
        }
        store.flush()?;
        Ok((store, salvaged))
    }

    fn repair_collection(
        &self,
        collection: &Collection,
        rebuild: bool,
        into: &mut Salvaged,
    ) -> Result<()> {
        let mut report = self.validate(collection)?;
        let name = collection.namespace.as_str();
        if report.errors.is_empty() && (!rebuild || collection.shows_log()) {
            return Ok(());
        }
        if !report.errors.is_empty() {
            into.documents_lost += report.count_off.max(0);
            into.repaired.push((name.to_owned(), report.errors.clone()));
            log::warn!(target: "STORAGE", id = 9_000_051, namespace = name,
                errors = report.errors.len() as i64, first = report.errors[0].as_str(),
                documentsLost = report.count_off.max(0); "Repair: repairing a collection");
        }
        into.corrupt_records += report.invalid_count;
        let build = BuildOptions::default();
        loop {
            let result = match report.errors.is_empty() {
                true => self.reindex(&collection.namespace, build).map(drop),
                false => self.repair(collection, &report, build).map(drop),
            };
            // A repair that brought older versions of documents to light may find duplicate unique keys.
            match result {
                Err(error) if error.code() == Code::DUPLICATE_KEY => {
                    match error.message().contains("index: _id_ ") {
                        true => into.corrupt_records += self.without_repeats(collection, error)?,
                        false => {
                            self.drop_unique(&collection.namespace, error.message(), into)?;
                        }
                    }
                    // The repair was partly done: a second one must not adjust the counters twice.
                    if !report.errors.is_empty() {
                        report = self.validate(collection)?;
                    }
                }
                other => return other,
            }
        }
    }

    /// Moves documents that have the `_id` of another one out of the way. Returns their number.
    fn without_repeats(&self, collection: &Collection, why: Error) -> Result<i64> {
        match self.quarantine_repeats(collection)? {
            0 => Err(why),
            moved => Ok(moved),
        }
    }

    /// Drops the unique index that `why` names, else the first one other than `_id_`, because it cannot be rebuilt.
    fn drop_unique(&self, namespace: &Namespace, why: &str, into: &mut Salvaged) -> Result<()> {
        let collection = self.collection(namespace);
        let indexes = collection.iter().flat_map(|collection| collection.indexes.iter());
        let named = |name: &str| why.contains(&format!("index: {name} "));
        let unique: Vec<_> = indexes.filter(|i| i.spec.unique && !i.spec.is_id()).collect();
        let doomed = unique.iter().find(|index| named(index.name())).or(unique.first());
        let Some(index) = doomed else {
            nagi_error::bail!(Code::DUPLICATE_KEY, "{why}");
        };
        log::warn!(target: "STORAGE", id = 9_000_052, namespace = namespace.as_str(),
            index = index.name(), reason = why; "Repair: dropping an index that cannot be built");
        into.indexes_dropped.push(format!("{namespace}: {}: {why}", index.name()));
        self.drop_indexes(namespace, IndexSelector::Name(index.name())).map(drop)
    }
}

/// The contents of the catalog, as far as it can be read.
#[derive(Default)]
struct Known {
    collections: BTreeMap<String, Ident>,
    records: BTreeSet<u32>,
    indexes: BTreeSet<u32>,
    dropped: BTreeSet<u32>,
    next: u32,
    /// Names found in entries whose remainder cannot be read.
    lost_names: BTreeMap<u32, String>,
    /// Entries that load after a part was removed.
    kept: Vec<(Ident, Kept)>,
}

impl Known {
    fn has(&self, name: &str) -> bool {
        self.collections.contains_key(name)
    }
}

fn repair_catalog(on: &dyn Engine, salvaged: &mut Salvaged) -> Result<()> {
    let mut txn = on.begin(TxnOptions::default()).map_err(engine)?;
    let (mut known, bad) = read_catalog(on)?;
    for key in &bad {
        log::warn!(target: "STORAGE", id = 9_000_053, key:? = key;
            "Repair: removing a catalog entry that cannot be read");
        txn.delete(Space::Catalog, key).map_err(engine)?;
    }
    salvaged.catalog_entries_lost = bad.len() as u64;
    for (ident, kept) in &known.kept {
        let key = ident.catalog_key(CatalogKey::Collection);
        txn.put(Space::Catalog, &key, kept.entry.as_bytes()).map_err(engine)?;
        let name = catalog::namespace_of(kept.entry.as_bytes()).unwrap_or_default();
        log::warn!(target: "STORAGE", id = 9_000_059, namespace = name,
            leftOut:? = kept.left_out; "Repair: removing the options and indexes with which a \
                                        catalog entry cannot be loaded");
        let lines = kept.left_out.iter().map(|part| format!("{name}: {part}"));
        salvaged.left_out.extend(lines);
    }
    let known_idents = known.records.union(&known.indexes).chain(&known.dropped);
    let mut used = known_idents.map(|ident| Ident(*ident).assigned()).max();
    let index_idents = idents(on, Space::Index)?;
    let mut record_idents = Vec::new();
    for space in Space::ALL.into_iter().filter(|space| space.is_records()) {
        record_idents.extend(idents(on, space)?.into_iter().map(|ident| (space, ident)));
    }
    let stored = record_idents.iter().map(|(_, ident)| ident).chain(&index_idents);
    let stored = stored.filter(|ident| **ident < Ident::SESSIONS.0);
    used = used.max(stored.map(|ident| Ident(*ident).assigned()).max());
    let mut next = known.next.max(used.map_or(1, |ident| ident + 1));
    for ident in index_idents.difference(&known.indexes) {
        if !known.dropped.contains(ident) {
            let key = Ident(*ident).catalog_key(CatalogKey::Dropped);
            txn.put(Space::Catalog, &key, &[Space::Index as u8]).map_err(engine)?;
        }
    }
    for (space, ident) in record_idents {
        let owned = known.records.contains(&ident) || known.dropped.contains(&ident);
        // An entry names one space, but an engine may show the same records in every space.
        if owned || ident >= Ident::SESSIONS.0 || !known.records.insert(ident) {
            continue;
        }
        let name = known.lost_names.remove(&ident).filter(|name| !known.has(name));
        let name = name.unwrap_or_else(|| free_name(&known, ident));
        let doc = orphan(&name, space, next, is_clustered(on, space, ident)?);
        let key = Ident(ident).catalog_key(CatalogKey::Collection);
        txn.put(Space::Catalog, &key, doc.as_bytes()).map_err(engine)?;
        next += 1;
        known.collections.insert(name.clone(), Ident(ident));
        log::warn!(target: "STORAGE", id = 9_000_054, namespace = name.as_str();
            "Repair: documents whose collection is not in the catalog were given a namespace");
        salvaged.orphans.push(name);
    }
    let key = Ident(0).catalog_key(CatalogKey::NextIdent);
    txn.put(Space::Catalog, &key, &next.to_le_bytes()).map_err(engine)?;
    txn.commit(Durability::Synced).map(drop).map_err(engine)
}

/// Reads the catalog. Also returns the keys of the entries that are not valid.
fn read_catalog(on: &dyn Engine) -> Result<(Known, Vec<Vec<u8>>)> {
    let (mut known, mut bad) = (Known::default(), Vec::new());
    let mut cursor = on.latest().cursor(Space::Catalog, &[], &[]).map_err(engine)?;
    let mut found = cursor.seek(&[]).map_err(engine)?;
    while found {
        if let [kind, a, b, c, d] = *cursor.key() {
            let ident = Ident(u32::from_be_bytes([a, b, c, d]));
            match kind {
                k if k == CatalogKey::Collection as u8 => {
                    let noted = note_collection(&mut known, ident, cursor.value());
                    bad.extend((!noted).then(|| cursor.key().to_vec()));
                }
                k if k == CatalogKey::Dropped as u8 => {
                    let space = cursor.value().first().and_then(|n| Space::by_number(*n));
                    match space {
                        Some(_) => drop(known.dropped.insert(ident.0)),
                        None => bad.push(cursor.key().to_vec()),
                    }
                }
                k if k == CatalogKey::NextIdent as u8 => {
                    let next = cursor.value().first_chunk().map(|b| u32::from_le_bytes(*b));
                    known.next = next.unwrap_or(0);
                }
                _ => {}
            }
        }
        found = cursor.next().map_err(engine)?;
    }
    Ok((known, bad))
}

/// Records a collection's entry in `known`. Returns false if it is invalid, or if an earlier entry has the same
/// name.
fn note_collection(known: &mut Known, ident: Ident, value: &[u8]) -> bool {
    let loads = catalog::check_entry(value).is_ok();
    let kept = (!loads).then(|| entry::kept(value)).flatten();
    if !loads && kept.is_none() {
        let name = catalog::namespace_of(value).map(str::to_owned);
        known.lost_names.extend(name.map(|name| (ident.0, name)));
        return false;
    }
    let doc = kept.as_ref().map_or(value, |kept| kept.entry.as_bytes());
    let Ok(doc) = Doc::parse_wrapped(doc) else { return false };
    let Some(name) = doc.get("ns").as_str() else { return false };
    if known.collections.contains_key(name) {
        return false;
    }
    known.collections.insert(name.to_owned(), ident);
    known.records.insert(ident.0);
    let indexes = doc.get("indexes").as_array();
    for index in indexes.iter().flat_map(|list| list.iter()) {
        let number = index.as_doc().map(|index| number::truncate_to_i64(index.get("ident")));
        if let Some(Some(number)) = number
            && let Ok(ident) = u32::try_from(number)
        {
            known.indexes.insert(ident);
        }
    }
    known.kept.extend(kept.map(|kept| (ident, kept)));
    true
}

/// Returns true if the record key is a record id (a number). No key string begins like the encoding of numbers from
/// 0 to 2^56.
fn is_numbered(key: &[u8], ident: Ident) -> bool {
    let at = ident.bytes().len() + usize::from(ident.stripes_power() > 0);
    key.len() == at + 8 && key[at] == 0x80
}

/// Returns true if the records of an ident are clustered by `_id`.
fn is_clustered(on: &dyn Engine, space: Space, ident: u32) -> Result<bool> {
    let ident = Ident(ident);
    let mut cursor = on.latest().cursor(space, &ident.bytes(), &ident.end()).map_err(engine)?;
    Ok(cursor.seek(&ident.bytes()).map_err(engine)? && !is_numbered(cursor.key(), ident))
}

/// Every ident that has keys in the space. Costs one seek per ident.
fn idents(on: &dyn Engine, space: Space) -> Result<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    let mut cursor = on.latest().cursor(space, &[], &[]).map_err(engine)?;
    let mut found = cursor.seek(&[]).map_err(engine)?;
    while found {
        let Some(bytes) = cursor.key().first_chunk::<4>().copied() else {
            found = cursor.next().map_err(engine)?;
            continue;
        };
        let ident = u32::from_be_bytes(bytes);
        all.insert(ident);
        let Some(next) = ident.checked_add(1) else { break };
        found = cursor.seek(&next.to_be_bytes()).map_err(engine)?;
    }
    Ok(all)
}

fn free_name(known: &Known, ident: u32) -> String {
    let plain = format!("{ORPHANS_DATABASE}.orphan.{ident}");
    let numbered = (1..).map(|n| format!("{plain}-{n}"));
    std::iter::once(plain.clone()).chain(numbered).find(|name| !known.has(name)).unwrap_or(plain)
}

/// The entry of a collection of which only the records survive; its `_id` index is empty.
fn orphan(name: &str, space: Space, index: u32, clustered: bool) -> DocBuf {
    let uuid = Uuid::random();
    let spec = if clustered { IndexSpec::clustered("_id_", None) } else { IndexSpec::id() };
    DocBuf::build(|w| {
        w.put("ns", name);
        w.put("uuid", Value::Binary(Binary { subtype: 4, bytes: &uuid.0 }));
        w.doc("options", |w| {
            if clustered {
                w.put("clusteredIndex", &catalog::clustered_listed("_id_"));
            }
        });
        if space != Space::Records {
            w.put("space", space as i32);
        }
        if clustered {
            w.put("layout", LAYOUT_IDS as i32);
        }
        w.array("indexes", |w| {
            w.doc(|w| {
                w.put("spec", Value::from(&spec.doc));
                w.put("ident", i64::from(index));
                w.put("ready", true);
                w.put("keyedAlone", true);
            });
        });
    })
}

/// A range of storage keys, displayed as text: `records of collection 7 from 120 to 260`.
pub struct LostRange<'a> {
    pub space: Space,
    pub from: &'a [u8],
    pub to: Option<&'a [u8]>,
}

impl fmt::Display for LostRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |f: &mut fmt::Formatter<'_>, key: &[u8]| match (key.len(), key.first_chunk()) {
            (0, _) => f.write_str("the beginning"),
            (_, Some(ident)) => {
                write!(f, "{}", u32::from_be_bytes(*ident))?;
                match key[4..].first_chunk().filter(|_| self.space.is_records()) {
                    Some(id) if is_numbered(key, Ident(0)) => {
                        write!(f, " record {}", number_of(*id))
                    }
                    Some(_) => write!(f, " record {:02x?}", &key[4..]),
                    None => Ok(()),
                }
            }
            (_, None) => write!(f, "{key:02x?}"),
        };
        write!(f, "{} from ident ", self.space.name())?;
        end(f, self.from)?;
        f.write_str(" to ")?;
        match self.to {
            Some(to) => {
                f.write_str("ident ")?;
                end(f, to)
            }
            None => f.write_str("the end"),
        }
    }
}
