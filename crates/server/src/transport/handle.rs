//! From a frame to a reply: the interface that `net` uses.
//!
//! ```text
//!  frame -> [decompress] -> wire::Message -> dispatch or legacy -> reply in `out` -> [compress]
//! ```
//!
//! A reply is written behind its header directly into net's buffer; only compressed replies are copied once. An
//! ordinary command allocates nothing once the buffers have grown.

use std::sync::Arc;

use nagi_error::Error;
use nagi_wire::{Compressor, Fault, Header, Message, Msg, flags, opcode};

use crate::core::command::Done;
use crate::core::connection::{Connection, Stream};
use crate::core::server::Server;
use crate::request::{Protocol, Sequence};
use crate::transport::dispatch::{self, Incoming};
use crate::transport::errors::write_error;
use crate::transport::legacy;

/// What net does after a frame has been handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Send `out`, then read the next frame.
    Reply,
    /// Nothing to send; read the next frame.
    NoReply,
    /// Send `out`, then call [`Server::resume`] for the next reply of the exhaust stream.
    Stream,
    /// Send `out` if it is not empty, then close.
    Close,
}

impl Server {
    /// Handles one whole message, header included, and appends the reply to `out`, which is empty at the call.
    ///
    /// Never fails: an error of the request is reported in the reply, an error of the framing closes the connection.
    /// May block (awaitable hello, tailable cursors, locks).
    pub fn handle(
        self: &Arc<Server>,
        connection: &mut Connection,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) -> Outcome {
        self.metrics.physical_bytes_in.add(frame.len() as u64);
        let start = out.len();
        connection.stream = None;
        let outcome = match Header::split(frame) {
            Ok((header, _)) if header.opcode == opcode::COMPRESSED => {
                self.handle_compressed(connection, frame, out)
            }
            _ => self.handle_plain(connection, frame, 0, None, out),
        };
        connection.settle_reply(out);
        self.metrics.physical_bytes_out.add((out.len() - start) as u64);
        outcome
    }

    /// Produces the next reply of the exhaust stream that the last outcome began. May block until there is one.
    pub fn resume(self: &Arc<Server>, connection: &mut Connection, out: &mut Vec<u8>) -> Outcome {
        if self.is_stopping() {
            return Outcome::Close;
        }
        let Some(stream) = connection.stream.take() else { return Outcome::NoReply };
        let start = out.len();
        // A command recognizes by this entry that it continues a stream.
        connection.stream =
            Some(Stream { frame: Vec::new(), previous_reply_id: 0, compressor: stream.compressor });
        let previous = Some(stream.previous_reply_id);
        let outcome =
            self.handle_plain(connection, &stream.frame, stream.compressor, previous, out);
        if outcome != Outcome::Stream {
            connection.stream = None;
        }
        connection.settle_reply(out);
        self.metrics.physical_bytes_out.add((out.len() - start) as u64);
        outcome
    }

    fn handle_compressed(
        self: &Arc<Server>,
        connection: &mut Connection,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) -> Outcome {
        let mut inflated = std::mem::take(&mut connection.inflated);
        let outcome = match nagi_wire::decompress(frame, &mut inflated) {
            Ok(compressor) if !self.compresses_by(compressor) => {
                let text = format!("the compressor {} is not enabled", compressor.name());
                refuse_frame(connection, &Fault::framing(text))
            }
            Ok(compressor) => {
                let counters = &self.metrics.compression[compressor as usize & 3];
                counters.decompressor_in.add(frame.len() as u64);
                counters.decompressor_out.add(inflated.len() as u64);
                self.handle_plain(connection, &inflated, compressor as u8, None, out)
            }
            Err(fault) => refuse_frame(connection, &fault),
        };
        connection.inflated = inflated;
        outcome
    }

    /// Handles a frame after decompression. `previous` is the id of the previous reply of the stream.
    fn handle_plain(
        self: &Arc<Server>,
        connection: &mut Connection,
        frame: &[u8],
        compressor: u8,
        previous: Option<i32>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        self.metrics.bytes_in.add(frame.len() as u64);
        let start = out.len();
        let outcome = match Message::parse_verified(frame, !connection.has_tls()) {
            Ok((header, Message::Msg(msg))) => {
                let response_to = previous.unwrap_or(header.request_id);
                self.handle_msg(connection, &msg, response_to, frame, compressor, out)
            }
            Ok((header, message)) => legacy::handle(self, connection, &header, &message, out),
            Err(fault) => self.answer_fault(connection, frame, &fault, out),
        };
        self.metrics.bytes_out.add((out.len() - start) as u64);
        if let Some(compressor) = Compressor::by_id(compressor)
            && compressor != Compressor::Noop
            && out.len() > start
            && connection.may_compress(out)
        {
            let plain_bytes = out.len() - start;
            nagi_wire::compress(out, start, compressor, &mut connection.plain);
            let counters = &self.metrics.compression[compressor as usize & 3];
            counters.compressor_in.add(plain_bytes as u64);
            counters.compressor_out.add((out.len() - start) as u64);
        }
        outcome
    }

