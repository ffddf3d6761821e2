//! Cluster parameters: documents that `setClusterParameter` changes, stored in `config.clusterParameters`.
//!
//! A row of the table defines the fields of a parameter. `querySettings` is listed here, but its own commands change
//! it.

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result, bail, err};
use nagi_store::Store;
use parking_lot::{Mutex, RwLock};

use crate::number::truncate;
use crate::settings::persisted;

/// What the audit log records, where that may change at run time.
pub(crate) const AUDIT_CONFIG: &str = "auditConfig";

const COLLECTION: &str = "clusterParameters";

/// A parameter: its name, its default fields, and the check of a new value.
struct Row {
    name: &'static str,
    default: fn(&mut DocWriter<'_>),
    /// Checks a new value and appends the fields in stored form; `None`: other commands set the parameter.
    check: Option<fn(Doc<'_>, &mut DocWriter<'_>) -> Result<()>>,
}

/// Sorted by name.
static ROWS: &[Row] = &[
    Row {
        name: AUDIT_CONFIG,
        default: |out| {
            out.put("filter", Doc::EMPTY);
            out.put("auditAuthorizationSuccess", false);
        },
        check: Some(audit_config),
    },
    Row {
        name: "changeStreamOptions",
        default: |out| {
            out.doc("preAndPostImages", |out| out.put("expireAfterSeconds", "off"));
        },
        check: Some(change_stream_options),
    },
    Row {
        name: "defaultMaxTimeMS",
        default: |out| out.put("readOperations", 0_i64),
        check: Some(default_max_time),
    },
    Row { name: "querySettings", default: |out| out.array("settingsArray", |_| ()), check: None },
];

/// The values that were set, in the order of the rows.
#[derive(Default)]
pub(crate) struct ClusterParams {
    kept: RwLock<Vec<Option<DocBuf>>>,
    /// One at a time reads them: the last one has read last.
    rereading: Mutex<()>,
    /// `defaultMaxTimeMS.readOperations`: every read loads it.
    read_time_ms: std::sync::atomic::AtomicI64,
}

impl ClusterParams {
    pub(crate) fn open(store: &Store) -> Result<ClusterParams> {
        let params = ClusterParams::default();
        params.reread(store)?;
        Ok(params)
    }

    /// Reads them anew. A get for each.
    pub(crate) fn reread(&self, store: &Store) -> Result<()> {
        let _one = self.rereading.lock();
        // The others are not kept here.
        let read = |row: &Row| match row.check {
            Some(_) => persisted::read(store, COLLECTION, row.name),
            None => Ok(None),
        };
        *self.kept.write() = ROWS.iter().map(read).collect::<Result<_>>()?;
        self.apply(store);
        Ok(())
    }

    fn apply(&self, store: &Store) {
        let kept = self.kept.read();
        let streams = index_of("changeStreamOptions").and_then(|at| kept.get(at)?.as_ref());
        let images = streams.and_then(|doc| doc.get("preAndPostImages").as_doc());
        let seconds = images.and_then(|images| truncate(images.get("expireAfterSeconds")));
        store.keep_pre_images(seconds.map_or(0, |seconds| seconds.max(0) as u64));
        let read_time = index_of("defaultMaxTimeMS").and_then(|at| kept.get(at)?.as_ref());
        let ms = read_time.and_then(|doc| truncate(doc.get("readOperations"))).unwrap_or(0);
        self.read_time_ms.store(ms, std::sync::atomic::Ordering::Relaxed);
    }

