//! Query settings: persistent, server-wide settings that a query finds by the hash of its shape.
//!
//! ```text
//!   setQuerySettings --> {_id: "querySettings", settingsArray: [...]} in config.clusterParameters
//!                   \--> the map below <-- a find, distinct or aggregate, by the hash of its shape
//! ```
//!
//! Without any settings, a query costs one load here. The hash is SHA-256 of the shape that [`nagi_query::query_shape`]
//! derives from a command.
//!
//! Invariants
//! - Acknowledged settings are on disk: the map is read from the document, also when another node has changed it.
//! - All settings together are one document, which bounds their size. Their memory is charged to the plans' pool.

mod spec;

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use nagi_bson::{ArrayBuf, Doc, DocBuf, DocWriter, Value};
use nagi_budget::{Charge, Pool};
use nagi_error::{Code, Result, bail};
use nagi_query::QuerySettings;
use nagi_store::Store;
use parking_lot::{Mutex, RwLock};
use sha2::{Digest, Sha256};

use crate::metrics::Counter;
use crate::request::Request;
use crate::settings::persisted;

/// The hash of a query shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeHash([u8; 32]);

impl ShapeHash {
    /// The hash of a find, distinct or aggregate; `None` for other commands.
    pub(crate) fn of(db: &str, command: Doc<'_>) -> Option<ShapeHash> {
        nagi_query::query_shape(db, command).map(|shape| ShapeHash::of_shape(&shape))
    }

    fn of_shape(shape: &DocBuf) -> ShapeHash {
        ShapeHash::of_bytes(shape.as_bytes())
    }

    /// The hash of a shape's bytes.
    pub(crate) fn of_bytes(shape: &[u8]) -> ShapeHash {
        ShapeHash(Sha256::digest(shape).into())
    }

    /// Reads 64 hexadecimal digits.
    fn parse(text: &str) -> Option<ShapeHash> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(ShapeHash(bytes))
    }

    pub(crate) fn hex(self) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            write!(text, "{byte:02X}").expect("a string takes everything");
        }
        text
    }
}

/// The settings of one shape.
struct Kept {
    settings: Arc<QuerySettings>,
    /// A query of the shape, with `$db`; `None` if the settings were only set by the hash.
    query: Option<DocBuf>,
    _memory: Charge,
}

impl Kept {
    /// Returns true if the stored entry says the same.
    fn is_stored_as(&self, entry: Doc<'_>) -> bool {
        let query = entry.get("representativeQuery").as_doc();
        self.settings.shown().as_bytes() == settings_of(entry).as_bytes()
            && self.query.as_ref().map(DocBuf::as_bytes) == query.map(|query| query.as_bytes())
    }
}

type Map = BTreeMap<ShapeHash, Arc<Kept>>;

/// All settings.
pub(crate) struct AllQuerySettings {
    /// The number of settings: the usual case, none, costs one load.
    count: AtomicUsize,
    kept: RwLock<Map>,
    /// One at a time reads them: the last one has read last.
    rereading: Mutex<()>,
    rejected: Counter,
}

/// The shape whose settings a command changes.
pub(crate) enum Target<'a> {
    Hash(ShapeHash),
    /// A query, and the hash of its shape.
    Query(Doc<'a>, ShapeHash),
}

impl<'a> Target<'a> {
    /// Reads a hash, or a query with `$db`.
    ///
    /// # Errors
    /// 7746402 for a command that has no settings, 40414 without `$db`, 2 for an invalid hash.
    pub(crate) fn parse(command: &str, value: Value<'a>) -> Result<Target<'a>> {
        match value {
            Value::String(text) => match ShapeHash::parse(text) {
                Some(hash) => Ok(Target::Hash(hash)),
                None => bail!(
                    Code::BAD_VALUE,
                    "'{text}' is not a query shape hash: 64 hexadecimal digits"
                ),
            },
            Value::Doc(query) => {
                let name = query.first().map_or("", |first| first.name());
                if !nagi_query::has_query_shape(name) {
                    bail!(
                        Code::Location(7_746_402),
                        "QueryShape can not be computed for command: {}",
                        nagi_bson::text::doc_text(query)
                    );
                }
                let Value::String(db) = query.get("$db") else {
                    bail!(
                        Code::IDL_FAILED_TO_PARSE,
                        "BSON field '{command}.$db' is missing but a required field"
                    );
                };
                match ShapeHash::of(db, query) {
                    Some(hash) => Ok(Target::Query(query, hash)),
                    None => bail!(
                        Code::Location(7_746_605),
                        "Collection namespace string must be provided for setQuerySettings command"
                    ),
                }
            }
            other => bail!(
                Code::TYPE_MISMATCH,
                "BSON field '{command}.{command}' is the wrong type '{}', expected types '[string, \
                 object]'",
                other.kind().name()
            ),
        }
    }

    pub(crate) fn hash(&self) -> ShapeHash {
        match self {
            Target::Hash(hash) | Target::Query(_, hash) => *hash,
        }
    }
}

impl AllQuerySettings {
    /// Reads the stored settings. Unreadable ones are skipped with a warning.
    pub(crate) fn open(store: &Store) -> Result<AllQuerySettings> {
        let settings = AllQuerySettings {
            count: AtomicUsize::new(0),
            kept: RwLock::default(),
            rereading: Mutex::new(()),
            rejected: Counter::default(),
        };
        settings.reread(store)?;
        Ok(settings)
    }

