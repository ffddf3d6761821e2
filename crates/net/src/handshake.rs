//! TLS handshakes: on the thread of the connection, bounded in time and in number.
//!
//! A client on a working network takes some milliseconds. One that stops in the middle holds some 100 KiB and a thread
//! until its time is over; if many do, each new handshake ends the oldest one, so that such clients do not keep others
//! out. A connection counts from its first byte, before it is known what it will be, until its first whole message or
//! the end of its handshake: one that sends a single byte holds a thread, too.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Instant;

use nagi_server::Connection;
use nagi_tls::{Handshake, Session, Tls};
use parking_lot::Mutex;

use crate::NetConfig;
use crate::end::{End, failed, is_timeout};
use crate::stream::Stream;

/// The connections that have begun with a first message or a handshake, and not completed it.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    /// Oldest first.
    under_way: Mutex<VecDeque<Arc<Stream>>>,
}

/// One of them; dropped when it has ended.
pub(crate) struct Entry {
    all: Arc<Handshakes>,
    stream: Arc<Stream>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.all.under_way.lock().retain(|stream| !Arc::ptr_eq(stream, &self.stream));
    }
}

/// The end of a connection whose handshake takes too long.
pub(crate) const TIMED_OUT: &str = "in the TLS handshake";

impl Handshakes {
    /// Runs the handshake that begins with the bytes `first`, and that [`Handshakes::enter`] counts meanwhile.
    pub(crate) fn run(
        tls: &Arc<Tls>,
        config: &NetConfig,
        stream: &Arc<Stream>,
        connection: &mut Connection,
        first: &[u8],
    ) -> Result<Session, End> {
        if !connection.charge_tls() {
            connection.refuse_handshake("no memory for another connection with TLS");
            return Err(End::Refused);
        }
        let mut session = tls.accept().map_err(End::Broken)?;
        stream.set_write_timeout(config.handshake_time_max).map_err(failed)?;
        let until = Instant::now() + config.handshake_time_max;
        let mut place = [0; 4096];
        let mut advanced = session.advance(first, &mut &**stream);
        let peer = loop {
            match advanced.map_err(timed_out)? {
                Handshake::Continues => {}
                Handshake::Done(peer) => break peer,
                Handshake::Failed(reason) => {
                    connection.refuse_handshake(&reason);
                    return Err(End::Refused);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(End::TimedOut(TIMED_OUT));
            }
            stream.set_read_timeout(Some(left)).map_err(failed)?;
            let length = match stream.read(&mut place).map_err(timed_out)? {
                0 => return Err(End::Closed),
                length => length,
            };
            advanced = session.advance(&place[..length], &mut &**stream);
        };
        stream.set_write_timeout(config.write_gap_max).map_err(failed)?;
        let logged = session.is_logged(&peer);
        connection.secured(peer, logged);
        let watched = stream.clone();
        connection.set_probe(move || watched.is_open_both_ways());
        Ok(session)
    }

    /// Counts a connection. One more than allowed ends the oldest.
    pub(crate) fn enter(self: &Arc<Handshakes>, stream: &Arc<Stream>, count_max: usize) -> Entry {
        let mut under_way = self.under_way.lock();
        if under_way.len() >= count_max
            && let Some(oldest) = under_way.pop_front()
        {
            // Its thread reads the end of the stream.
            oldest.shutdown(Shutdown::Both);
        }
        under_way.push_back(stream.clone());
        Entry { all: self.clone(), stream: stream.clone() }
    }
}

fn timed_out(error: std::io::Error) -> End {
    match is_timeout(&error) {
        true => End::TimedOut(TIMED_OUT),
        false => failed(error),
    }
}
