//! `nagi backup --archive`: a base copy, and the log of a running server, continuously.
//!
//! ```text
//!   base/<stamp>/nagi.backup, data/...     a copy as `nagi backup --out` makes one (base.rs)
//!   log/<after>_<last>.nagilog             a segment of the log (segment.rs)
//! ```
//!
//! The program tails the log (tail.rs) and writes a segment every few seconds. It has no state besides the archive, so
//! after a kill it continues behind the last segment: a segment exists as a whole or not at all. The entry at that
//! position must still be in the server's log. Otherwise entries may be missing, and a new base copy is needed.

mod base;
mod place;
mod segment;
mod tail;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub(super) use base::Base;
pub(super) use base::list as bases;
pub(super) use place::Place;
pub(super) use segment::{
    Entries, FILE_BYTES_MAX, FOLDER as LOG, Range, chain, end_of_chain, read,
};

use super::address::{self, Address};
use super::client::{Client, Failure};
use super::copy::Pace;
use super::moment::{SetId, Stamp};
use super::source::{self, Source};
use super::{Flags, URI, password};
use crate::say;
use segment::Builder;
use tail::{Ended, Tail};

/// A segment ends at so many bytes, even if it is not due yet.
const SEGMENT_BYTES: usize = 16 << 20;
/// A server whose log does not grow gets a note after this time.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The code of a request that the user has no right to.
const UNAUTHORIZED: i64 = 13;
const RETRY_EACH: Duration = Duration::from_secs(1);

/// Runs `nagi backup --archive URL`.
pub(super) fn run(url: &str, flags: &Flags) -> Result<String, String> {
    let place = Place::open(url, flags.endpoint.as_deref(), true)?;
    let mut address = address::parse(flags.uri.as_deref().unwrap_or(URI))?;
    source::warn_of_password(&address);
    let file = flags.password_file.as_deref();
    match &mut address.login {
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
    let bases = base::list(&place)?;
    let mut known = bases.last().map(|base| base.set);
    if flags.new_base || bases.is_empty() {
        let base = take_base(&place, known, &address, flags)?;
        known = Some(base.set);
        let text = format!(
            "base copy of {} files, {} bytes in {}, for moments from {} on",
            base.manifest.files.len(),
            base.manifest.byte_count(),
            place.shown(&base.folder),
            base.log_to
        );
        if flags.new_base {
            return Ok(text);
        }
        say(&text);
    }
    let set = known.ok_or("the archive has no base copy")?;
    let archived = Archiver::new(&place, set, &address, flags)?.run()?;
    Ok(format!("log archived up to {archived}"))
}

fn take_base(
    place: &Place,
    known: Option<SetId>,
    address: &Address,
    flags: &Flags,
) -> Result<Base, String> {
    let mut client = Client::connect(address, None)?;
    let source = || Source::of(Client::connect(address, None)?);
    base::take(place, known, &mut client, source, &mut Pace::new(flags.rate_bytes))
}

/// The ranges of all segments.
pub(super) fn ranges(place: &Place) -> Result<Vec<Range>, String> {
    let names = place.list(LOG)?.files;
    Ok(names.iter().filter_map(|name| Range::parse(name)).collect())
}

struct Archiver<'a> {
    place: &'a Place,
    /// The replica set that the archive is of.
    set: SetId,
    address: &'a Address,
    flags: &'a Flags,
    /// Entries that are not in the archive yet.
    segment: Builder,
    begun: Instant,
    grown: Instant,
    /// May not write notes.
    silent: bool,
    stopped: Arc<AtomicBool>,
}