    /// Reads the stored settings anew.
    pub(crate) fn reread(&self, store: &Store) -> Result<()> {
        let _one = self.rereading.lock();
        let (before, mut map) = (self.kept.read().clone(), Map::new());
        let stored = read(store)?;
        for entry in entries(stored.as_ref().map(DocBuf::as_doc)) {
            let Some(hash) = hash_of(entry) else { continue };
            if let Some(same) = before.get(&hash).filter(|kept| kept.is_stored_as(entry)) {
                map.insert(hash, Arc::clone(same));
                continue;
            }
            let settings = spec::merge(None, settings_of(entry));
            match settings.and_then(|settings| keep(store, settings, query_of(entry))) {
                Ok(kept) => drop(map.insert(hash, kept)),
                Err(error) => log::warn!(target: "QUERY", id = 8_911_801,
                    error = error.message(); "Query settings cannot be read and are not used"),
            }
        }
        self.count.store(map.len(), Relaxed);
        *self.kept.write() = map;
        Ok(())
    }

    /// The settings of a request's shape, for its `Env`.
    pub(crate) fn of(&self, request: &Request<'_>) -> Option<Arc<QuerySettings>> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let hash = ShapeHash::of(request.db, request.body)?;
        self.kept.read().get(&hash).map(|kept| Arc::clone(&kept.settings))
    }

    /// As [`AllQuerySettings::of`], for a request that is about to run.
    ///
    /// # Errors
    /// 411 if the settings reject the query.
    pub(crate) fn of_running(&self, request: &Request<'_>) -> Result<Option<Arc<QuerySettings>>> {
        let settings = self.of(request);
        let rejects = settings.as_ref().is_some_and(|settings| settings.rejects());
        if rejects && unrejectable(request.body).is_none() {
            self.rejected.increment();
            bail!(Code::QUERY_REJECTED_BY_SETTINGS, "Query rejected by admin query settings");
        }
        Ok(settings)
    }

    /// Creates or changes the settings of a shape, and writes the resulting entry.
    ///
    /// # Errors
    /// Those of the settings and of the query, and 10334 if all settings together exceed a document.
    pub(crate) fn set(
        &self,
        store: &Store,
        target: &Target<'_>,
        given: Doc<'_>,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        let hash = target.hash();
        // Before anything is created.
        let stored = read(store)?;
        changed(store, target, given, stored.as_ref().map(DocBuf::as_doc))?;
        let mut entry = None;
        persisted::change(store, COLLECTION, ID, &mut |stored| {
            let kept = changed(store, target, given, stored)?;
            let new = DocBuf::build(|out| write_entry(hash, &kept, out));
            let replaced = replaced(stored, hash, Some(&new));
            entry = Some(new);
            replaced
        })?;
        self.reread(store)?;
        entry.iter().for_each(|entry| out.extend(entry.as_doc()));
        Ok(())
    }

    /// Removes the settings of a shape.
    ///
    /// # Errors
    /// 7746701 if there are none.
    pub(crate) fn remove(&self, store: &Store, hash: ShapeHash) -> Result<()> {
        let check = |stored: Option<Doc<'_>>| match entry_of(stored, hash) {
            Some(_) => Ok(()),
            None => {
                bail!(Code::Location(7_746_701), "A matching query settings entry does not exist")
            }
        };
        let stored = read(store)?;
        check(stored.as_ref().map(DocBuf::as_doc))?;
        persisted::change(store, COLLECTION, ID, &mut |stored| {
            check(stored)?;
            replaced(stored, hash, None)
        })?;
        self.reread(store)
    }

    /// Returns one document per shape, as `$querySettings` shows them.
    pub(crate) fn list(&self, show_debug_query_shape: bool) -> Vec<DocBuf> {
        let entry = |(hash, kept): (&ShapeHash, &Arc<Kept>)| {
            DocBuf::build(|out| {
                write_entry(*hash, kept, out);
                let query = kept.query.as_ref().filter(|_| show_debug_query_shape);
                let shape = query.and_then(|query| {
                    let query = query.as_doc();
                    nagi_query::query_shape(query.get("$db").as_str().unwrap_or(""), query)
                });
                if let Some(shape) = shape {
                    out.put("debugQueryShape", &shape);
                }
            })
        };
        self.kept.read().iter().map(entry).collect()
    }

    /// The section of `serverStatus`.
    pub(crate) fn write_status(&self, out: &mut DocWriter<'_>) {
        let kept = self.kept.read();
        out.put("count", kept.len() as i64);
        let bytes: u64 = kept.values().map(|kept| kept.settings.bytes()).sum();
        out.put("size", bytes as i64);
        let rejecting = kept.values().filter(|kept| kept.settings.rejects()).count();
        out.put("rejectCount", rejecting as i64);
        out.put("rejectedQueries", self.rejected.get());
    }
}

