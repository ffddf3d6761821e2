//! `nagi restore --to TIME`: a base copy of an archive, and the log after it.
//!
//! The newest base copy before the moment is copied and verified, like any backup. The newest entry of the log in it
//! tells exactly which changes it has. The archived entries from there up to the moment are applied by a server in this
//! process, on files that are no data directory yet (apply.rs). Then they are moved to their places.

mod apply;

use std::fs::{self, File};
use std::path::Path;

use nagi_bson::text::Hex;
use nagi_encryption::MasterKey;
use sha2::{Digest, Sha256};

use super::archive::{self, Base, Place, Range};
use super::copy::{Pace, sync_folders};
use super::moment::{Moment, SetId, Stamp, date};
use super::restore::{self, PART};
use super::{DATA, Flags, MARKER, failed, make_empty};
use crate::say;
use apply::{Applied, Applier};

/// Runs `nagi restore --from URL --to TIME --dbpath DIR`.
pub(super) fn run(from: &str, to: Moment, folder: &Path, flags: &Flags) -> Result<String, String> {
    let place = Place::open(from, flags.endpoint.as_deref(), false)?;
    let bases = archive::bases(&place)?.finished;
    let ranges = archive::ranges(&place)?;
    let base = choose(&place, &bases, &ranges, to)?;
    let segments = chain(&place, base, &ranges, to)?;
    make_empty(folder)?;
    let part = folder.join(PART);
    fs::create_dir(&part).map_err(|error| failed(&part, &error))?;
    fetch(&place, base, &part, &mut Pace::new(flags.rate_bytes))?;
    say(&format!("base copy of {} verified; applying {} segments", base.log_to, segments.len()));
    let mut applier = Applier::open(&part, &flags.masters)?;
    let applied = check_end(base, applier.last())
        .and_then(|()| apply_all(&place, (base.set, &flags.masters), &segments, to, &mut applier));
    // Also after a failure: the engine's files must be closed before anything else happens to them.
    let closed = applier.close();
    let applied = applied?;
    closed?;
    sync_folders(&part)?;
    restore::move_into_place(&part, folder).map_err(|error| failed(folder, &error))?;
    sync_folders(folder)?;
    Ok(format!(
        "restored {} in {}: the base copy of {}, {} changes in {} entries of the log after it, up to {}{}",
        to,
        folder.display(),
        base.log_to,
        applied.changes,
        applied.entries,
        applied.last,
        applied.wall_ms.map(|ms| format!(", written at {}", date(ms))).unwrap_or_default()
    ))
}

/// Refuses a copy whose own log does not end where the manifest says: entries would be missing or come twice.
fn check_end(base: &Base, end: Stamp) -> Result<(), String> {
    match base.log_from <= end && end <= base.log_to {
        true => Ok(()),
        false => Err(format!(
            "the base copy of {} does not fit its log: it ends at {end}, not between {} and {}",
            base.log_to, base.log_from, base.log_to
        )),
    }
}

/// The newest base copy that was finished before the moment, and whose log is archived.
fn choose<'b>(
    place: &Place,
    bases: &'b [Base],
    ranges: &[Range],
    to: Moment,
) -> Result<&'b Base, String> {
    let Some(oldest) = bases.first() else {
        return Err(format!("{} contains no base copy", place.shown("").trim_end_matches('/')));
    };
    let before = || bases.iter().rev().filter(|base| base.log_to <= to.last());
    let newest = before().next().ok_or_else(|| {
        format!("{to} is before the first moment that can be restored: {}", oldest.log_to)
    })?;
    // If there is none, the newest one tells what is missing.
    let Some(found) = before().find(|base| base.is_restorable(ranges)) else { return Ok(newest) };
    if found.log_to < newest.log_to {
        say(&format!(
            "the base copy of {} cannot be used: the log that belongs to it is not archived",
            newest.log_to
        ));
    }
    Ok(found)
}

/// The segments from the base copy to the moment, without a gap.
fn chain(place: &Place, base: &Base, ranges: &[Range], to: Moment) -> Result<Vec<Range>, String> {
    let segments = archive::chain(ranges, base.log_from, to.last());
    let at = segments.last().map_or(base.log_from, |range| range.last);
    // A base copy has what happened up to the second stamp only together with the log.
    if at < base.log_to {
        return Err(format!(
            "the log of the base copy of {} is not archived: it ends at {at}; {}",
            base.log_to,
            missing(place)
        ));
    }
    let covered = match to {
        // A segment behind a gap tells that more has happened.
        Moment::Latest => ranges.iter().all(|range| range.last <= at),
        Moment::Stamp(stamp) => at >= stamp,
        // Until a later second is seen, more entries of this one may come.
        Moment::Second(second) => at.seconds() > second,
    };
    if covered {
        return Ok(segments);
    }
    let later = ranges.iter().filter(|range| range.after > at).min();
    Err(match later {
        Some(later) => format!(
            "{to} cannot be restored: the log between {at} and {} is not archived; {}",
            later.after,
            missing(place)
        ),
        None => format!("{to} is not archived yet: the log is archived up to {at}"),
    })
}

fn missing(place: &Place) -> String {
    format!("segments are missing in {}", place.shown(archive::LOG))
}

/// Copies the files of a base copy, and verifies them.
fn fetch(place: &Place, base: &Base, part: &Path, pace: &mut Pace) -> Result<(), String> {
    let files = &base.manifest.files;
    if !files.iter().any(|file| file.name == MARKER) {
        return Err(format!("{}: it is incomplete: it has no {MARKER}", place.shown(&base.folder)));
    }
    for file in files {
        let (name, to) = (format!("{}/{DATA}/{}", base.folder, file.name), part.join(&file.name));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
        }
        let mut target = File::create_new(&to).map_err(|error| failed(&to, &error))?;
        let mut hash = Sha256::new();
        place.fetch(&name, file.byte_count, &mut target, &mut |piece| {
            hash.update(piece);
            pace.spend(piece.len());
        })?;
        target.sync_all().map_err(|error| failed(&to, &error))?;
        let sum = Hex(&hash.finalize()).to_string();
        if sum != file.sha256 {
            return Err(format!(
                "{}: it is damaged: the checksum is {sum} instead of {}",
                place.shown(&name),
                file.sha256
            ));
        }
    }
    Ok(())
}

/// Applies the entries of the segments up to the moment.
fn apply_all(
    place: &Place,
    (set, masters): (SetId, &[MasterKey]),
    segments: &[Range],
    to: Moment,
    applier: &mut Applier,
) -> Result<Applied, String> {
    for range in segments {
        let name = range.name();
        let bad = |why: String| format!("{}: {why}", place.shown(&name));
        let file = place
            .get(&name, archive::FILE_BYTES_MAX)?
            .ok_or_else(|| bad("it has been removed".to_owned()))?;
        let file = archive::decrypted(file, masters).map_err(bad)?;
        let entries = archive::read(&file, set, *range).map_err(bad)?;
        for entry in archive::Entries(&entries) {
            let entry = entry?;
            let stamp = Stamp::of(entry.get("ts")).ok_or("an entry has no ts")?;
            if stamp > to.last() {
                break;
            }
            applier.push(stamp, entry)?;
        }
    }
    applier.finish()
}
