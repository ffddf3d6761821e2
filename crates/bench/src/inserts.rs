//! Inserts that are sent one by one, each acknowledged and timed.
use crate::args::{Outcome, Problem, failed};
use crate::client::{BODY_AT, Connection, complaint};
use crate::histogram::Histogram;
use crate::timeline::Timeline;
use nagi_bson::DocBuf;
use std::time::Instant;

/// Sends the frame of an insert and records the latency of the reply. Fails if the reply contains an error.
pub(crate) fn insert_timed(
    connection: &mut Connection,
    frame: &[u8],
    latencies: &mut Histogram,
    timeline: &mut Timeline,
) -> Outcome {
    let sent = Instant::now();
    let reply = connection.call(frame).map_err(failed("inserting"))?;
    let took = sent.elapsed();
    latencies.record(took.as_nanos() as u64);
    timeline.record(sent, took);
    let reply = DocBuf::from_bytes(reply.get(BODY_AT..).unwrap_or(&[]).to_vec());
    match reply.map_or_else(|e| Some(e.to_string()), |r| complaint(r.as_doc())) {
        Some(text) => Err(Problem::Failed(format!("inserting: {text}"))),
        None => Ok(()),
    }
}