    /// The time limit of reads that specify none, in milliseconds; 0: no limit.
    pub(crate) fn read_time_ms(&self) -> i64 {
        self.read_time_ms.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Sets one parameter at cluster time `now`.
    ///
    /// # Errors
    /// 4 for an unknown parameter, 72 for one that other commands set, and those of the fields.
    pub(crate) fn set(&self, store: &Store, name: &str, given: Doc<'_>, now: u64) -> Result<()> {
        let at = index_of(name).ok_or_else(|| unknown(name))?;
        let Some(check) = ROWS[at].check else {
            bail!(
                Code::NO_SUCH_KEY,
                "{name} cannot be set by setClusterParameter: use setQuerySettings"
            );
        };
        let mut fields = Vec::new();
        let mut out = DocWriter::new(&mut fields);
        check(given, &mut out)?;
        out.finish();
        let doc = DocBuf::build(|w| {
            w.put("_id", name);
            w.put("clusterParameterTime", Value::Timestamp(now));
            w.extend(Doc::trusted(&fields));
        });
        persisted::write(store, COLLECTION, doc.as_doc())?;
        self.reread(store)
    }

    /// Returns the parameter as `getClusterParameter` shows it.
    pub(crate) fn show(&self, store: &Store, name: &str) -> Result<DocBuf> {
        let at = index_of(name).ok_or_else(|| unknown(name))?;
        let row = &ROWS[at];
        // A parameter that other commands set is read from where they store it.
        let kept = match row.check {
            Some(_) => self.kept.read()[at].clone(),
            None => persisted::read(store, COLLECTION, row.name)?,
        };
        Ok(kept.unwrap_or_else(|| {
            DocBuf::build(|w| {
                w.put("_id", name);
                (row.default)(w);
            })
        }))
    }
}

/// The names of all parameters.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

fn index_of(name: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.name == name)
}

fn unknown(name: &str) -> nagi_error::Error {
    err!(Code::NO_SUCH_KEY, "Unknown server parameter: {name}")
}

fn only(doc: Doc<'_>, name: &str, field: &str) -> Result<()> {
    match doc.iter().find(|element| element.name() != field) {
        None => Ok(()),
        Some(other) => bail!(
            Code::IDL_UNKNOWN_FIELD,
            "BSON field '{name}.{}' is an unknown field.",
            other.name()
        ),
    }
}

fn audit_config(given: Doc<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let fields = ["filter", "auditAuthorizationSuccess"];
    if let Some(other) = given.iter().find(|element| !fields.contains(&element.name())) {
        bail!(
            Code::IDL_UNKNOWN_FIELD,
            "BSON field 'auditConfig.{}' is an unknown field.",
            other.name()
        );
    }
    let (Value::Doc(filter), Value::Bool(successes)) = (given.get(fields[0]), given.get(fields[1]))
    else {
        bail!(
            Code::BAD_VALUE,
            "auditConfig needs the fields 'filter', a document, and 'auditAuthorizationSuccess', a \
             boolean"
        );
    };
    crate::audit::parse(filter)?;
    out.put(fields[0], filter);
    out.put(fields[1], successes);
    Ok(())
}

fn change_stream_options(given: Doc<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    only(given, "changeStreamOptions", "preAndPostImages")?;
    let images = match given.get("preAndPostImages") {
        Value::Doc(images) => images,
        value if value.is_nullish() => Doc::EMPTY,
        value => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'changeStreamOptions.preAndPostImages' is the wrong type '{}', expected \
             type 'object'",
            value.kind().name()
        ),
    };
    only(images, "preAndPostImages", "expireAfterSeconds")?;
    let seconds = match images.get("expireAfterSeconds") {
        Value::Missing | Value::String("off") => Value::String("off"),
        Value::String(_) => bail!(
            Code::BAD_VALUE,
            "Expected string 'off' for 'preAndPostImages.expireAfterSeconds' parameter"
        ),
        value => match truncate(value) {
            Some(seconds) if seconds > 0 => Value::Int64(seconds),
            None => bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'preAndPostImages.expireAfterSeconds' is the wrong type '{}', expected \
                 types '[string, long, int, decimal, double]'",
                value.kind().name()
            ),
            Some(_) => bail!(
                Code::BAD_VALUE,
                "Expected a positive integer for 'preAndPostImages.expireAfterSeconds' parameter"
            ),
        },
    };
    out.doc("preAndPostImages", |out| out.put("expireAfterSeconds", seconds));
    Ok(())
}

fn default_max_time(given: Doc<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    only(given, "defaultMaxTimeMS", "readOperations")?;
    let value = given.get("readOperations");
    let ms = match truncate(value) {
        None if value.is_missing() => 0,
        Some(ms) if (0..=i64::from(i32::MAX)).contains(&ms) => ms,
        Some(ms) if ms < 0 => bail!(
            Code::Location(51024),
            "BSON field 'readOperations' value must be >= 0, actual value '{ms}'"
        ),
        Some(ms) => bail!(
            Code::Location(51024),
            "BSON field 'readOperations' value must be <= {}, actual value '{ms}'",
            i32::MAX
        ),
        None => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'defaultMaxTimeMS.readOperations' is the wrong type '{}', expected types \
             '[long, int, decimal, double]'",
            value.kind().name()
        ),
    };
    out.put("readOperations", ms);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted() {
        assert!(ROWS.is_sorted_by(|a, b| a.name < b.name));
    }
}
