//! The life of one connection: reads a frame, lets the server handle it, writes the reply.
//!
//! ```text
//!             +--> next_frame: read until a frame is complete
//!             |      a handshake of TLS              -> secure: the session decrypts from now on
//!             |      16 KiB of a large frame are here -> admit: charge its memory, or wait for it
//!             |      silence between frames           -> rest: free the buffers, block without a timeout
//!             |      silence within a frame           -> End::TimedOut
//!             |    answer: Server::handle, write; repeated for an exhaust stream
//!             +--- recycle the buffers
//! ```

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_budget::{Charge, meter};
use nagi_server::{
    Connection, FREE_BYTES, Outcome, Server, TlsMode, TransportSecurity, message_cost,
};
use nagi_tls::Session;
use nagi_wire::HEADER_BYTES;

use crate::NetConfig;
use crate::buffer::{Buffer, recycle};
use crate::crowded::Crowded;
use crate::demand::Demand;
use crate::end::{End, failed, is_timeout};
use crate::handshake::{Entry, Handshakes, TIMED_OUT as IN_HANDSHAKE};
use crate::registry::Member;
use crate::stranger::Stranger;
use crate::stream::Stream;

/// A connection between two requests. It may move to another thread.
pub(crate) struct Visit {
    pub(crate) stream: Arc<Stream>,
    pub(crate) connection: Connection,
    pub(crate) member: Member,
    /// A whole message has arrived, so the peer is known to speak the protocol.
    pub(crate) acquainted: bool,
    /// TLS, if the peer began with its handshake.
    pub(crate) session: Option<Box<Session>>,
}

/// A message is charged once this much of it has arrived: an announced length alone must not take capacity from other
/// connections.
const CHARGED_FROM: usize = 16 * 1024;

struct Life<'n> {
    server: &'n Arc<Server>,
    stream: &'n Arc<Stream>,
    config: &'n NetConfig,
    handshakes: &'n Arc<Handshakes>,
    session: &'n mut Option<Box<Session>>,
    /// Present while the first message or the handshake is incomplete.
    entry: Option<Entry>,
    buffer: Buffer,
    out: Vec<u8>,
    /// The memory charge of the current message, if it is large.
    charge: Option<Charge>,
    /// The part of that charge for what its request stages.
    staged_bytes: usize,
    /// The timeout of reads, if they have one, so that pauses are noticed.
    timeout: Option<Duration>,
    acquainted: &'n mut bool,
    /// True if an idle connection blocks its thread.
    stays: bool,
}

/// The progress of an incomplete frame.
struct Pace {
    began: Instant,
    /// When the last bytes were noticed, and how many bytes there were then.
    moved: Instant,
    bytes: usize,
    /// What is demanded since the message holds memory.
    demand: Option<Demand>,
}

/// Serves a connection until it ends or is idle. If `stays`, it is never idle, but blocks this thread.
pub(crate) fn run(
    server: &Arc<Server>,
    config: &NetConfig,
    handshakes: &Arc<Handshakes>,
    visit: &mut Visit,
    stays: bool,
) -> End {
    let Visit { stream, connection, acquainted, session, .. } = visit;
    let mut life = Life {
        server,
        stream,
        config,
        handshakes,
        session,
        entry: None,
        buffer: Buffer::new(),
        out: Vec::new(),
        charge: None,
        staged_bytes: 0,
        timeout: None,
        acquainted,
        stays,
    };
    loop {
        let len = match life.next_frame(connection) {
            Ok(len) => len,
            Err(end) => return end,
        };
        if let Err(end) = life.answer(connection, len) {
            return end;
        }
        connection.reply_sent();
        recycle(&mut life.out);
        life.charge = None;
        life.staged_bytes = 0;
    }
}

