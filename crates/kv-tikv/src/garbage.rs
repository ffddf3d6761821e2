//! Garbage collection: the stores keep all versions of a value until the placement drivers have a later safe point,
//! which somebody has to advance. Where TiDB runs, it does; otherwise one process of those with the data.
//!
//! ```text
//!   time   ------ removed by the stores -----|------- kept for readers, 10 minutes -------|
//!                                    safe point                                          now
//!                                               |-- a snapshot is read for 9 minutes at most, by each process's clock
//!
//!   each minute       the service of this prefix protects [now - 10 minutes, ..) against all that collect
//!   each 10 minutes   the least safe point of all services  -->  locks of older transactions are resolved, everywhere
//!                                                           -->  the safe point of the cluster
//! ```
//!
//! Invariants
//! - A safe point of this module is a timestamp that this process has received `kept_for` ago at least, by its own
//!   clock (`ages.rs`). Whoever reads at an older one has asked for that longer ago, and has stopped by its own clock.
//!   So no clock has to show the right time, nor has the oracle's.
//! - No commit is begun at a timestamp that is older than a snapshot may be, and each has an end in half a minute; a
//!   process that is late with one is out (its fences are written) before its timestamp is behind the safe point.
//! - Locks up to the safe point are resolved in all regions before the stores are told: they remove the versions that
//!   tell what became of the locks.
//! - The safe point is not advanced beyond the least one of all services, other prefixes and programs among them.
//!
//! See decision 115.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nagi_kv::{Result, Watch};

use crate::{
    calls::Count,
    core::Core,
    driver::{COLLECTOR, FOR_EVER, Least, Tidb},
    layout::unordered,
    options::Collects,
    safe_point::Said,
    stamps::{millis_of, version_at},
};

/// How often each process asks for the safe point: others may advance it.
const LOOK_EACH: Duration = Duration::from_secs(10);
/// How often the service of this prefix is renewed, and how long it lasts without that: longer than any snapshot.
const PROTECT_EACH: Duration = Duration::from_secs(60);
const PROTECT_SECONDS: i64 = 15 * 60;
/// Regions that are cleaned between two looks at the watch.
const REGIONS_AT_ONCE: u32 = 64;
/// A safe point that is older than this is worth a warning: something holds it.
const HELD_FOR: Duration = Duration::from_secs(3600);

fn note(core: &Core, safe_point: u64) {
    let seconds = millis_of(core.garbage.advance(safe_point)) / 1000;
    core.client.calls().set(Count::SafePoint, seconds);
}

fn is_time(last: Option<Instant>, each: Duration) -> bool {
    last.is_none_or(|last| last.elapsed() >= each)
}

/// Does what is to be done by now. `leads`: by this process for all that have the data.
///
/// # Errors
/// Those of requests; the next call goes on.
pub(crate) fn tend(core: &Arc<Core>, leads: bool, watch: &mut Watch<'_>) -> Result<()> {
    let garbage = &core.garbage;
    let Some(mut work) = garbage.work.try_lock() else { return Ok(()) };
    let each = core.options.garbage.each;
    if is_time(work.looked, LOOK_EACH.min(each)) {
        note(core, core.client.safe_point()?);
        work.looked = Some(Instant::now());
    }
    if !leads {
        return Ok(());
    }
    let now = {
        let asked = Instant::now();
        let now = core.client.timestamp()?;
        core.ages.note(now, asked);
        now
    };
    let kept = core.ages.at_least(core.options.garbage.kept_for);
    if is_time(work.protected, PROTECT_EACH.min(each)) {
        protect(core, kept, now)?;
        work.protected = Some(Instant::now());
    }
    let Some(kept) = kept.filter(|_| is_time(work.tried, LOOK_EACH.min(each))) else {
        return Ok(());
    };
    work.tried = Some(Instant::now());
    // Whoever has advanced it, for any prefix, has done so for all.
    if millis_of(kept) < millis_of(garbage.safe_point()).saturating_add(millis(each)) {
        return Ok(());
    }
    match leaves_to(core)? {
        Some(tidb) => {
            say(&mut work.said, Said::LeftTo(tidb));
            Ok(())
        }
        None => collect(core, kept, &mut work.said, watch),
    }
}

