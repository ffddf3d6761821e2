//! `nagi backup --archive`: a base copy, and the log of a running server, continuously.
//!
//! ```text
//!   base/<stamp>/nagi.backup, data/...     a copy as `nagi backup --out` makes one (base.rs)
//!   log/<after>_<last>.nagilog             a segment of the log (segment.rs)
//! ```
//!
//! The program tails the log (tail.rs) and writes a segment every few seconds (archiver.rs). It has no state besides
//! the archive, so after a kill it continues behind the last segment: a segment exists as a whole or not at all. The
//! entry at that position must still be in the server's log. Otherwise entries may be missing, and a new base copy is
//! needed. What is not needed any more is removed by another command (prune.rs).

mod archiver;
mod base;
mod place;
mod prune;
mod segment;
mod tail;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub(super) use base::Base;
pub(super) use base::readable as bases;
pub(super) use place::{Place, check_address};
pub(super) use prune::run as prune;
pub(super) use segment::{
    Entries, FILE_BYTES_MAX, FOLDER as LOG, Range, chain, decrypted, end_of_chain, read,
};

use super::Flags;
use super::copy::Pace;
use super::moment::{SetId, Stamp};
use super::source::{self, Source};
use crate::remote::address::{Address, BY_CERTIFICATE};
use crate::remote::client::Client;
use crate::remote::password;
use crate::say;
use archiver::{Archiver, Copying, EndOnPanic};
use base::Taken;
use tail::Ended;

/// Runs `nagi backup --archive URL`.
pub(super) fn run(url: &str, flags: &Flags) -> Result<String, String> {
    let place = Place::open(url, flags.endpoint.as_deref(), true)?;
    let mut address = flags.address()?;
    source::warn_of_password(&address);
    let file = flags.password_file.as_deref();
    match &mut address.login {
        _ if address.mechanism == Some(BY_CERTIFICATE) && file.is_none() => {}
        // Once: a prompt would stop the archiver when it connects again.
        Some((user, password @ None)) => *password = Some(password::find(user, file)?),
        _ if file.is_some() => {
            return Err(
                "--passwordFile needs a user without a password: --uri mongodb://user@host"
                    .to_owned(),
            );
        }
        _ => {}
    }
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stopped.clone())
            .map_err(|error| format!("signals cannot be watched: {error}"))?;
    }
    let base::Bases { finished: bases, unknown, .. } = base::list(&place)?;
    // The server's set is compared with that of a base copy.
    if let (None, Some(name)) = (bases.last(), unknown.first()) {
        return Err(format!(
            "{} has only base copies that this version cannot read, so it is not known which replica set it is of: use \
             another archive",
            place.shown(&base::folder(name))
        ));
    }
    match bases.last() {
        Some(newest) if !flags.new_base => {
            let archiver = Archiver::new(&place, newest.set, &address, flags, (&stopped, None));
            let archived = archiver.run(&positions(&bases, &ranges(&place)?))?;
            Ok(format!("log archived up to {archived}"))
        }
        newest => {
            let known = newest.map(|base| base.set);
            with_base((url, &place), known, &address, flags, &stopped)
        }
    }
}

