//! Gauges of the engine, by name.

use nagi_kv::{Result, Space};
use nagi_kv_disk::capacity::Kind;

use crate::{
    core::Core,
    db::{Db, Stat},
};

/// Calls `visit` for each gauge, sorted by name. Values that cannot be read from the file are left out.
pub(crate) fn visit(core: &Core, visit: &mut dyn FnMut(&'static str, i64)) {
    let view = core.views.load();
    let (free, total) = core.capacity.space();
    let files = live(core);
    let log_bytes = core.commit.lock().log.byte_count();
    // Looks again if space was short: it may be that no client writes any more.
    let is_full = core.capacity.check(0, Kind::Grows, || core.unwritten_bytes()).is_err();
    let info = core.data.info().ok();
    let layers: usize = view.layers.iter().map(|layer| layer.table.byte_count()).sum();
    let drops: usize = view.layers.iter().map(|layer| layer.drops().len()).sum();
    let file_bytes = core.allocator.file_bytes().max(info.map_or(0, |info| info.used_bytes));
    let gauges = [
        ("applying", Some(u64::from(view.frozen().is_some()))),
        ("checkpoints", Some(core.applier.finished_count())),
        ("disk_bytes", Some(file_bytes)),
        ("disk_free_bytes", Some(free)),
        ("disk_live_bytes", files.as_ref().ok().map(|stat| stat.bytes)),
        ("disk_total_bytes", Some(total)),
        ("disk_used_bytes", info.map(|info| info.used_bytes)),
        ("journal_bytes", Some(log_bytes)),
        ("keys_estimate", files.as_ref().ok().map(|stat| stat.entries)),
        ("map_bytes", info.map(|info| info.map_bytes)),
        ("mapped_bytes", Some(file_bytes + core.spill.info().map_or(0, |info| info.used_bytes))),
        ("memtable_bytes", Some(layers as u64)),
        ("memtable_bytes_max", Some(core.layer_bytes as u64 * 4)),
        ("ranges_to_reclaim", Some(drops as u64)),
        ("snapshots_open", Some(core.ledger.active.ticket_count() as u64)),
        ("write_stopped", Some(u64::from(is_full))),
    ];
    for (name, value) in gauges {
        if let Some(value) = value {
            visit(name, i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
}

/// The number of entries, and the bytes of their pages.
fn live(core: &Core) -> Result<Stat> {
    let view = core.views.load();
    let mut sum = view.base.data.stat(Db::Long)?;
    for space in Space::CORE {
        let stat = view.base.of(space).stat(Db::Space(space))?;
        sum.entries += stat.entries;
        sum.bytes += stat.bytes;
    }
    Ok(sum)
}
