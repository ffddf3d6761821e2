//! `nagi backup --prune`: removes base copies and segments that are not needed for the moments to keep.
//!
//! ```text
//!   base copies      A            B             C                 kept: from B on
//!   segments         |----|----|----|----|-------|------|---->    removed: what ends before the log of B begins
//!   --keepHours                          |<-- all moments -->|
//! ```
//!
//! A copy in progress needs its files and its log, too. One is given up only if nothing was written to it for a day.
//! A base copy is first made unfinished by removing its list of files, then its files are removed, then segments,
//! oldest first. So at any time what remains restores what it restored before, or says what is missing.

use std::time::{SystemTime, UNIX_EPOCH};

use super::base::{self, Base};
use super::place::Object;
use super::{LOG, Place, Range, ranges};
use crate::backup::Flags;
use crate::backup::manifest;
use crate::backup::moment::Stamp;
use crate::say;

/// Without a new object for so long a copy is not in progress any more.
const GIVEN_UP_SECONDS: u64 = 24 * 3600;

/// Runs `nagi backup --prune URL`.
pub(crate) fn run(url: &str, flags: &Flags) -> Result<String, String> {
    let place = Place::open(url, flags.endpoint.as_deref(), false)?;
    let base::Bases { finished: bases, unfinished, .. } = base::list(&place)?;
    let ranges = ranges(&place)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let since = flags.keep_hours.map(|hours| since(hours, now, &ranges));
    let Some(kept) = first_kept(&bases, &ranges, since, flags.keep_bases) else {
        return Err(format!(
            "{} contains no base copy whose log is archived",
            place.shown("").trim_end_matches('/')
        ));
    };
    let (old, kept) = (&bases[..kept], &bases[kept..]);
    let oldest = &kept[0];
    // Copies may overlap: a later one may need the log from an earlier entry on.
    let mut log_from = kept.iter().map(|base| base.log_from).min().unwrap_or(Stamp(0));
    let (mut files, mut count) = (0, 0);
    let mut remove = |objects: &[Object], folder: &str| {
        (files, count) = (files + objects.len(), count + 1);
        remove_base(&place, folder, objects, flags.dry_run)
    };
    for base in old {
        let objects = place.list_all(&base.folder)?;
        // The log of a new one may not be archived yet.
        if base.is_restorable(&ranges) || is_given_up(&objects, now) {
            remove(&objects, &base.folder)?;
        } else {
            log_from = log_from.min(base.log_from);
        }
    }
    for name in unfinished {
        let folder = base::folder(&name);
        let objects = place.list_all(&folder)?;
        if is_given_up(&objects, now) {
            remove(&objects, &folder)?;
        } else {
            log_from = log_from.min(base::log_of_unfinished(&place, &name)?);
        }
    }
    let mut unneeded = ranges;
    unneeded.retain(|range| range.last <= log_from);
    unneeded.sort_unstable();
    for range in &unneeded {
        if !flags.dry_run {
            place.remove(&range.name())?;
        }
    }
    Ok(format!(
        "{count} base copies, {files} files of them and {} segments in {} {}; moments from {} on can be restored",
        unneeded.len(),
        place.shown(LOG),
        if flags.dry_run { "would be removed" } else { "removed" },
        oldest.log_to
    ))
}

/// The second from which on moments are kept. A clock that is ahead must not remove what is archived: no later time
/// counts than that of the newest archived entry. `now`: seconds since 1970.
fn since(hours: u64, now: u64, ranges: &[Range]) -> u64 {
    let newest = ranges.iter().map(|range| range.last.seconds()).max().unwrap_or(0);
    now.min(newest).saturating_sub(hours.saturating_mul(3600))
}

/// The oldest base copy that is kept. `since`: all moments since this second are to be restorable, as far as they are
/// now. `count`: so many base copies are kept, with the log after them. Both: what either keeps. Only those count that
/// can be restored with the segments of `ranges`. `None`: there is none.
fn first_kept(
    bases: &[Base],
    ranges: &[Range],
    since: Option<u64>,
    count: Option<usize>,
) -> Option<usize> {
    let usable: Vec<usize> =
        (0..bases.len()).filter(|at| bases[*at].is_restorable(ranges)).collect();
    let newest = usable.len().checked_sub(1)?;
    let by_time = since.map(|since| {
        // One that ends within the second does not serve all of it.
        usable.iter().rposition(|at| bases[*at].log_to.seconds() < since).unwrap_or(0)
    });
    let by_count = count.map(|count| usable.len().saturating_sub(count));
    Some(usable[by_time.into_iter().chain(by_count).min().unwrap_or(0).min(newest)])
}

