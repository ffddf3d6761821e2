//! The legacy opcodes, which drivers used from 2010 to 2017.

use nagi_bson::Doc;

use crate::Docs;
use crate::fault::{Fault, Result};
use crate::read::Reader;

/// Flag bits of OP_QUERY.
pub mod query_flags {
    pub const TAILABLE: u32 = 1 << 1;
    pub const SECONDARY_OK: u32 = 1 << 2;
    pub const OPLOG_REPLAY: u32 = 1 << 3;
    pub const NO_CURSOR_TIMEOUT: u32 = 1 << 4;
    pub const AWAIT_DATA: u32 = 1 << 5;
    pub const EXHAUST: u32 = 1 << 6;
    pub const PARTIAL: u32 = 1 << 7;
}

/// Flag bits of OP_INSERT, OP_UPDATE and OP_DELETE.
pub mod write_flags {
    pub const INSERT_CONTINUE_ON_ERROR: u32 = 1;
    pub const UPDATE_UPSERT: u32 = 1;
    pub const UPDATE_MULTI: u32 = 1 << 1;
    pub const DELETE_SINGLE: u32 = 1;
}

/// OP_QUERY: a find, or a command if the collection is `$cmd`.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    pub flags: u32,
    /// `database.collection`, as sent.
    pub namespace: &'a str,
    pub skip: i32,
    /// Batch size; 1 and negative numbers mean "at most that many, then close".
    pub number_to_return: i32,
    pub query: Doc<'a>,
    pub fields: Option<Doc<'a>>,
}

/// OP_GET_MORE.
#[derive(Debug, Clone)]
pub struct GetMore<'a> {
    pub namespace: &'a str,
    pub number_to_return: i32,
    pub cursor_id: i64,
}

/// OP_INSERT; has no reply.
#[derive(Debug, Clone)]
pub struct Insert<'a> {
    pub flags: u32,
    pub namespace: &'a str,
    pub docs: Docs<'a>,
}

/// OP_UPDATE; has no reply.
#[derive(Debug, Clone)]
pub struct Update<'a> {
    pub flags: u32,
    pub namespace: &'a str,
    pub selector: Doc<'a>,
    pub update: Doc<'a>,
}

/// OP_DELETE; has no reply.
#[derive(Debug, Clone)]
pub struct Delete<'a> {
    pub flags: u32,
    pub namespace: &'a str,
    pub selector: Doc<'a>,
}

/// OP_KILL_CURSORS; has no reply.
#[derive(Debug, Clone)]
pub struct KillCursors<'a> {
    pub ids: CursorIds<'a>,
}

/// The cursor ids of an OP_KILL_CURSORS.
#[derive(Debug, Clone)]
pub struct CursorIds<'a>(Reader<'a>);

fn finished<T>(reader: &Reader<'_>, message: T) -> Result<T> {
    if reader.is_empty() { Ok(message) } else { Err(Fault::framing("bytes follow the message")) }
}

impl<'a> Query<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<Query<'a>> {
        let mut reader = Reader::new(body);
        let query = Query {
            flags: reader.uint32()?,
            namespace: reader.text()?,
            skip: reader.int32()?,
            number_to_return: reader.int32()?,
            query: reader.doc()?,
            fields: if reader.is_empty() { None } else { Some(reader.doc()?) },
        };
        finished(&reader, query)
    }

    /// Returns true if it is a command: `database.$cmd`.
    pub fn is_command(&self) -> bool {
        self.namespace.split_once('.').is_some_and(|(_, collection)| collection == "$cmd")
    }
}

impl<'a> GetMore<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<GetMore<'a>> {
        let mut reader = Reader::new(body);
        reader.int32()?;
        let message = GetMore {
            namespace: reader.text()?,
            number_to_return: reader.int32()?,
            cursor_id: reader.int64()?,
        };
        finished(&reader, message)
    }
}

impl<'a> Insert<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<Insert<'a>> {
        let mut reader = Reader::new(body);
        Ok(Insert { flags: reader.uint32()?, namespace: reader.text()?, docs: reader.docs()? })
    }
}

impl<'a> Update<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<Update<'a>> {
        let mut reader = Reader::new(body);
        reader.int32()?;
        let namespace = reader.text()?;
        let flags = reader.uint32()?;
        let (selector, update) = (reader.doc()?, reader.doc()?);
        finished(&reader, Update { flags, namespace, selector, update })
    }
}

impl<'a> Delete<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<Delete<'a>> {
        let mut reader = Reader::new(body);
        reader.int32()?;
        let namespace = reader.text()?;
        let flags = reader.uint32()?;
        let selector = reader.doc()?;
        finished(&reader, Delete { flags, namespace, selector })
    }
}

impl<'a> KillCursors<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<KillCursors<'a>> {
        let mut reader = Reader::new(body);
        reader.int32()?;
        let count = reader.int32()?;
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(8));
        if bytes != Some(reader.rest().len()) {
            return Err(Fault::framing("number of cursors does not fit the message"));
        }
        Ok(KillCursors { ids: CursorIds(reader) })
    }
}

impl Iterator for CursorIds<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.0.int64().ok()
    }
}
