//! Sections of `serverStatus` about indexes: their number and uses by feature.

use nagi_budget::Pool;
use nagi_store::Index;

use crate::core::command::prelude::*;
use crate::core::server::Server;

/// A feature, and which indexes have it.
type Feature = (&'static str, Has);

enum Has {
    /// Those of the kind with the feature's name.
    Kind,
    /// Those that the function selects.
    Property(fn(&Index) -> bool),
}

impl Has {
    fn holds(&self, name: &str, index: &Index) -> bool {
        match self {
            Has::Kind => kind(index) == name,
            Has::Property(has) => has(index),
        }
    }
}

fn kind(index: &Index) -> &'static str {
    index.spec.kind.facts().name
}

/// Returns true if an index has a plain key, and none of the kinds that are features of their own.
fn is_normal(index: &Index) -> bool {
    let kind = index.spec.kind.facts().name;
    !index.spec.is_id()
        && !FEATURES.iter().any(|(name, has)| matches!(has, Has::Kind) && *name == kind)
}

/// Sorted by name, as in MongoDB.
static FEATURES: &[Feature] = &[
    ("2d", Has::Kind),
    ("2dsphere", Has::Kind),
    ("2dsphere_bucket", Has::Kind),
    ("collation", Has::Property(|index| index.spec.collation.is_some())),
    ("compound", Has::Property(|index| index.spec.key.len() > 1)),
    ("hashed", Has::Kind),
    ("id", Has::Property(|index| index.spec.is_id())),
    ("normal", Has::Property(is_normal)),
    ("partial", Has::Property(|index| index.spec.partial.is_some())),
    ("prepareUnique", Has::Property(|index| index.spec.prepare_unique)),
    ("single", Has::Property(|index| !index.spec.is_id() && index.spec.key.len() == 1)),
    ("sparse", Has::Property(|index| index.spec.sparse)),
    ("text", Has::Kind),
    ("ttl", Has::Property(|index| index.spec.expire_after_seconds.is_some())),
    ("unique", Has::Property(|index| index.spec.unique)),
    ("wildcard", Has::Kind),
];

/// The section `indexStats`: indexes of all databases but the server's own, and their uses by reads. Visits the
/// catalog.
pub(super) fn write(server: &Server, out: &mut DocWriter<'_>) {
    let catalog = server.store.catalog();
    let mut total = 0_i64;
    let mut sums = vec![(0_i64, 0_i64); FEATURES.len()];
    let own = ["admin", "config", "local"];
    for collection in catalog.iter().filter(|c| !c.is_view()) {
        if own.contains(&collection.namespace.database()) {
            continue;
        }
        for index in collection.ready_indexes() {
            total += 1;
            let uses = i64::try_from(index.uses().0).unwrap_or(i64::MAX);
            for ((name, has), (count, accesses)) in FEATURES.iter().zip(&mut sums) {
                if has.holds(name, index) {
                    *count += 1;
                    *accesses = accesses.saturating_add(uses);
                }
            }
        }
    }
    out.put("count", total);
    out.doc("features", |out| {
        for ((name, _), (count, accesses)) in FEATURES.iter().zip(sums) {
            out.doc(name, |out| {
                out.put("count", count);
                out.put("accesses", accesses);
            });
        }
    });
}

/// The section `indexBuilds`: builds since the start.
pub(super) fn builds(server: &Server, out: &mut DocWriter<'_>) {
    out.put("total", server.metrics.index_builds.get());
}

/// The section `indexBulkBuilder`: builds whose keys were sorted first. An interrupted build begins again, so none is
/// resumed.
pub(super) fn bulk_builder(server: &Server, out: &mut DocWriter<'_>) {
    let figures = server.store.bulk_build_figures();
    out.put("count", figures.indexes as i64);
    out.put("resumed", 0_i64);
    out.put("filesOpenedForExternalSort", figures.spills_opened as i64);
    out.put("filesClosedForExternalSort", figures.spills_closed as i64);
    out.put("spilledRanges", figures.spilled_runs as i64);
    out.put("bytesSpilledUncompressed", figures.spilled_bytes as i64);
    out.put("bytesSpilled", figures.written_bytes as i64);
    out.put("numSorted", figures.sorted_keys as i64);
    out.put("bytesSorted", figures.sorted_bytes as i64);
    out.put("memUsage", server.budget().pool(Pool::IndexBuilds).used as i64);
}
