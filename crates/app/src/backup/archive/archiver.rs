//! Tails the log of a server and writes segments.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::place::Place;
use super::segment::{self, Builder};
use super::tail::{self, Ended, Tail};
use crate::backup::Flags;
use crate::backup::moment::{SetId, Stamp};
use crate::remote::address::Address;
use crate::remote::client::{Client, Failure};
use crate::say;

/// A segment ends at so many bytes, even if it is not due yet.
const SEGMENT_BYTES: usize = 16 << 20;
/// A server whose log does not grow gets a note after this time.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The code of a request that the user has no right to.
const UNAUTHORIZED: i64 = 13;
const RETRY_EACH: Duration = Duration::from_secs(1);
/// So many refusals in a row that may pass, such as those during a change of the primary, are no failure.
const REFUSALS_MAX: u32 = 30;

/// A base copy that is made while the log is archived.
#[derive(Default)]
pub(super) struct Copying {
    /// The stamp up to which the copy needs the log, once it is finished; else zero.
    log_to: AtomicU64,
    failed: AtomicBool,
    /// The copy is to end without a result.
    pub(super) cancelled: AtomicBool,
}

impl Copying {
    /// Notes the end of the copy, with the stamp up to which it needs the log, or a failure.
    pub(super) fn end(&self, log_to: Option<Stamp>) {
        match log_to {
            Some(stamp) => self.log_to.store(stamp.0, Relaxed),
            None => self.failed.store(true, Relaxed),
        }
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.has_failed() || self.log_to.load(Relaxed) > 0
    }

    /// True if the copy is finished, and the log that it needs is archived.
    fn is_covered(&self, archived: Stamp) -> bool {
        let needed = self.log_to.load(Relaxed);
        needed > 0 && archived.0 >= needed
    }
}

/// Ends the copy without a result if its thread panics: the archiver would wait for it for ever.
pub(super) struct EndOnPanic<'c>(pub(super) &'c Copying);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(None);
        }
    }
}

pub(super) struct Archiver<'a> {
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
    /// It was said that the server is gone.
    told: bool,
    /// How often the server has refused a request since the last entry.
    refusals: u32,
    stopped: &'a AtomicBool,
    copying: Option<&'a Copying>,
}

