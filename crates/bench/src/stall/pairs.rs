//! Compares the server with its engine behind a bare socket, in short turns.
//!
//! On a machine whose speed changes from minute to minute, two runs one after the other cannot be compared. So
//! the same client inserts into both in turn, and the pairs are compared: their median, and their spread. Turns
//! are short and many: in twenty pairs of a second each, a flush in the turn of one side shifted the median by
//! several percent.
use std::fs;
use std::time::{Duration, Instant};

use super::{COLLECTION, DATABASE, VARIANTS, id_at, insert};
use crate::args::{Outcome, failed};
use crate::client::{Connection, frame};
use crate::process::{Scratch, Server};
use crate::report as text;
use nagi_bson::doc;

const PAIRS: usize = 150;
pub(super) const TURN: Duration = Duration::from_millis(200);

/// Inserts per second, and the ratio of the server's rate to the engine's in each pair, in ascending order.
pub(super) struct Pairs {
    pub(super) server: f64,
    pub(super) engine: f64,
    pub(super) shares: Vec<f64>,
}

impl Pairs {
    pub(super) fn median(&self) -> f64 {
        self.shares.get(self.shares.len() / 2).copied().unwrap_or(0.0)
    }
}

/// One side of the comparison.
struct Side {
    connection: Connection,
    frames: Vec<Vec<u8>>,
    id_at: usize,
    next: u64,
    seconds: f64,
}

impl Side {
    fn new(address: &str) -> Outcome<Side> {
        let frames: Vec<_> = (0..VARIANTS).map(|n| frame(insert(n).as_doc())).collect();
        let id_at = id_at(&frames[0])?;
        let connection = Connection::open(address)?;
        Ok(Side { connection, frames, id_at, next: 1, seconds: 0.0 })
    }

    /// Inserts for one turn and returns the rate.
    fn turn(&mut self) -> Outcome<f64> {
        let (begin, first) = (Instant::now(), self.next);
        while begin.elapsed() < TURN {
            let frame = &mut self.frames[(self.next % VARIANTS) as usize];
            frame[self.id_at..self.id_at + 8].copy_from_slice(&self.next.to_le_bytes());
            self.connection.call(frame).map_err(failed("inserting"))?;
            self.next += 1;
        }
        let seconds = begin.elapsed().as_secs_f64();
        self.seconds += seconds;
        Ok((self.next - first) as f64 / seconds)
    }

    fn rate(&self) -> f64 {
        (self.next - 1) as f64 / self.seconds.max(1e-9)
    }
}

pub(super) fn measure(scratch: &Scratch, target: &str) -> Outcome<Pairs> {
    text::say(&format!(
        "comparing the server with the bare engine, {PAIRS} turns of each: {} seconds\n",
        (TURN * 2 * PAIRS as u32).as_secs()
    ));
    let dir = scratch.path.join("raw");
    let raw = Server::raw_engine(&dir)?;
    let (mut server, mut engine) = (Side::new(target)?, Side::new(&raw.address)?);
    // Warm-up: afterwards both have their first files, and the server its collection.
    server.turn()?;
    engine.turn()?;
    let mut shares = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        shares.push(server.turn()? / engine.turn()?.max(1.0));
    }
    shares.sort_by(f64::total_cmp);
    let drop_it = doc! { "drop": COLLECTION, "$db": DATABASE };
    server.connection.expect(drop_it.as_doc())?;
    let pairs = Pairs { server: server.rate(), engine: engine.rate(), shares };
    drop((engine, raw));
    fs::remove_dir_all(&dir).map_err(failed("removing the raw engine's data"))?;
    Ok(pairs)
}
