//! A parsed frame.

use crate::fault::{Fault, Result};
use crate::header::{Header, opcode};
use crate::{Delete, GetMore, Insert, KillCursors, Msg, Query, Update};

/// A request with any opcode except OP_COMPRESSED, which must be decompressed first ([`crate::decompress`]).
#[derive(Debug, Clone)]
pub enum Message<'a> {
    Msg(Msg<'a>),
    Query(Query<'a>),
    GetMore(GetMore<'a>),
    Insert(Insert<'a>),
    Update(Update<'a>),
    Delete(Delete<'a>),
    KillCursors(KillCursors<'a>),
}

impl<'a> Message<'a> {
    /// Parses a whole frame: one pass over the bytes, no allocation.
    ///
    /// If the contents of an OP_MSG are invalid, the fault is answered with the header of [`Header::split`], provided
    /// that [`Msg::wants_reply`].
    pub fn parse(frame: &'a [u8]) -> Result<(Header, Message<'a>)> {
        Message::parse_verified(frame, true)
    }

    /// As [`Message::parse`]; with `false` the checksum of an OP_MSG is not compared: TLS has verified the bytes.
    pub fn parse_verified(frame: &'a [u8], verified: bool) -> Result<(Header, Message<'a>)> {
        let (header, body) = Header::split(frame)?;
        let message = match header.opcode {
            opcode::MSG => Message::Msg(Msg::parse(frame, body, verified)?),
            opcode::QUERY => Message::Query(Query::parse(body)?),
            opcode::GET_MORE => Message::GetMore(GetMore::parse(body)?),
            opcode::INSERT => Message::Insert(Insert::parse(body)?),
            opcode::UPDATE => Message::Update(Update::parse(body)?),
            opcode::DELETE => Message::Delete(Delete::parse(body)?),
            opcode::KILL_CURSORS => Message::KillCursors(KillCursors::parse(body)?),
            other => return Err(Fault::framing(format!("unknown opcode {other}"))),
        };
        Ok((header, message))
    }
}
