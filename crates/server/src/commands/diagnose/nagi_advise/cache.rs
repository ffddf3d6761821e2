//! How large the caches would have to be.

use nagi_store::CacheEstimate;

use super::super::memory::write_curve;
use super::Scope;
use crate::advice::{CacheSize, budget_with};
use crate::core::command::prelude::*;

/// What `cacheSizeGB` is rounded up to.
const STEP_BYTES: u64 = 1 << 26;

/// The caches of which enough is known, by their names in `serverStatus`, and the advice.
#[derive(Default)]
pub(super) struct Found {
    known: Vec<(&'static str, CacheSize)>,
    pub(super) advice: Option<Advice>,
}

/// A larger cache of blocks.
pub(super) struct Advice {
    estimate: CacheEstimate,
    size: CacheSize,
    wanted_bytes: u64,
    /// The memory budget now, and with the larger cache; `None` for a server without a budget.
    budget: Option<(u64, u64)>,
    /// Memory that the process may use; `None` if it is not known.
    memory_bytes: Option<u64>,
}

/// Reads the estimates. They are those of `serverStatus`, so they need the right to see it; and they concern all
/// databases, so there are none if the advice is for one of them.
pub(super) fn find(cx: &Context<'_>, scope: &Scope<'_>) -> Found {
    if scope.database.is_some() || !cx.asking().on_cluster(Action::ServerStatus) {
        return Found::default();
    }
    let store = cx.store();
    let (records, blocks) = (store.record_cache_estimate(), store.engine().cache_estimate());
    let size = |estimate: &Option<CacheEstimate>| estimate.as_ref().and_then(CacheSize::of);
    let sizes = [("records", size(&records)), ("blocks", size(&blocks))];
    let known = sizes.into_iter().filter_map(|(name, size)| Some((name, size?))).collect();
    let budget = store.budget().bytes();
    Found { known, advice: blocks.and_then(|estimate| advise(estimate, budget)) }
}

fn advise(estimate: CacheEstimate, budget: Option<u64>) -> Option<Advice> {
    let size = CacheSize::of(&estimate)?;
    let wanted_bytes = size.wanted_bytes()?;
    let larger = |present| {
        let exact = budget_with(present, wanted_bytes - size.limit_bytes);
        (present, exact.next_multiple_of(STEP_BYTES))
    };
    let memory_bytes = nagi_proc::cgroup::memory_bytes();
    Some(Advice { estimate, size, wanted_bytes, budget: budget.map(larger), memory_bytes })
}

impl Found {
    /// Writes what is known of each cache.
    pub(super) fn write_known(&self, out: &mut DocWriter<'_>) {
        out.array("caches", |list| {
            for (name, size) in &self.known {
                list.doc(|out| {
                    out.put("cache", *name);
                    out.put("limitBytes", int(size.limit_bytes));
                    out.put("hitRate", size.hit_rate);
                    if let Some(bytes) = size.enough_bytes {
                        out.put("bytesFor99Percent", int(bytes));
                    }
                    out.put("sampledReads", int(size.sampled_reads));
                });
            }
        });
    }
}

impl Advice {
    pub(super) fn write(&self, out: &mut DocWriter<'_>) {
        out.put("kind", "cacheSize");
        out.put("cache", "blocks");
        out.put("reason", self.reason().as_str());
        out.put("presentBytes", int(self.size.limit_bytes));
        out.put("bytesFor99Percent", int(self.wanted_bytes));
        if let Some((present, wanted)) = self.budget {
            out.put("option", "storage.wiredTiger.engineConfig.cacheSizeGB");
            out.put("presentCacheSizeGB", gib(present));
            out.put("cacheSizeGB", gib(wanted));
        }
        if let Some(bytes) = self.memory_bytes {
            out.put("memoryBytes", int(bytes));
        }
        out.doc("measured", |out| write_curve(&self.estimate, out));
    }

    fn reason(&self) -> String {
        let percent = self.size.hit_rate * 100.0;
        let beyond = match (self.budget, self.memory_bytes) {
            (Some((_, wanted)), Some(memory)) if wanted > memory => {
                "; the server would need more memory than the machine has"
            }
            _ => "",
        };
        format!(
            "the cache of blocks answers about {percent:.1} % of its reads, the others go to the disk; with \
             {:.1} times its size it would answer 99 %{beyond}",
            self.wanted_bytes as f64 / self.size.limit_bytes.max(1) as f64
        )
    }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1_u64 << 30) as f64
}

fn int(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
