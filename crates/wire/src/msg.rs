//! OP_MSG: one body document and up to two document sequences.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, bail, err};

use crate::Docs;
use crate::fault::{Fault, Result};
use crate::read::Reader;

/// Flag bits of OP_MSG.
pub mod flags {
    pub const CHECKSUM_PRESENT: u32 = 1;
    pub const MORE_TO_COME: u32 = 1 << 1;
    pub const EXHAUST_ALLOWED: u32 = 1 << 16;
    /// Flags that a receiver must refuse if it does not know them.
    pub(crate) const REQUIRED: u32 = 0xFFFF;
}

/// The maximum number of sequences in a message (bulkWrite uses two).
const SEQUENCES_MAX: usize = 2;

/// A parsed OP_MSG.
#[derive(Debug, Clone)]
pub struct Msg<'a> {
    pub flags: u32,
    pub body: Doc<'a>,
    /// All sections, already validated.
    sections: &'a [u8],
}

/// A document sequence: an array field of the body, sent as consecutive documents.
#[derive(Debug, Clone)]
pub struct Sequence<'a> {
    pub name: &'a str,
    pub docs: Docs<'a>,
}

/// The sequences of a message in their order.
#[derive(Debug, Clone)]
pub struct Sequences<'a>(Reader<'a>);

impl<'a> Msg<'a> {
    /// `body` is the frame without its header; the checksum covers the whole frame. Unless `verified`, it is not
    /// compared.
    pub(crate) fn parse(frame: &[u8], body: &'a [u8], verified: bool) -> Result<Msg<'a>> {
        let mut reader = Reader::new(body);
        let flags = reader.uint32()?;
        let mut sections = reader.rest();
        if flags & flags::REQUIRED & !(flags::CHECKSUM_PRESENT | flags::MORE_TO_COME) != 0 {
            return Err(Fault::last_word(err!(
                Code::ILLEGAL_OP_MSG_FLAG,
                "Message contains illegal flags value: Ob{flags:032b}"
            )));
        }
        if flags & flags::CHECKSUM_PRESENT != 0 {
            let Some((kept, sum)) = sections.split_last_chunk::<4>() else {
                return Err(Fault::framing("message ends too early"));
            };
            let covered = frame.get(..frame.len() - 4).unwrap_or_default();
            if verified && crc32c::crc32c(covered) != u32::from_le_bytes(*sum) {
                return Err(Fault::last_word(err!(
                    Code::CHECKSUM_MISMATCH,
                    "OP_MSG checksum does not match contents"
                )));
            }
            sections = kept;
        }
        let body = parse_sections(sections)?;
        Ok(Msg { flags, body, sections })
    }

    /// Returns true if the sender expects a reply; works also for frames that cannot be parsed.
    pub fn wants_reply(frame: &[u8]) -> bool {
        let flags = frame.get(16..20).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b));
        flags.is_none_or(|flags| flags & flags::MORE_TO_COME == 0)
    }

    /// The database of the command: `$db`.
    pub fn database(&self) -> nagi_error::Result<&'a str> {
        match self.body.get("$db") {
            Value::String(name) => Ok(name),
            Value::Missing => {
                bail!(Code::Location(40571), "OP_MSG requests require a $db argument")
            }
            other => bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'OP_MSG.$db' is the wrong type '{}', expected type 'string'",
                other.kind().name()
            ),
        }
    }

    pub fn sequences(&self) -> Sequences<'a> {
        Sequences(Reader::new(self.sections))
    }

    /// The documents of the sequence `name`.
    pub fn sequence(&self, name: &str) -> Option<Docs<'a>> {
        self.sequences().find(|s| s.name == name).map(|s| s.docs)
    }

    pub const fn has_checksum(&self) -> bool {
        self.flags & flags::CHECKSUM_PRESENT != 0
    }

    pub const fn more_to_come(&self) -> bool {
        self.flags & flags::MORE_TO_COME != 0
    }

    pub const fn exhaust_allowed(&self) -> bool {
        self.flags & flags::EXHAUST_ALLOWED != 0
    }
}

/// Validates every section and returns the body.
fn parse_sections<'a>(sections: &'a [u8]) -> Result<Doc<'a>> {
    let mut reader = Reader::new(sections);
    let mut body = None;
    let mut names = [""; SEQUENCES_MAX];
    let mut count = 0;
    while !reader.is_empty() {
        match reader.byte()? {
            0 if body.is_some() => {
                let code = Code::Location(40430);
                return Err(Fault::content(err!(code, "Multiple body sections in message")));
            }
            0 => body = Some(reader.doc()?),
            1 => {
                let sequence = parse_sequence(&mut reader)?;
                let Some(free) = names.get_mut(count) else {
                    return Err(Fault::content(err!(
                        Code::TOO_MANY_DOCUMENT_SEQUENCES,
                        "Too many document sequences in OP_MSG"
                    )));
                };
                *free = sequence;
                count += 1;
            }
            kind => {
                let code = Code::Location(40432);
                return Err(Fault::content(err!(code, "Unknown section kind {kind}")));
            }
        }
    }
    let Some(body) = body else {
        let code = Code::Location(40587);
        return Err(Fault::content(err!(code, "OP_MSG messages must have a body")));
    };
    check_names(body, names.get(..count).unwrap_or_default())?;
    Ok(body)
}

fn check_names(body: Doc<'_>, names: &[&str]) -> Result<()> {
    for (i, name) in names.iter().enumerate() {
        if names.get(..i).is_some_and(|before| before.contains(name)) {
            let code = Code::Location(40431);
            return Err(Fault::content(err!(code, "Duplicate document sequence: {name}")));
        }
        if body.element(name).is_some() {
            return Err(Fault::content(err!(
                Code::Location(40433),
                "Duplicate field between body and document sequence {name}"
            )));
        }
    }
    Ok(())
}

/// Reads a sequence after its kind byte and returns its name.
fn parse_sequence<'a>(reader: &mut Reader<'a>) -> Result<&'a str> {
    let size = reader.int32()?;
    let Some(size) = usize::try_from(size).ok().and_then(|size| size.checked_sub(4)) else {
        return Err(Fault::framing("document sequence has a bad size"));
    };
    let mut inner = Reader::new(reader.take(size)?);
    let name = inner.text()?;
    inner.docs()?;
    Ok(name)
}

impl<'a> Iterator for Sequences<'a> {
    type Item = Sequence<'a>;

    fn next(&mut self) -> Option<Sequence<'a>> {
        loop {
            // A read past the end would create an error, which costs two allocations.
            if self.0.is_empty() {
                return None;
            }
            // `parse_sections` has validated everything; body sections are skipped.
            if self.0.byte().ok()? == 1 {
                let size = usize::try_from(self.0.int32().ok()?).ok()?;
                let mut inner = Reader::new(self.0.take(size.checked_sub(4)?).ok()?);
                let name = inner.text().ok()?;
                return Some(Sequence { name, docs: Docs::new(inner.rest()) });
            }
            let len = u32::from_le_bytes(*self.0.rest().first_chunk()?) as usize;
            self.0.take(len).ok()?;
        }
    }
}