/// Protects the readers of this prefix. A process that is younger than a snapshot may be goes by the oracle's time.
fn protect(core: &Core, kept: Option<u64>, now: u64) -> Result<()> {
    let service = &core.garbage.service;
    let mut from = kept.unwrap_or_else(|| {
        version_at(millis_of(now).saturating_sub(millis(core.options.garbage.kept_for)))
    });
    // Before the least of all it would have no effect.
    for _ in 0..2 {
        let least = core.client.protect(service, from, PROTECT_SECONDS)?;
        if least.safe_point <= from {
            break;
        }
        from = least.safe_point;
    }
    Ok(())
}

/// TiDB, if it collects.
fn leaves_to(core: &Core) -> Result<Option<Tidb>> {
    let tidb = core.client.tidb()?;
    Ok(match (core.options.garbage.mode, tidb) {
        (_, Tidb::Runs) => Some(tidb),
        (Collects::Never, _) => Some(tidb),
        (Collects::Unless, Tidb::Stopped) => Some(tidb),
        (Collects::Unless | Collects::Always, _) => None,
    })
}

/// Advances the safe point of the cluster, to `kept` or as far as all services allow.
fn collect(
    core: &Arc<Core>,
    kept: u64,
    said: &mut Option<Said>,
    watch: &mut Watch<'_>,
) -> Result<()> {
    let garbage = &core.garbage;
    // The own service would hold it where it was a minute ago.
    core.client.protect(&garbage.service, kept, PROTECT_SECONDS)?;
    let least = core.client.protect(COLLECTOR, kept, FOR_EVER)?;
    let target = least.safe_point.min(kept);
    note_holder((kept, target), &least, said);
    if target <= garbage.safe_point() {
        core.client.calls().add(Count::CollectionHeld, 1);
        return Ok(());
    }
    if !resolve_locks(core, target, watch)? {
        return Ok(());
    }
    note(core, core.client.advance_safe_point(target)?);
    core.client.calls().add(Count::CollectionRun, 1);
    Ok(())
}

/// Says so if a service holds old versions for long.
fn note_holder((kept, target): (u64, u64), least: &Least, said: &mut Option<Said>) {
    let held = millis_of(kept).saturating_sub(millis_of(target));
    match held > millis(HELD_FOR) {
        true => say(said, Said::HeldBy(least.service.clone())),
        false => say(said, Said::Collects),
    }
}

/// Resolves the locks of transactions that began up to `version`, in all regions of the cluster. Returns false if
/// `watch` has ended it.
fn resolve_locks(core: &Arc<Core>, version: u64, watch: &mut Watch<'_>) -> Result<bool> {
    // The same place in the form of the placement drivers, and as a stored key.
    let (mut at, mut from) = (Vec::new(), Vec::new());
    let mut regions = 0;
    loop {
        if !watch(regions, 0) {
            return Ok(false);
        }
        let part = core.client.regions_from(&at, REGIONS_AT_ONCE)?;
        regions += part.count as u64;
        let is_last = part.end.is_empty();
        // A bound that is no stored key: as if the region went on.
        let to = unordered(&part.end).filter(|_| !is_last);
        if is_last || to.is_some() {
            core.client.resolve_locks(from.clone(), to.clone(), version)?;
        }
        if is_last {
            return Ok(true);
        }
        from = to.unwrap_or(from);
        at = part.end;
    }
}

fn say(said: &mut Option<Said>, new: Said) {
    if said.as_ref() == Some(&new) {
        return;
    }
    match &new {
        Said::Collects => log::info!(target: "STORAGE", id = 8_200_419;
            "This node advances the safe point of the TiKV cluster, up to which it removes old versions"),
        Said::LeftTo(tidb) => log::info!(target: "STORAGE", id = 8_200_420,
            tidb = matches!(tidb, Tidb::Runs), tidbStopped = matches!(tidb, Tidb::Stopped);
            "The safe point of the TiKV cluster is left to others to advance"),
        Said::HeldBy(service) => {
            log::warn!(target: "STORAGE", id = 8_200_421, service = service.as_str();
            "A service keeps old versions in the TiKV cluster for more than an hour")
        }
    }
    *said = Some(new);
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
