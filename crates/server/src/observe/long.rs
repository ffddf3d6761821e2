//! Tells an operation that took long because of its own work from one that waited.
//!
//! The console looks for stalls of the server: times in which operations waited. An operation that takes a second
//! because it reads a million documents is none. Its own time is:
//!
//! - the processor time of its thread, from its first interrupt check after ten milliseconds on;
//! - the time that its script slept;
//! - [`DOCUMENT_MICROS`] for each document and key that it read or wrote, which is what a disk may take for one.
//!
//! Operations shorter than [`LONG_MICROS`] cost one comparison.

use std::time::Duration;

use crate::clock;
use crate::core::command::Done;
use crate::core::server::Server;
use crate::metrics::LatencyKind;
use crate::metrics::long_operations::LongOperation;
use crate::observe::slow::Finished;
use crate::timeslice;

/// An operation that takes this long is kept. It is a bound of the histogram of latencies.
const LONG_MICROS: u64 = 98_304;
/// The time that a document or a key may take: a random read of an SSD.
const DOCUMENT_MICROS: u64 = 100;

/// Keeps the operation if it took long. Must be called on its thread, before it ends.
pub(crate) fn observe(server: &Server, finished: &Finished<'_>) {
    let Finished { op, request, done, micros, .. } = *finished;
    if micros < LONG_MICROS || done.waited {
        return;
    }
    let (what, blocked_micros) = op.was_blocked();
    server.metrics.long_operations.add(LongOperation {
        number: 0,
        at_ms: clock::wall_ms(),
        name: request.command.name,
        namespace: op.current_namespace(),
        is_command: request.command.latency == LatencyKind::Command,
        micros,
        own_micros: own_micros(done, timeslice::processor_time() + nagi_js::slept()),
        blocked: (blocked_micros >= micros / 2).then_some(what),
    });
}

fn own_micros(done: &Done, worked: Duration) -> u64 {
    let written = [done.inserted, done.upserted, done.matched, done.deleted];
    let counts = [done.keys_examined, done.docs_examined, done.keys_inserted, done.keys_deleted];
    let documents = counts.into_iter().chain(written.into_iter().flatten());
    let documents = documents.fold(0_u64, u64::saturating_add);
    let micros = u64::try_from(worked.as_micros()).unwrap_or(u64::MAX);
    documents.saturating_mul(DOCUMENT_MICROS).saturating_add(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_work_are_own_time() {
        assert_eq!(own_micros(&Done::default(), Duration::ZERO), 0);
        let read = Done { docs_examined: 900, keys_examined: 100, ..Done::default() };
        assert_eq!(own_micros(&read, Duration::ZERO), 100_000);
        let written = Done { matched: Some(7), inserted: Some(3), ..Done::default() };
        assert_eq!(own_micros(&written, Duration::from_millis(2)), 3000);
    }
}
