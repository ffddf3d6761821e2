//! `nagi backup --prune`: removes base copies and segments that are not needed for the moments to keep.
//!
//! ```text
//!   base copies      A            B             C                 kept: from B on
//!   segments         |----|----|----|----|-------|------|---->    removed: what ends before the log of B begins
//!   --keepHours                          |<-- all moments -->|
//! ```
//!
//! A base copy is first made unfinished by removing its list of files, then its files are removed, then segments,
//! oldest first. So at any time what remains restores what it restored before, or says what is missing.

use std::time::{SystemTime, UNIX_EPOCH};

use super::base::{self, Base};
use super::{LOG, Place, Range, ranges};
use crate::backup::Flags;
use crate::backup::manifest;
use crate::say;

/// Runs `nagi backup --prune URL`.
pub(crate) fn run(url: &str, flags: &Flags) -> Result<String, String> {
    let place = Place::open(url, flags.endpoint.as_deref(), false)?;
    let base::Bases { finished: bases, unfinished, .. } = base::list(&place)?;
    let mut unneeded = ranges(&place)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let since = flags.keep_hours.map(|hours| now.saturating_sub(hours * 3600));
    let Some(kept) = first_kept(&bases, &unneeded, since, flags.keep_bases) else {
        return Err(format!(
            "{} contains no base copy whose log is archived",
            place.shown("").trim_end_matches('/')
        ));
    };
    let (old, kept) = (&bases[..kept], &bases[kept..]);
    let oldest = &kept[0];
    let mut files = 0;
    for base in old {
        files += remove_base(&place, &base.folder, flags.dry_run)?;
    }
    for name in unfinished {
        // A later one may be in progress.
        if name < oldest.log_to.name() {
            files += remove_base(&place, &base::folder(&name), flags.dry_run)?;
        }
    }
    unneeded.retain(|range| range.last <= oldest.log_from);
    unneeded.sort_unstable();
    for range in &unneeded {
        if !flags.dry_run {
            place.remove(&range.name())?;
        }
    }
    Ok(format!(
        "{} base copies, {files} files of them and {} segments in {} {}; moments from {} on can be restored",
        old.len(),
        unneeded.len(),
        place.shown(LOG),
        if flags.dry_run { "would be removed" } else { "removed" },
        oldest.log_to
    ))
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

/// Removes a base copy, and returns the number of its files.
fn remove_base(place: &Place, folder: &str, dry_run: bool) -> Result<usize, String> {
    let mut files = place.list_all(folder)?;
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
    Ok(files.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::manifest::Manifest;
    use crate::backup::moment::{SetId, Stamp};

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
}