    fn handle_msg(
        self: &Arc<Server>,
        connection: &mut Connection,
        msg: &Msg<'_>,
        response_to: i32,
        frame: &[u8],
        compressor: u8,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let mut sequences = [Sequence { name: "", bytes: &[] }; 4];
        let mut count = 0;
        for (place, sequence) in sequences.iter_mut().zip(msg.sequences()) {
            *place = Sequence { name: sequence.name, bytes: sequence.docs.bytes() };
            count += 1;
        }
        let incoming = Incoming {
            db: None,
            body: msg.body,
            sequences: &sequences[..count],
            protocol: Protocol::Msg,
            exhaust_allowed: msg.exhaust_allowed() && !msg.more_to_come(),
        };
        let reply_id = connection.reply_id();
        let wants_checksum = msg.has_checksum() && !connection.has_tls();
        let checksum = if wants_checksum { flags::CHECKSUM_PRESENT } else { 0 };
        let start = nagi_wire::begin_msg(out, reply_id, response_to, checksum);
        let mut writer = nagi_bson::DocWriter::new(out);
        let done = dispatch::run(self, connection, &incoming, &mut writer);
        writer.finish();
        self.finish_msg(connection, msg, &done, start, reply_id, frame, compressor, out)
    }

    #[expect(clippy::too_many_arguments, reason = "the second half of handle_msg")]
    fn finish_msg(
        self: &Arc<Server>,
        connection: &mut Connection,
        msg: &Msg<'_>,
        done: &Done,
        start: usize,
        reply_id: i32,
        frame: &[u8],
        compressor: u8,
        out: &mut Vec<u8>,
    ) -> Outcome {
        if msg.more_to_come() || done.unanswered {
            out.truncate(start);
            return if done.close { Outcome::Close } else { Outcome::NoReply };
        }
        if done.stream {
            set_flag(out, start, flags::MORE_TO_COME);
            connection.stream =
                Some(Stream { frame: frame.to_vec(), previous_reply_id: reply_id, compressor });
        }
        nagi_wire::finish_msg(out, start);
        match (done.close, done.stream) {
            (true, _) => Outcome::Close,
            (_, true) => Outcome::Stream,
            _ => Outcome::Reply,
        }
    }

    /// Answers a message whose contents or framing are invalid.
    fn answer_fault(
        self: &Arc<Server>,
        connection: &mut Connection,
        frame: &[u8],
        fault: &Fault,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let header = Header::split(frame).map(|(header, _)| header).ok();
        let answerable =
            header.filter(|h| fault.answers && h.opcode == opcode::MSG && Msg::wants_reply(frame));
        if let Some(header) = answerable {
            let reply_id = connection.reply_id();
            self.write_refusal(&fault.error, reply_id, header.request_id, out);
        }
        if fault.closes {
            return match answerable {
                Some(_) => Outcome::Close,
                None => refuse_frame(connection, fault),
            };
        }
        if answerable.is_some() { Outcome::Reply } else { Outcome::NoReply }
    }

    fn write_refusal(self: &Arc<Server>, error: &Error, id: i32, to: i32, out: &mut Vec<u8>) {
        nagi_wire::reply_msg(out, id, to, 0, |w| write_error(self, error, None, w));
    }
}

/// Logs why a connection is closed.
fn refuse_frame(connection: &Connection, fault: &Fault) -> Outcome {
    log::info!(target: "NETWORK", id = 22988, remote = connection.peer.address.as_str(),
        connectionId = connection.id, error = fault.error.message();
        "Error receiving request from client. Ending connection from remote");
    Outcome::Close
}

/// Sets a flag of the OP_MSG that begins at `start`.
fn set_flag(out: &mut [u8], start: usize, flag: u32) {
    if let Some(place) = out.get_mut(start + 16..start + 20) {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(place);
        place.copy_from_slice(&(u32::from_le_bytes(bytes) | flag).to_le_bytes());
    }
}
