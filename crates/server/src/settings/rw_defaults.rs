//! The default read and write concern of a replica set, as `setDefaultRWConcern` sets them. They are stored in
//! `config.settings`, as in MongoDB.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result, bail};
use nagi_store::Store;
use parking_lot::{Mutex, RwLock};

use crate::clock;
use crate::request::concern::{ReadConcern, WriteConcern, WriteNodes};
use crate::settings::persisted;

const COLLECTION: &str = "settings";
const ID: &str = "ReadWriteConcernDefaults";

/// The concerns that were set. Without any, the implicit defaults apply.
#[derive(Default, Clone)]
struct Chosen {
    read_level: Option<String>,
    write: Option<WriteConcern<'static>>,
    /// The cluster time and the wall-clock time of the last change.
    updated: Option<(u64, i64)>,
}

impl Chosen {
    /// Reads the stored document.
    fn parse(stored: Option<Doc<'_>>) -> Result<Chosen> {
        let mut chosen = Chosen::default();
        let Some(doc) = stored else { return Ok(chosen) };
        let read = doc.get("defaultReadConcern").as_doc().map(|doc| doc.get("level"));
        chosen.read_level = read.and_then(|level| level.as_str()).map(str::to_owned);
        if let Value::Doc(write) = doc.get("defaultWriteConcern") {
            chosen.write = owned(&WriteConcern::parse_doc(write)?);
        }
        if let (Value::Timestamp(at), Value::DateTime(ms)) =
            (doc.get("updateOpTime"), doc.get("updateWallClockTime"))
        {
            chosen.updated = Some((at, ms));
        }
        Ok(chosen)
    }

    fn read_number(&self) -> u8 {
        let level = self.read_level.as_deref();
        let at = READ_LEVELS.iter().position(|known| Some(*known) == level);
        at.map_or(0, |at| at as u8 + 1)
    }
}

/// Levels that may be defaults.
const READ_LEVELS: [&str; 3] = ["local", "available", "majority"];

#[derive(Default)]
pub(crate) struct RwDefaults {
    chosen: RwLock<Chosen>,
    /// The read level again, as its position in [`READ_LEVELS`] + 1: queries read it without a lock.
    read_default: AtomicU8,
    /// One at a time reads them: the last one has read last.
    rereading: Mutex<()>,
    /// When they were last read or changed on this server, in milliseconds since 1970.
    local_ms: std::sync::atomic::AtomicI64,
}

impl RwDefaults {
    pub(crate) fn open(store: &Store) -> Result<RwDefaults> {
        let defaults = RwDefaults::default();
        let stored = persisted::read(store, COLLECTION, ID)?;
        defaults.choose(Chosen::parse(stored.as_ref().map(DocBuf::as_doc))?);
        Ok(defaults)
    }

    /// Reads them anew. Concerns that a client has written into the collection itself, and that are none, are not used.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn reread(&self, store: &Store) -> Result<()> {
        let _one = self.rereading.lock();
        let stored = persisted::read(store, COLLECTION, ID)?;
        match Chosen::parse(stored.as_ref().map(DocBuf::as_doc)) {
            Ok(chosen) => self.choose(chosen),
            Err(error) => log::warn!(target: "COMMAND", id = 8_200_401, error = error.message();
                "The stored default read and write concern cannot be used; the ones before stay in use"),
        }
        Ok(())
    }

    fn choose(&self, chosen: Chosen) {
        self.read_default.store(chosen.read_number(), Relaxed);
        *self.chosen.write() = chosen;
        self.local_ms.store(clock::wall_ms(), Relaxed);
    }

    /// The default write concern, if one was set.
    pub(crate) fn write_concern(&self) -> Option<WriteConcern<'static>> {
        self.chosen.read().write
    }

    /// The default level of reads, if one was set.
    pub(crate) fn read_level(&self) -> Option<&'static str> {
        let number = usize::from(self.read_default.load(Relaxed));
        READ_LEVELS.get(number.checked_sub(1)?).copied()
    }

    /// Runs `setDefaultRWConcern`. An empty read concern unsets the default; the write concern cannot be unset.
    ///
    /// # Errors
    /// 2 for concerns that are not allowed as defaults, 20 for an attempt to unset the write concern.
    pub(crate) fn set(
        &self,
        store: &Store,
        read: Option<Doc<'_>>,
        write: Option<Doc<'_>>,
        now: u64,
    ) -> Result<()> {
        if read.is_none() && write.is_none() {
            bail!(
                Code::BAD_VALUE,
                "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" fields must \
                 be present"
            );
        }
        let read = read.map(read_level).transpose()?;
        let unsets_write = write.is_some_and(|write| write.is_empty());
        let write = write.filter(|write| !write.is_empty()).map(write_default).transpose()?;
        persisted::change(store, COLLECTION, ID, &mut |stored| {
            let mut chosen = Chosen::parse(stored)?;
            if unsets_write && chosen.write.is_some() {
                bail!(
                    Code::ILLEGAL_OPERATION,
                    "The global default write concern cannot be unset once it is set."
                );
            }
            if let Some(level) = &read {
                chosen.read_level.clone_from(level);
            }
            chosen.write = write.or(chosen.write);
            chosen.updated = Some((now, clock::wall_ms()));
            Ok(DocBuf::build(|w| {
                w.put("_id", ID);
                write_chosen(&chosen, w);
            }))
        })?;
        self.reread(store)
    }

    /// Appends the fields of `getDefaultRWConcern`; `implicit` is the write concern if none was set.
    pub(crate) fn write(&self, implicit: &WriteConcern<'_>, out: &mut DocWriter<'_>) {
        let chosen = self.chosen.read();
        let source = |set: bool| if set { "global" } else { "implicit" };
        let level = chosen.read_level.as_deref();
        out.doc("defaultReadConcern", |doc| doc.put("level", level.unwrap_or("local")));
        out.doc("defaultWriteConcern", |doc| {
            chosen.write.as_ref().unwrap_or(implicit).write(doc);
        });
        write_updated(&chosen, out);
        out.put("defaultWriteConcernSource", source(chosen.write.is_some()));
        out.put("defaultReadConcernSource", source(level.is_some()));
    }

    /// When they were last read or changed on this server.
    pub(crate) fn local_ms(&self) -> i64 {
        self.local_ms.load(Relaxed)
    }
}

