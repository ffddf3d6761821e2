//! Sections of `serverStatus` about indexes: their number and uses by feature.

use nagi_store::Index;

use crate::core::command::prelude::*;
use crate::core::server::Server;

/// A feature, and which indexes have it.
type Feature = (&'static str, fn(&Index) -> bool);

fn kind(index: &Index) -> &'static str {
    index.spec.kind.facts().name
}

/// Sorted by name, as in MongoDB.
static FEATURES: &[Feature] = &[
    ("2d", |index| kind(index) == "2d"),
    ("2dsphere", |index| kind(index) == "2dsphere"),
    ("2dsphere_bucket", |index| kind(index) == "2dsphere_bucket"),
    ("collation", |index| index.spec.collation.is_some()),
    ("compound", |index| index.spec.key.len() > 1),
    ("hashed", |index| kind(index) == "hashed"),
    ("id", |index| index.spec.is_id()),
    ("normal", |index| !index.spec.is_id() && kind(index) == "btree"),
    ("partial", |index| index.spec.partial.is_some()),
    ("prepareUnique", |index| index.spec.prepare_unique),
    ("single", |index| !index.spec.is_id() && index.spec.key.len() == 1),
    ("sparse", |index| index.spec.sparse),
    ("text", |index| kind(index) == "text"),
    ("ttl", |index| index.spec.expire_after_seconds.is_some()),
    ("unique", |index| index.spec.unique),
    ("wildcard", |index| kind(index) == "wildcard"),
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
            for ((_, has), (count, accesses)) in FEATURES.iter().zip(&mut sums) {
                if has(index) {
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