/// Where the log may be continued, best first: where an older base copy needs it, so that none loses its log, or at
/// least where the newest one does. Beyond the first position there may be segments already, of a process that has made
/// a base copy meanwhile.
fn positions(bases: &[Base], ranges: &[Range]) -> Vec<Stamp> {
    let mut ends: Vec<Stamp> =
        bases.iter().map(|base| end_of_chain(ranges, base.log_from)).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// The same of an archive as it is now.
fn positions_of(place: &Place) -> Result<Vec<Stamp>, String> {
    Ok(positions(&base::list(place)?.finished, &ranges(place)?))
}

/// Makes a base copy and archives the log meanwhile, so that the server may cut it. Without `--newBase` archiving
/// continues after the copy.
fn with_base(
    (url, place): (&str, &Place),
    known: Option<SetId>,
    address: &Address,
    flags: &Flags,
    stopped: &AtomicBool,
) -> Result<String, String> {
    let mut client = Client::connect(address, None)?;
    let set = tail::set_of(&mut client, known).map_err(Ended::into_text)?;
    tail::check_encryption(&mut client, flags).map_err(Ended::into_text)?;
    let from = tail::newest(&mut client).map_err(Ended::into_text)?;
    drop(client);
    let copying = Copying::default();
    let (archived, copied) = std::thread::scope(|scope| {
        let copy = scope.spawn(|| {
            let _guard = EndOnPanic(&copying);
            // A place of its own: each has one thread.
            let place = Place::open(url, flags.endpoint.as_deref(), true);
            let copied = place.and_then(|place| take_base(&place, set, address, flags, &copying));
            copying.end(copied.as_ref().ok().map(|taken| taken.base().log_to));
            copied
        });
        let both = (stopped, Some(&copying));
        let archived = Archiver::new(place, set, address, flags, both).run(&[from]);
        copying.cancelled.store(true, Relaxed);
        let copied = copy.join().unwrap_or_else(|_| Err("the base copy has failed".to_owned()));
        (archived, copied)
    });
    // A copy that was ended by the archiver's failure is no reason of its own.
    let archived = archived?;
    let taken = copied?;
    let base = taken.base();
    // `--prune` may have removed it meanwhile, with its log.
    let bases = base::list(place)?.finished;
    if bases.iter().any(|other| other.folder == base.folder) {
        check_log(base, &ranges(place)?)?;
    }
    Ok(match flags.new_base {
        true if matches!(taken, Taken::Exists(_)) => format!(
            "nothing has changed since the base copy of {}, {}: no other one was made",
            base.log_to,
            place.shown(&base.folder)
        ),
        true => format!("the base copy of {} is complete", base.log_to),
        false => format!("log archived up to {archived}"),
    })
}

/// Refuses a base copy whose log is not archived, as after a signal.
fn check_log(base: &Base, ranges: &[Range]) -> Result<(), String> {
    match base.is_restorable(ranges) {
        true => Ok(()),
        false => Err(format!(
            "stopped before the log that belongs to the base copy of {} was archived, up to {}: until it is, the copy \
             cannot be restored",
            base.log_to,
            end_of_chain(ranges, base.log_from)
        )),
    }
}

fn take_base(
    place: &Place,
    set: SetId,
    address: &Address,
    flags: &Flags,
    copying: &Copying,
) -> Result<Taken, String> {
    let mut client = Client::connect(address, None)?;
    let source = || Source::of(Client::connect(address, None)?);
    let pace = &mut Pace::new(flags.rate_bytes);
    let taken = base::take(place, set, &mut client, source, (pace, &copying.cancelled))?;
    let Taken::New(base) = &taken else { return Ok(taken) };
    say(&format!(
        "base copy of {} files, {} bytes in {}, for moments from {} on",
        base.manifest.files.len(),
        base.manifest.byte_count(),
        place.shown(&base.folder),
        base.log_to
    ));
    Ok(taken)
}

/// The ranges of all segments.
pub(super) fn ranges(place: &Place) -> Result<Vec<Range>, String> {
    let names = place.list(LOG)?.files;
    Ok(names.iter().filter_map(|name| Range::parse(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::manifest::Manifest;

    #[test]
    fn the_log_continues_where_the_oldest_gap_begins() {
        let stamp = |number: u64| Stamp(5 << 32 | number);
        let base = |from: u64| Base {
            folder: String::new(),
            manifest: Manifest {
                engine: String::new(),
                nagi_version: String::new(),
                created_ms: 0,
                log: None,
                set: None,
                files: Vec::new(),
            },
            set: SetId([1; 12]),
            log_from: stamp(from),
            log_to: stamp(from + 1),
        };
        let range = |after, last| Range { after: stamp(after), last: stamp(last) };
        let bases = [base(1), base(20)];
        let ranges = [range(1, 5), range(5, 9), range(19, 30)];
        assert_eq!(positions(&bases, &ranges), [stamp(9), stamp(30)]);
        // Without a gap there is one end.
        let ranges = [range(1, 5), range(5, 21), range(19, 30)];
        assert_eq!(positions(&bases, &ranges), [stamp(30)]);
        assert_eq!(positions(&bases[1..], &[]), [stamp(20)]);
        check_log(&bases[1], &ranges).unwrap();
        assert!(check_log(&bases[1], &ranges[..1]).unwrap_err().contains("cannot be restored"));
    }
}