impl Life<'_> {
    /// Reads until a whole frame is available. Usually one read, and none for pipelined requests.
    fn next_frame(&mut self, connection: &mut Connection) -> Result<usize, End> {
        self.watch()?;
        let mut pace: Option<Pace> = None;
        loop {
            if !*self.acquainted {
                self.meet(connection)?;
            }
            match self.buffer.complete() {
                Ok(Some(len)) => {
                    *self.acquainted = true;
                    self.entry = None;
                    self.admit()?;
                    return Ok(len);
                }
                Ok(None) if self.buffer.len() >= CHARGED_FROM => self.admit()?,
                Ok(None) => {}
                Err(fault) => return Err(End::Broken(fault.error.message().to_owned())),
            }
            let within_record = self.session.as_ref().is_some_and(|s| s.is_within_record());
            let within = within_record || !self.buffer.is_empty();
            if within {
                self.watch()?;
                if !*self.acquainted && self.session.is_none() {
                    self.count();
                }
                self.check_pace(&mut pace)?;
            }
            let place = self.buffer.free_space();
            let read = match self.session {
                Some(session) => session.read(&mut &**self.stream, place),
                None => self.stream.read(place),
            };
            match read {
                Ok(0) => return Err(End::Closed),
                Ok(len) => self.buffer.filled(len),
                Err(error) if is_timeout(&error) && !within => self.rest(connection)?,
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Counts the connection among those whose beginning is incomplete.
    fn count(&mut self) {
        if self.entry.is_none() {
            let count_max = self.config.handshake_count_max;
            self.entry = Some(self.handshakes.enter(self.stream, count_max));
        }
    }

    /// Decides by the first bytes which protocol the peer speaks, and if it may.
    fn meet(&mut self, connection: &mut Connection) -> Result<(), End> {
        if self.session.is_some() {
            return Ok(());
        }
        let mode = self.config.tls.as_ref().map_or(TlsMode::Disabled, |tls| tls.mode());
        match (Stranger::recognise(self.buffer.front()), &self.config.tls) {
            (Some(Stranger::Tls), Some(tls)) if mode != TlsMode::Disabled => {
                let first = self.buffer.take();
                self.count();
                let session = Handshakes::run(tls, self.config, self.stream, connection, &first)?;
                *self.session = Some(Box::new(session));
                self.entry = None;
                // The handshake had its own.
                self.timeout = None;
                self.watch()
            }
            (Some(stranger), _) => {
                stranger.answer(self.stream);
                Err(End::Broken(stranger.reason().to_owned()))
            }
            // Whoever may open a Unix socket is on this machine: nothing can be overheard.
            (None, _) if mode == TlsMode::Require && !connection.peer().unix_socket => {
                if self.buffer.len() < HEADER_BYTES {
                    return Ok(());
                }
                connection.refuse_handshake(TLS_ONLY);
                Err(End::Refused)
            }
            (None, _) => Ok(()),
        }
    }

    /// Charges the message at the front, if it is large; waits for memory if necessary. Nothing is read meanwhile, so
    /// TCP flow control slows the peer down.
    fn admit(&mut self) -> Result<(), End> {
        if self.charge.is_some() {
            return Ok(());
        }
        let Some(cost) = message_cost(self.buffer.front()) else { return Ok(()) };
        let mut go_on = || match self.session {
            Some(_) => self.stream.is_open_both_ways(),
            None => self.stream.is_open(),
        };
        match self.server.admit_message(cost, &mut go_on) {
            Some(charge) => {
                self.charge = Some(charge);
                self.staged_bytes = usize::try_from(cost.staged).unwrap_or(usize::MAX);
            }
            None => return Err(End::TimedOut("waiting for memory for a message")),
        }
        if let Some(length) = self.buffer.front().first_chunk::<4>() {
            self.buffer.reserve(u32::from_le_bytes(*length) as usize);
        }
        Ok(())
    }

    /// Enforces the maximum pause within a frame, the maximum time of a whole frame, and the least rate of one that
    /// holds memory.
    fn check_pace(&self, pace: &mut Option<Pace>) -> Result<(), End> {
        let now = Instant::now();
        let bytes = self.buffer.len();
        let pace = pace.get_or_insert(Pace { began: now, moved: now, bytes, demand: None });
        if pace.bytes != bytes {
            (pace.bytes, pace.moved) = (bytes, now);
        }
        if self.has_first_bytes_only() && now - pace.began >= self.config.handshake_time_max {
            let doing =
                if self.may_begin_handshake() { IN_HANDSHAKE } else { "reading its first bytes" };
            return Err(End::TimedOut(doing));
        }
        let is_late = now - pace.moved >= self.config.frame_gap_max
            || now - pace.began >= self.config.frame_time_max;
        let is_slow = self.charge.is_some() && {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            let begin = || Demand::begin(self.config.crowded_time_max, bytes, now);
            let demand = pace.demand.get_or_insert_with(begin);
            demand.is_failed(bytes, self.server.budget().has_waiting(), now)
        };
        match is_late || is_slow {
            true => Err(End::TimedOut("reading a message")),
            false => Ok(()),
        }
    }

    /// Returns true if too few bytes of a new connection have arrived to know the protocol. Clients send them at once.
    fn has_first_bytes_only(&self) -> bool {
        !*self.acquainted && self.session.is_none() && self.buffer.len() < HEADER_BYTES
    }

    /// Returns true if the first bytes may be those of a handshake.
    fn may_begin_handshake(&self) -> bool {
        match self.config.tls.as_ref().map_or(TlsMode::Disabled, |tls| tls.mode()) {
            TlsMode::Require => true,
            TlsMode::Disabled => false,
            _ => self.buffer.front().first() == Some(&0x16),
        }
    }

    /// The peer is idle between frames: frees memory, and the thread unless it stays.
    fn rest(&mut self, connection: &mut Connection) -> Result<(), End> {
        self.buffer.shrink();
        self.out = Vec::new();
        if let Some(session) = self.session {
            session.shrink();
        }
        connection.shrink();
        if !self.stays {
            return Err(End::Idle);
        }
        self.timeout = None;
        self.stream.set_read_timeout(None).map_err(failed)
    }

    /// Lets reads end often enough to notice what is to be noticed now.
    fn watch(&mut self) -> Result<(), End> {
        let limits = self.config.frame_gap_max.min(self.config.handshake_time_max);
        let mut tick = self.config.idle_after.min(limits);
        if self.charge.is_some() {
            tick = tick.min(Demand::look_every(self.config.crowded_time_max));
        }
        if self.timeout == Some(tick) {
            return Ok(());
        }
        self.timeout = Some(tick);
        self.stream.set_read_timeout(Some(tick)).map_err(failed)
    }

    /// Handles the frame at the front of the buffer.
    fn answer(&mut self, connection: &mut Connection, len: usize) -> Result<(), End> {
        recycle(&mut self.out);
        let frame = self.buffer.frame(len);
        meter::allow(self.staged_bytes);
        let mut outcome = self.server.handle(connection, frame, &mut self.out);
        meter::allow(0);
        self.buffer.consume(len);
        loop {
            if !self.out.is_empty() {
                self.send()?;
            }
            match outcome {
                Outcome::Reply | Outcome::NoReply => return Ok(()),
                Outcome::Close => return Err(End::Refused),
                Outcome::Stream => {
                    recycle(&mut self.out);
                    outcome = self.server.resume(connection, &mut self.out);
                }
            }
        }
    }

    /// Sends the reply.
    fn send(&mut self) -> Result<(), End> {
        let written = match self.out.len() > FREE_BYTES {
            true => self.send_large(),
            false => write(self.session, &mut &**self.stream, &self.out),
        };
        written.map_err(|error| match is_timeout(&error) {
            true => End::TimedOut("writing a reply"),
            false => failed(error),
        })
    }

    fn send_large(&mut self) -> io::Result<()> {
        let mut socket = Crowded::begin(self.stream, self.server.budget(), self.config)?;
        write(self.session, &mut socket, &self.out)?;
        socket.end()
    }
}

fn write(
    session: &mut Option<Box<Session>>,
    socket: &mut dyn Write,
    bytes: &[u8],
) -> io::Result<()> {
    match session {
        Some(session) => session.write_all(socket, bytes),
        None => socket.write_all(bytes),
    }
}

/// MongoDB's text.
const TLS_ONLY: &str = "The server is configured to only allow SSL connections";