/// True if the newest object of an unfinished copy is so old that no program can be at work on it. `now`: seconds since
/// 1970.
fn is_given_up(objects: &[Object], now: u64) -> bool {
    let before = i64::try_from(now.saturating_sub(GIVEN_UP_SECONDS)).unwrap_or(i64::MAX);
    objects.iter().all(|object| object.written < before)
}

/// Removes the objects of a base copy.
fn remove_base(
    place: &Place,
    folder: &str,
    objects: &[Object],
    dry_run: bool,
) -> Result<(), String> {
    let mut files: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
    say(&format!(
        "{}: {} files{}",
        place.shown(folder),
        files.len(),
        if dry_run { "" } else { " are removed" }
    ));
    // Without this list the copy is unfinished.
    let list = format!("{folder}/{}", manifest::FILE);
    files.sort_by_key(|name| *name != list);
    if !dry_run {
        files.iter().try_for_each(|name| place.remove(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::manifest::Manifest;
    use crate::backup::moment::SetId;

    fn bases(seconds: &[u64]) -> Vec<Base> {
        let base = |second: &u64| {
            let manifest = Manifest {
                engine: String::new(),
                nagi_version: String::new(),
                created_ms: 0,
                log: None,
                set: None,
                files: Vec::new(),
            };
            let log_to = Stamp(second << 32 | 5);
            let log_from = Stamp(second << 32 | 1);
            Base { folder: String::new(), manifest, set: SetId([1; 12]), log_from, log_to }
        };
        seconds.iter().map(base).collect()
    }

    #[test]
    fn all_wanted_moments_have_a_base_copy_before_them() {
        let all = bases(&[100, 200, 300]);
        let ranges: Vec<Range> =
            all.iter().map(|base| Range { after: base.log_from, last: base.log_to }).collect();
        for (since, count, kept) in [
            (Some(250), None, 1),
            (Some(300), None, 1),
            (Some(301), None, 2),
            (Some(5000), None, 2),
            (Some(50), None, 0),
            (None, Some(1), 2),
            (None, Some(2), 1),
            (None, Some(9), 0),
            (Some(301), Some(2), 1),
            (Some(250), Some(1), 1),
        ] {
            assert_eq!(first_kept(&all, &ranges, since, count), Some(kept), "{since:?} {count:?}");
        }
        assert_eq!(first_kept(&[], &ranges, Some(1), Some(1)), None);
        // Without the log of the newest ones the oldest one is all that can be restored.
        assert_eq!(first_kept(&all, &ranges[..1], Some(5000), Some(1)), Some(0));
        assert_eq!(first_kept(&all, &[ranges[0], ranges[2]], None, Some(2)), Some(0));
        assert_eq!(first_kept(&all, &[], Some(5000), Some(1)), None);
    }

    #[test]
    fn hours_count_from_the_newest_archived_entry() {
        let range = |last: u64| Range { after: Stamp(0), last: Stamp(last << 32) };
        let ranges = [range(10_000), range(9000)];
        assert_eq!(since(1, 1 << 40, &ranges), 6400);
        assert_eq!(since(1, 8000, &ranges), 4400, "a clock that is behind keeps more");
        assert_eq!(since(u64::MAX, 8000, &ranges), 0);
        assert_eq!(since(1, 8000, &[]), 0);
    }

    #[test]
    fn a_copy_is_given_up_after_a_day_without_a_new_object() {
        let object = |written| Object { name: String::new(), byte_count: 1, written };
        let now = 1_000_000;
        let (old, recent) = (object(now as i64 - 86_401), object(now as i64 - 86_400));
        assert!(is_given_up(&[], now) && is_given_up(&[old], now));
        assert!(!is_given_up(&[object(5), recent], now));
        assert!(!is_given_up(&[object(now as i64 + 9)], now), "a clock behind the store's");
    }
}
