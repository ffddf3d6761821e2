//! Reads all figures once a second, on a thread of its own, and tells those who watch.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nagi_bson::DocBuf;
use nagi_server::{Server, wall_ms};
use tokio::sync::broadcast::Sender;

use crate::alerts;
use crate::figures;
use crate::history::{Event, History};
use crate::latencies::{self, Counts};
use crate::machine::Reader;
use crate::sample::{EVERY_MS, Sample};
use crate::stalls::Watch;

/// Runs until `stop` is dropped.
pub(crate) fn run(
    server: &Server,
    history: &History,
    alerts: Option<&alerts::Watch>,
    events: &Sender<Event>,
    stop: &Receiver<()>,
) {
    let every = Duration::from_millis(EVERY_MS as u64);
    let reader = Reader::new();
    let (mut last, mut totals): (Option<Arc<Sample>>, Option<[Counts; 3]>) = (None, None);
    let mut watch = Watch::default();
    let mut next = Instant::now();
    loop {
        let status = DocBuf::build(|out| server.write_status(out));
        let now_totals = latencies::totals(status.as_doc());
        let ended = totals.as_ref().map(|before| latencies::difference(before, &now_totals));
        totals = Some(now_totals);
        let values = figures::read(status.as_doc(), &reader.read());
        let sample =
            Arc::new(Sample { at_ms: wall_ms(), values, ended: ended.unwrap_or_default() });
        let stall = last.as_ref().and_then(|before| watch.observe(before, &sample));
        history.add(&sample);
        last = Some(sample.clone());
        // There may be no stream.
        let _ = events.send(Event::Sample(sample.clone()));
        if let Some(stall) = stall {
            history.add_stall(stall.clone());
            let _ = events.send(Event::Stall(stall));
        }
        for event in alerts.iter().flat_map(|alerts| alerts.observe(history, &sample)) {
            let _ = events.send(Event::Alert(event));
        }
        let now = Instant::now();
        next += every;
        if next < now {
            next = now + every;
        }
        if stop.recv_timeout(next - now) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
