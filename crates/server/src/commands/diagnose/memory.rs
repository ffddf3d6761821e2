//! Memory use of the process for `serverStatus`: the pools, the caches, and the measurements of the memory
//! watcher.

use nagi_budget::{Division, Pool, bound};

use crate::core::command::prelude::*;
use crate::core::server::Server;

/// Writes the section `nagi.memory`, in bytes. Without a budget the limits are absent.
pub(super) fn write(server: &Server, out: &mut DocWriter<'_>) {
    let budget = server.store.budget();
    let gauges = budget.gauges();
    if let Some(bytes) = budget.bytes() {
        out.put("budgetBytes", int(bytes));
        out.put("boundBytes", int(bound(bytes)));
        out.put("engineBytes", int(Division::of(bytes).engine));
    }
    out.put("residentBytes", int(gauges.resident));
    out.put("residentBytesMax", int(gauges.resident_peak));
    out.put("allocatedBytes", int(gauges.allocated.unwrap_or(0)));
    out.put("allocatorResidentBytes", int(gauges.allocator_resident.unwrap_or(0)));
    out.doc("caches", |caches| {
        let (used, most) = server.store.record_cache_bytes();
        caches.put("bytes", int(budget.cache_bytes()));
        caches.put("squeezedBytes", int(budget.squeezed()));
        caches.doc("records", |records| {
            records.put("usedBytes", int(used));
            records.put("limitBytes", int(most));
            let (hits, misses) = server.store.record_cache_reads();
            records.put("hits", int(hits));
            records.put("misses", int(misses));
        });
        caches.doc("blocks", |blocks| {
            server.store.engine().stats(&mut |name, value| match name {
                "cache_bytes" => blocks.put("usedBytes", value),
                "cache_capacity_bytes" => blocks.put("limitBytes", value),
                "memtable_bytes" => blocks.put("memtableBytes", value),
                _ => {}
            });
        });
    });
    out.doc("pools", |pools| {
        for pool in Pool::ALL {
            let state = budget.pool(pool);
            pools.doc(pool.name(), |one| {
                one.put("usedBytes", int(state.used));
                one.put("peakBytes", int(state.peak));
                if budget.bytes().is_some() {
                    one.put("limitBytes", int(state.limit));
                }
                one.put("waited", int(state.waited));
                one.put("refused", int(state.refused));
            });
        }
    });
    out.put("purges", int(gauges.purge_count));
    out.put("squeezes", int(gauges.squeeze_count));
    out.put("timesOverBound", int(gauges.over_count));
}

fn int(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
