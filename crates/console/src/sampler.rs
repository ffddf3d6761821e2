//! Reads all figures once a second, on a thread of its own, and tells those who watch.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nagi_bson::{Doc, DocBuf};
use nagi_server::{EngineEvent, wall_ms};

use crate::event::Event;
use crate::figures;
use crate::growth::COLLECTIONS_MAX;
use crate::latencies::{self, Counts};
use crate::machine::Reader;
use crate::pauses::Pauses;
use crate::sample::{EVERY_MS, Sample, steady_ms};
use crate::stalls::{BLOCKED_US, News, Watch};
use crate::state::State;

/// Runs until `stop` is dropped.
pub(crate) fn run(state: &State, pauses: &Pauses, stop: &Receiver<()>) {
    let every = Duration::from_millis(EVERY_MS as u64);
    let reader = Reader::new();
    let (mut last, mut totals): (Option<Arc<Sample>>, Option<[Counts; 3]>) = (None, None);
    let mut watch = Watch::default();
    let mut next = Instant::now();
    loop {
        let status = DocBuf::build(|out| state.server.write_status(out));
        let now_totals = latencies::totals(status.as_doc());
        let ended = totals.as_ref().map(|before| latencies::difference(before, &now_totals));
        totals = Some(now_totals);
        let values = figures::read(status.as_doc(), &reader.read());
        let (at_ms, ended) = (wall_ms(), ended.unwrap_or_default());
        let (steady_ms, paused_ms) = (steady_ms(), pauses.take());
        let sample = Arc::new(Sample { at_ms, steady_ms, values, paused_ms, ended });
        let engine = state.server.engine_events_after(state.activity.newest());
        let long = state.server.long_operations_after(watch.newest());
        let blocked = state.server.blocked_now(BLOCKED_US);
        let news = News { events: &engine, long: &long, blocked };
        let look = |before: &Arc<Sample>| watch.observe(before, &sample, &news);
        let stall = last.as_ref().and_then(look);
        state.history.add(&sample);
        last = Some(sample.clone());
        // There may be no stream.
        let _ = state.events.send(Event::Sample(sample.clone()));
        if let Some(stall) = stall {
            state.history.add_stall(stall.clone());
            let _ = state.events.send(Event::Stall(stall));
        }
        let alerts = state.alerts.iter().flat_map(|alerts| alerts.observe(&state.history, &sample));
        for event in alerts {
            let _ = state.events.send(Event::Alert(event));
        }
        if let Some(alerts) = &state.alerts {
            let store = |silences: &[_]| state.server.keep_alert_silences(silences);
            alerts.keep_late_silences(sample.moment(), store);
        }
        watch_engine(state, engine, status.as_doc());
        state.growth.sample(wall_ms(), || state.server.collection_sizes(COLLECTIONS_MAX));
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

/// Keeps what the engine has done. Where reads and writes land is recorded only while a page is open.
fn watch_engine(state: &State, events: Vec<EngineEvent>, status: Doc<'_>) {
    let fresh = state.activity.add(events, status, wall_ms());
    if !fresh.is_empty() {
        let _ = state.events.send(Event::Work(fresh.into()));
    }
    if state.events.receiver_count() > 0
        && let Some(activity) = state.server.disk_activity()
    {
        let _ = state.events.send(Event::Disk(state.activity.add_disk(activity, wall_ms())));
    }
}
