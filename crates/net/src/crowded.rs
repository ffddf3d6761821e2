//! Sends a reply that holds capacity which other requests may wait for.

use std::io::{self, ErrorKind, Write};
use std::time::{Duration, Instant};

use nagi_budget::Budget;

use crate::NetConfig;
use crate::demand::Demand;
use crate::end::is_timeout;
use crate::raw::unaccepted_bytes;
use crate::stream::Stream;

/// A socket whose peer must accept the reply fast enough while other requests wait for memory: see [`Demand`].
///
/// What counts is what the peer has acknowledged. The kernel takes bytes from this process by the megabyte, and then
/// none for as long as a slow peer needs for a part of them.
pub(crate) struct Crowded<'a> {
    stream: &'a Stream,
    budget: &'a Budget,
    /// Longest time in which the peer may accept nothing in any case.
    gap_max: Duration,
    demand: Demand,
    /// Bytes that the kernel took.
    written: i64,
    /// Bytes that the peer has accepted, and when there were more of them for the last time.
    accepted: i64,
    moved: Instant,
}

impl<'a> Crowded<'a> {
    pub(crate) fn begin(
        stream: &'a Stream,
        budget: &'a Budget,
        config: &NetConfig,
    ) -> io::Result<Crowded<'a>> {
        let (gap_max, time_max) = (config.write_gap_max, config.crowded_time_max);
        stream.set_write_timeout(gap_max.min(Demand::look_every(time_max)))?;
        let now = Instant::now();
        let accepted = -unaccepted_bytes(stream)?;
        let demand = Demand::begin(time_max, accepted, now);
        Ok(Crowded { stream, budget, gap_max, demand, written: 0, accepted, moved: now })
    }

    /// To be called after the reply.
    pub(crate) fn end(self) -> io::Result<()> {
        self.stream.set_write_timeout(self.gap_max)
    }

    /// Fails if the peer is too slow.
    fn check(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let accepted = self.written - unaccepted_bytes(self.stream)?;
        if accepted > self.accepted {
            (self.accepted, self.moved) = (accepted, now);
        }
        let is_slow = self.demand.is_failed(accepted, self.budget.has_waiting(), now);
        match is_slow || now - self.moved >= self.gap_max {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }
}

impl Write for Crowded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            // Waits for a look at most, also if the kernel takes a part of the bytes.
            match (&mut &*self.stream).write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => self.check()?,
                Err(error) => return Err(error),
                Ok(count) => {
                    self.written += i64::try_from(count).unwrap_or(i64::MAX);
                    self.check()?;
                    return Ok(count);
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