/// The stored entries.
fn entries(stored: Option<Doc<'_>>) -> impl Iterator<Item = Doc<'_>> {
    let list = stored.and_then(|doc| doc.get("settingsArray").as_array());
    list.into_iter().flat_map(|list| list.iter()).filter_map(|entry| entry.as_doc())
}

fn entry_of(stored: Option<Doc<'_>>, hash: ShapeHash) -> Option<Doc<'_>> {
    entries(stored).find(|entry| hash_of(*entry) == Some(hash))
}

fn hash_of(entry: Doc<'_>) -> Option<ShapeHash> {
    entry.get("queryShapeHash").as_str().and_then(ShapeHash::parse)
}

fn settings_of(entry: Doc<'_>) -> Doc<'_> {
    entry.get("settings").as_doc().unwrap_or(Doc::EMPTY)
}

fn query_of(entry: Doc<'_>) -> Option<DocBuf> {
    entry.get("representativeQuery").as_doc().map(|query| query.to_buf())
}

/// The settings of the shape, changed as a command says.
fn changed(
    store: &Store,
    target: &Target<'_>,
    given: Doc<'_>,
    stored: Option<Doc<'_>>,
) -> Result<Arc<Kept>> {
    let old = entry_of(stored, target.hash());
    let settings = spec::merge(old.map(settings_of), given)?;
    let query = match target {
        Target::Query(query, _) => Some(query.to_buf()),
        Target::Hash(_) => old.and_then(query_of),
    };
    if settings.as_doc().get("reject").is_truthy()
        && let Some(stage) = query.as_ref().and_then(|query| unrejectable(query.as_doc()))
    {
        bail!(
            Code::Location(8_705_200),
            "Setting {{reject:true}} is forbidden for query containing stage: {stage}"
        );
    }
    keep(store, settings, query)
}

/// The document of all settings with another entry of a shape, or without one. Entries are in the order of their
/// hashes.
fn replaced(stored: Option<Doc<'_>>, hash: ShapeHash, new: Option<&DocBuf>) -> Result<DocBuf> {
    let others = entries(stored).filter_map(|entry| Some((hash_of(entry)?, entry)));
    let mut all: BTreeMap<ShapeHash, Doc<'_>> = others.collect();
    all.remove(&hash);
    all.extend(new.map(|new| (hash, new.as_doc())));
    let list = ArrayBuf::build(|list| all.values().for_each(|entry| list.push_doc(*entry)));
    if list.as_array().as_bytes().len() > nagi_query::limits::DOC_BYTES_MAX - 1024 {
        bail!(
            Code::BSON_OBJECT_TOO_LARGE,
            "the query settings together exceed a document of 16 MB"
        );
    }
    Ok(DocBuf::build(|out| {
        out.put("_id", ID);
        out.put("clusterParameterTime", Value::DateTime(crate::clock::wall_ms()));
        out.put("settingsArray", list.as_array());
    }))
}

fn keep(store: &Store, settings: DocBuf, query: Option<DocBuf>) -> Result<Arc<Kept>> {
    let settings = Arc::new(QuerySettings::new(settings)?);
    let query_bytes = query.as_ref().map_or(0, |query| query.as_bytes().len() as u64);
    let mut charge = Charge::empty(store.budget(), Pool::Plans);
    if !charge.try_grow(settings.bytes() + query_bytes) {
        bail!(Code::EXCEEDED_MEMORY_LIMIT, "no memory is left for query settings");
    }
    Ok(Arc::new(Kept { settings, query, _memory: charge }))
}

fn write_entry(hash: ShapeHash, kept: &Kept, out: &mut DocWriter<'_>) {
    out.put("queryShapeHash", hash.hex().as_str());
    out.put("settings", kept.settings.shown());
    if let Some(query) = &kept.query {
        out.put("representativeQuery", query);
    }
}

/// The first stage of the command's pipeline, if it is one that must not be rejected.
pub(crate) fn unrejectable(command: Doc<'_>) -> Option<&str> {
    let Value::Array(stages) = command.get("pipeline") else { return None };
    let first = stages.iter().next()?.as_doc()?.first()?.name();
    (!nagi_query::stage_facts(first).rejectable).then_some(first)
}

const COLLECTION: &str = "clusterParameters";
const ID: &str = "querySettings";

fn read(store: &Store) -> Result<Option<DocBuf>> {
    persisted::read(store, COLLECTION, ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read_as_they_are_written() {
        let command = nagi_bson::doc! { "find": "c" };
        let hash = ShapeHash::of("d", command.as_doc()).expect("a find has a shape");
        assert_eq!(ShapeHash::parse(&hash.hex()), Some(hash));
        assert_eq!(ShapeHash::parse(&hash.hex().to_lowercase()), Some(hash));
        assert_eq!(ShapeHash::parse(&hash.hex()[1..]), None);
        assert_eq!(ShapeHash::parse(&"x".repeat(64)), None);
        assert_eq!(ShapeHash::parse(&"\u{e9}".repeat(32)), None);
    }
}