impl<'a> Archiver<'a> {
    /// `copying`: the base copy that is made meanwhile.
    pub(super) fn new(
        place: &'a Place,
        set: SetId,
        address: &'a Address,
        flags: &'a Flags,
        (stopped, copying): (&'a AtomicBool, Option<&'a Copying>),
    ) -> Archiver<'a> {
        let (begun, grown) = (Instant::now(), Instant::now());
        let segment = Builder::new(set, Stamp(0));
        Archiver {
            place,
            set,
            address,
            flags,
            segment,
            begun,
            grown,
            silent: false,
            told: false,
            refusals: 0,
            stopped,
            copying,
        }
    }

    /// Archives from the first of the positions that the log has, until a signal, or with `--once` until the newest
    /// entry. Returns the last archived stamp.
    pub(super) fn run(mut self, positions: &[Stamp]) -> Result<Stamp, String> {
        let ended = self.archive(positions);
        // Also after a failure: the server may not have these entries any more at the next run.
        let written = self.write();
        ended.and(written).map(|()| self.segment.last())
    }

    fn archive(&mut self, positions: &[Stamp]) -> Result<(), String> {
        loop {
            let ended = match self.open(positions).and_then(|mut tail| self.follow(&mut tail)) {
                Ok(()) => return Ok(()),
                Err(ended) => ended,
            };
            self.wait(ended)?;
            if self.is_stopped() {
                return Ok(());
            }
        }
    }

    /// True after a signal, or if the base copy has failed.
    fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed) || self.copying.is_some_and(Copying::has_failed)
    }

    /// True if nothing more is to be archived after a request that brought so many entries.
    fn is_done(&self, count: usize) -> bool {
        let copied = self.copying.is_none_or(|copying| copying.is_covered(self.segment.last()));
        match self.flags.new_base {
            true => copied,
            false => self.flags.once && count == 0 && copied,
        }
    }

    /// Opens the log behind the last archived entry, or else at a later position. `positions`: those at the start.
    fn open(&mut self, positions: &[Stamp]) -> Result<Tail, Ended> {
        let last = self.segment.last();
        let opened = match last {
            Stamp(0) => self.open_at(positions),
            _ => match self.open_at(&[last]) {
                Err(Ended::Gap) if !self.is_needed() => {
                    self.write().map_err(Ended::Failed)?;
                    // Another process may have made a base copy meanwhile.
                    let now = super::positions_of(self.place).map_err(Ended::Failed)?;
                    self.open_at(later(&now, last))
                }
                opened => opened,
            },
        };
        self.told &= opened.is_err();
        opened
    }

    /// True if a gap makes a base copy useless, which is being made.
    fn is_needed(&self) -> bool {
        self.copying.is_some_and(|copying| !copying.is_covered(self.segment.last()))
    }

    fn open_at(&mut self, positions: &[Stamp]) -> Result<Tail, Ended> {
        let last = self.segment.last();
        for position in positions {
            match Tail::open(self.connect()?, *position) {
                Err(Ended::Gap) => {}
                Ok(tail) => {
                    if *position != last {
                        self.segment = Builder::new(self.set, *position);
                    }
                    if Some(position) != positions.first() || (last > Stamp(0) && *position > last)
                    {
                        say(&format!(
                            "a part of the log is missing; archiving continues at {position}"
                        ));
                    }
                    return Ok(tail);
                }
                Err(ended) => return Err(ended),
            }
        }
        // For the message.
        if let (Stamp(0), Some(newest)) = (last, positions.last()) {
            self.segment = Builder::new(self.set, *newest);
        }
        Err(Ended::Gap)
    }

    fn connect(&self) -> Result<Client, Ended> {
        let mut client = Client::try_connect(self.address, None)?;
        tail::set_of(&mut client, Some(self.set))?;
        tail::check_encryption(&mut client, self.flags)?;
        Ok(client)
    }

    fn text_of(&self, ended: Ended) -> String {
        match ended {
            Ended::Interrupted(text) | Ended::Refused(text) | Ended::Failed(text) => text,
            Ended::Gap if self.copying.is_some_and(|copying| !copying.has_ended()) => format!(
                "the log of the server was cut behind {}, up to which it is archived, while the base copy was made, \
                 which is abandoned: make the log larger (replSetResizeOplog), or look for what delays writing to {}",
                self.segment.last(),
                self.place.shown("").trim_end_matches('/')
            ),
            Ended::Gap => format!(
                "the log of the server has no entry at {} any more, up to which it is archived: entries after it may \
                 be missing. Moments up to it can be restored. A new base copy is needed for later ones: nagi backup \
                 --archive {} --newBase, and then this command again",
                self.segment.range().after.max(self.segment.last()),
                self.place.shown("").trim_end_matches('/')
            ),
        }
    }

    /// Reports that the server is gone, once, and waits. An error if trying again does not help, and with `--once`.
    fn wait(&mut self, ended: Ended) -> Result<(), String> {
        self.write()?;
        let text = match ended {
            Ended::Interrupted(text) => text,
            Ended::Refused(text) if self.refusals < REFUSALS_MAX => {
                self.refusals += 1;
                text
            }
            ended => return Err(self.text_of(ended)),
        };
        if self.flags.once {
            return Err(text);
        }
        if !self.told {
            say(&format!("{text}; trying again every second"));
            self.told = true;
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
                self.refusals = 0;
                self.grown = Instant::now();
            }
            let stopping = self.is_stopped() || self.is_done(count);
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
                if let Err(Failure::Refused { code: UNAUTHORIZED, text, .. }) = tail.note() {
                    self.silent = true;
                    say(&format!("{text}; the archived time stands still while nothing changes"));
                }
            }
        }
    }

    /// Writes the segment, if it has entries, and begins the next one.
    fn write(&mut self) -> Result<(), String> {
        if !self.segment.is_empty() {
            let plain = self.segment.finish()?;
            let file = match self.flags.masters.first() {
                Some(master) => segment::encrypted(&plain, master)?,
                None => plain,
            };
            self.place.put(&self.segment.range().name(), file)?;
            self.segment = Builder::new(self.set, self.segment.last());
        }
        Ok(())
    }
}

/// Those of the sorted positions that are later than the last archived one.
fn later(positions: &[Stamp], last: Stamp) -> &[Stamp] {
    &positions[positions.partition_point(|position| *position <= last)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_panics_has_failed() {
        let copying = Copying::default();
        drop(EndOnPanic(&copying));
        assert!(!copying.has_ended());
        let copy = std::thread::scope(|scope| {
            let copy = scope.spawn(|| {
                let _guard = EndOnPanic(&copying);
                panic!("of a test");
            });
            copy.join()
        });
        assert!(copy.is_err() && copying.has_failed());
    }

    #[test]
    fn archiving_continues_only_behind_what_is_archived() {
        let positions = [3, 7, 9].map(Stamp);
        assert_eq!(later(&positions, Stamp(2)), positions);
        assert_eq!(later(&positions, Stamp(7)), [Stamp(9)]);
        assert_eq!(later(&positions, Stamp(9)), []);
    }
}
