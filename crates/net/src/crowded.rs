//! Sends a reply that holds capacity which other requests may wait for.

use std::io::{self, ErrorKind, Write};
use std::time::{Duration, Instant};

use nagi_budget::Budget;

use crate::end::is_timeout;
use crate::stream::Stream;

/// The maximum pause in the middle of a charged message or reply while other requests wait for memory.
pub(crate) const CROWDED_GAP_MAX: Duration = Duration::from_secs(5);
/// How often it is checked if others wait.
const CROWDED_LOOK: Duration = Duration::from_secs(1);

/// A socket whose peer must accept some bytes every [`CROWDED_GAP_MAX`] while other requests wait for memory.
pub(crate) struct Crowded<'a> {
    stream: &'a Stream,
    budget: &'a Budget,
    /// Longest time in which the peer may accept nothing otherwise.
    gap_max: Duration,
    moved: Instant,
}

impl<'a> Crowded<'a> {
    pub(crate) fn begin(
        stream: &'a Stream,
        budget: &'a Budget,
        gap_max: Duration,
    ) -> io::Result<Crowded<'a>> {
        stream.set_write_timeout(gap_max.min(CROWDED_LOOK))?;
        Ok(Crowded { stream, budget, gap_max, moved: Instant::now() })
    }

    /// To be called after the reply.
    pub(crate) fn end(self) -> io::Result<()> {
        self.stream.set_write_timeout(self.gap_max)
    }
}

impl Write for Crowded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match (&mut &*self.stream).write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    let max = match self.budget.has_waiting() {
                        true => self.gap_max.min(CROWDED_GAP_MAX),
                        false => self.gap_max,
                    };
                    if self.moved.elapsed() >= max {
                        return Err(error);
                    }
                }
                written => {
                    self.moved = Instant::now();
                    return written;
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