fn write_chosen(chosen: &Chosen, out: &mut DocWriter<'_>) {
    if let Some(level) = &chosen.read_level {
        out.doc("defaultReadConcern", |doc| doc.put("level", level.as_str()));
    }
    if let Some(write) = &chosen.write {
        out.doc("defaultWriteConcern", |doc| write.write(doc));
    }
    write_updated(chosen, out);
}

fn write_updated(chosen: &Chosen, out: &mut DocWriter<'_>) {
    if let Some((at, ms)) = chosen.updated {
        out.put("updateOpTime", Value::Timestamp(at));
        out.put("updateWallClockTime", Value::DateTime(ms));
    }
}

fn read_level(doc: Doc<'_>) -> Result<Option<String>> {
    let concern = ReadConcern::parse(Value::Doc(doc))?;
    for (name, given) in [
        ("afterClusterTime", concern.after_cluster_time.is_some()),
        ("atClusterTime", concern.at_cluster_time.is_some()),
    ] {
        if given {
            bail!(Code::BAD_VALUE, "'{name}' is not suitable for the default read concern");
        }
    }
    match concern.level {
        None | Some("local" | "available" | "majority") => Ok(concern.level.map(str::to_owned)),
        Some(level @ ("linearizable" | "snapshot")) => {
            bail!(Code::BAD_VALUE, "level: '{level}' is not suitable for the default read concern")
        }
        Some(level) => bail!(
            Code::BAD_VALUE,
            "Enumeration value '{level}' for field 'readConcern.level' is not a valid value."
        ),
    }
}

fn write_default(doc: Doc<'_>) -> Result<WriteConcern<'static>> {
    let concern = WriteConcern::parse_doc(doc)?;
    if concern.nodes == WriteNodes::Count(0) {
        bail!(
            Code::BAD_VALUE,
            "Unacknowledged write concern is not suitable for the default write concern"
        );
    }
    match (owned(&concern), concern.nodes) {
        (Some(concern), _) => Ok(concern),
        (None, WriteNodes::Other(mode)) => bail!(
            Code::UNKNOWN_REPL_WRITE_CONCERN,
            "No write concern mode named '{mode}' found in replica set configuration"
        ),
        (None, _) => bail!(Code::BAD_VALUE, "the write concern is not suitable for the default"),
    }
}

/// The same concern without borrowed parts; `None` for a named mode.
fn owned(concern: &WriteConcern<'_>) -> Option<WriteConcern<'static>> {
    let nodes = match concern.nodes {
        WriteNodes::Count(count) => WriteNodes::Count(count),
        WriteNodes::Majority => WriteNodes::Majority,
        WriteNodes::Other(_) => return None,
    };
    let (journal, timeout_ms) = (concern.journal, concern.timeout_ms);
    Some(WriteConcern { nodes, journal, timeout_ms })
}