impl<'a> Archiver<'a> {
    fn new(
        place: &'a Place,
        set: SetId,
        address: &'a Address,
        flags: &'a Flags,
    ) -> Result<Archiver<'a>, String> {
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, stopped.clone())
                .map_err(|error| format!("signals cannot be watched: {error}"))?;
        }
        let (begun, grown) = (Instant::now(), Instant::now());
        let segment = Builder::new(set, Stamp(0));
        Ok(Archiver { place, set, address, flags, segment, begun, grown, silent: false, stopped })
    }

    /// Archives until a signal, or with `--once` until the newest entry. Returns the last archived stamp.
    fn run(mut self) -> Result<Stamp, String> {
        let (positions, mut told) = (self.positions()?, false);
        let mut tail = loop {
            match self.open(&positions) {
                Ok(tail) => break tail,
                Err(Ended::Interrupted(text)) => self.interrupted(&text, &mut told)?,
                Err(ended) => return Err(self.text_of(ended)),
            }
            if self.stopped.load(Relaxed) {
                return Ok(self.segment.last());
            }
        };
        loop {
            match self.follow(&mut tail) {
                Ok(()) => return Ok(self.segment.last()),
                Err(Ended::Interrupted(text)) => self.interrupted(&text, &mut told)?,
                Err(ended) => return Err(self.text_of(ended)),
            }
            while !self.stopped.load(Relaxed) {
                match self.connect().and_then(|client| Tail::open(client, self.segment.last())) {
                    Ok(again) => {
                        (tail, told) = (again, false);
                        break;
                    }
                    Err(Ended::Interrupted(text)) => self.interrupted(&text, &mut told)?,
                    Err(ended) => return Err(self.text_of(ended)),
                }
            }
            if self.stopped.load(Relaxed) {
                self.write()?;
                return Ok(self.segment.last());
            }
        }
    }

    /// Where the log may be continued: behind the last segment, so that no older base copy loses its log, or at least
    /// where the newest base copy needs it.
    fn positions(&self) -> Result<Vec<Stamp>, String> {
        let (bases, ranges) = (base::list(self.place)?, ranges(self.place)?);
        let newest = bases.last().ok_or("the archive has no base copy")?;
        let needed = end_of_chain(&ranges, newest.log_from);
        let furthest = ranges.iter().map(|range| range.last).max();
        Ok(furthest.into_iter().filter(|last| *last < needed).chain([needed]).collect())
    }

    fn open(&mut self, positions: &[Stamp]) -> Result<Tail, Ended> {
        let mut ended = Ended::Gap;
        for position in positions {
            self.segment = Builder::new(self.set, *position);
            match Tail::open(self.connect()?, *position) {
                Err(Ended::Gap) => ended = Ended::Gap,
                other => return other,
            }
        }
        Err(ended)
    }

    fn connect(&self) -> Result<Client, Ended> {
        let mut client = Client::try_connect(self.address, None)?;
        tail::set_of(&mut client, Some(self.set))?;
        Ok(client)
    }

    fn text_of(&self, ended: Ended) -> String {
        match ended {
            Ended::Interrupted(text) | Ended::Failed(text) => text,
            Ended::Gap => format!(
                "the log of the server has no entry at {} any more, up to which it is archived: entries after it may \
                 be missing. Moments up to it can be restored. A new base copy is needed for later ones: nagi backup \
                 --archive {} --newBase, and then this command again",
                self.segment.range().after.max(self.segment.last()),
                self.place.shown("").trim_end_matches('/')
            ),
        }
    }

    /// Reports that the server is gone, once, and waits. With `--once` that is an error.
    fn interrupted(&mut self, text: &str, told: &mut bool) -> Result<(), String> {
        self.write()?;
        if self.flags.once {
            return Err(text.to_owned());
        }
        if !*told {
            say(&format!("{text}; trying again every second"));
            *told = true;
        }
        std::thread::sleep(RETRY_EACH);
        Ok(())
    }

    fn follow(&mut self, tail: &mut Tail) -> Result<(), Ended> {
        loop {
            let segment = &mut self.segment;
            if segment.is_empty() {
                self.begun = Instant::now();
            }
            let count = tail.next(&mut |entry| segment.push(entry))?;
            if count > 0 {
                self.grown = Instant::now();
            }
            let stopping = self.stopped.load(Relaxed) || self.flags.once && count == 0;
            let due = self.begun.elapsed() >= self.flags.segment_time();
            if stopping || due || self.segment.byte_count() >= SEGMENT_BYTES {
                self.write().map_err(Ended::Failed)?;
            }
            if stopping {
                return Ok(());
            }
            if self.grown.elapsed() >= IDLE_MAX && !self.silent {
                self.grown = Instant::now();
                // Other refusals pass: the server may have stepped down for a while.
                if let Err(Failure::Refused { code: UNAUTHORIZED, text }) = tail.note() {
                    self.silent = true;
                    say(&format!("{text}; the archived time stands still while nothing changes"));
                }
            }
        }
    }

    /// Writes the segment, if it has entries, and begins the next one.
    fn write(&mut self) -> Result<(), String> {
        if !self.segment.is_empty() {
            self.place.put(&self.segment.range().name(), self.segment.finish()?)?;
            self.segment = Builder::new(self.set, self.segment.last());
        }
        Ok(())
    }
}
