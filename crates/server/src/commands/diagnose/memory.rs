//! Memory use of the process for `serverStatus`: the pools, the caches, and the measurements of the memory
//! watcher.

use nagi_budget::{Division, Pool, bound};
use nagi_store::CacheEstimate;

use crate::advice::TARGET;
use crate::core::command::prelude::*;
use crate::core::server::Server;

/// Sizes of a cache for which a hit rate is shown, as multiples of the present one.
const ESTIMATED_TIMES: [f64; 7] = [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0];

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
            write_estimate(server.store.record_cache_estimate().as_ref(), records);
        });
        caches.doc("blocks", |blocks| {
            server.store.engine().stats(&mut |name, value| match name {
                "cache_bytes" => blocks.put("usedBytes", value),
                "cache_capacity_bytes" => blocks.put("limitBytes", value),
                "memtable_bytes" => blocks.put("memtableBytes", value),
                _ => {}
            });
            write_estimate(server.store.engine().cache_estimate().as_ref(), blocks);
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

/// Writes what a cache of another size would do; nothing while that is not known.
fn write_estimate(estimate: Option<&CacheEstimate>, out: &mut DocWriter<'_>) {
    let Some(estimate) = estimate else { return };
    out.doc("estimate", |out| {
        write_curve(estimate, out);
        if let Some(bytes) = estimate.bytes_for(TARGET) {
            out.put("bytesFor99Percent", int(bytes));
        }
    });
}

/// Writes the expected hit rates by size, and the number of reads behind them.
pub(super) fn write_curve(estimate: &CacheEstimate, out: &mut DocWriter<'_>) {
    out.put("sampledReads", int(estimate.sampled));
    out.array("sizes", |list| {
        for times in ESTIMATED_TIMES {
            let bytes = (estimate.capacity as f64 * times) as u64;
            let Some(rate) = estimate.hit_rate(bytes) else { continue };
            list.doc(|one| {
                one.put("times", times);
                one.put("bytes", int(bytes));
                one.put("hitRate", rate);
            });
        }
    });
}

fn int(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
