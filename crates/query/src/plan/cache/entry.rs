//! An entry of the plan cache and its origin, for `$planCacheStats`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use nagi_bson::{ArrayBuf, DocBuf, DocWriter, Value};

use super::{MemoryCharge, Shape, hex};

/// Size of an entry in addition to its documents, in bytes.
const OVERHEAD: u64 = 512;

/// A cached choice.
pub(crate) struct Entry {
    pub(crate) shape: Shape,
    /// The id of the candidate that won: see `Candidate`.
    pub(crate) choice: u64,
    pub(crate) is_active: bool,
    pub(crate) works: u64,
    /// Logical time of the last use.
    pub(super) used: AtomicU64,
    pub(super) charge: Arc<MemoryCharge>,
    pub(super) origin: Arc<Origin>,
}

/// The query for which an entry was made, and its trial.
pub(crate) struct Origin {
    /// `{query, sort, projection, collation}`.
    pub(crate) query: DocBuf,
    pub(crate) plan: DocBuf,
    /// The counters of each candidate in the trial, the winner first.
    pub(crate) trials: ArrayBuf,
    pub(crate) created_ms: i64,
    /// True if an index filter restricted the indexes.
    pub(crate) filtered: bool,
    /// `$planCacheStats` does not show the entry.
    pub(crate) is_hidden: bool,
}

impl Origin {
    pub(super) fn bytes(&self) -> u64 {
        let docs = self.query.as_bytes().len() + self.plan.as_bytes().len();
        (docs + self.trials.as_array().as_bytes().len()) as u64 + OVERHEAD
    }
}

impl Entry {
    /// A copy with another state and number of works.
    pub(super) fn with(&self, is_active: bool, works: u64) -> Entry {
        Entry {
            shape: self.shape,
            choice: self.choice,
            is_active,
            works,
            used: AtomicU64::new(self.used.load(Relaxed)),
            charge: Arc::clone(&self.charge),
            origin: Arc::clone(&self.origin),
        }
    }

    /// Writes the entry as `$planCacheStats` shows it.
    pub(crate) fn write(&self, host: &str, out: &mut DocWriter<'_>) {
        out.put("version", "1");
        out.put("queryHash", hex(self.shape.shape).as_str());
        out.put("planCacheShapeHash", hex(self.shape.shape).as_str());
        out.put("planCacheKey", hex(self.shape.key).as_str());
        out.put("isActive", self.is_active);
        out.put("works", self.works as i64);
        out.put("worksType", "works");
        out.put("timeOfCreation", Value::DateTime(self.origin.created_ms));
        out.put("createdFromQuery", &self.origin.query);
        out.put("cachedPlan", &self.origin.plan);
        out.put("creationExecStats", &self.origin.trials);
        out.put("indexFilterSet", self.origin.filtered);
        out.put("estimatedSizeBytes", self.charge.bytes() as i64);
        out.put("host", host);
    }
}
