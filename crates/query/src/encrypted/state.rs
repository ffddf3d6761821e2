//! The state collection ESC: which positions of a value are in use.
//!
//! ```text
//!   null anchor (a = 2, n = 40)   anchor 3 (n = 90)   anchor 4 (n = 120)   positions 121, 122, 123
//!     -> anchor: 4, anchored: 120, last: 123
//! ```
//!
//! Anchors and positions are consecutive. So the last one is found by doubling steps and by bisection, with some two
//! reads for each bit of the distance.

use nagi_bson::{Binary, Value};
use nagi_error::{Code, Result, bail, err};
use nagi_lang::encrypted::{EscTokens, Token, anchor_id, derive, open_numbers};
use nagi_store::{Collection, Reader, RecordBuf};

/// The state of one value and contention factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Positions {
    /// The number of the null anchor; 0 if there is none.
    pub(super) null_anchor: u64,
    pub(super) has_null: bool,
    /// The number of the last anchor; that of the null anchor if there is none after it.
    pub(super) anchor: u64,
    /// The position up to which the anchors stand for positions.
    pub(super) anchored: u64,
    /// The last position in use; 0 if the value was never stored.
    pub(super) last: u64,
}

/// Reads the state collection.
pub(super) struct Esc<'r> {
    reader: Reader<'r>,
    collection: &'r Collection,
    buf: RecordBuf,
    /// Documents looked up.
    pub(super) reads: u64,
}

/// A document id of the state collection.
pub(super) fn id_value(id: &Token) -> Value<'_> {
    Value::Binary(Binary { subtype: 0, bytes: id })
}

impl<'r> Esc<'r> {
    pub(super) fn new(reader: Reader<'r>, collection: &'r Collection) -> Esc<'r> {
        Esc { reader, collection, buf: RecordBuf::default(), reads: 0 }
    }

    /// The state of a value. `check` is called for each read.
    ///
    /// # Errors
    /// 6371210 for anchors that cannot be decrypted or contain impossible numbers; those of `check`.
    pub(super) fn positions(
        &mut self,
        tokens: &EscTokens,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Positions> {
        let null = self.anchor(tokens, 0)?;
        let (null_anchor, anchored) = null.map_or((0, 0), |[anchor, count]| (anchor, count));
        let anchor = self.last(null_anchor, check, |number| anchor_id(&tokens.tag, number))?;
        let anchored = match anchor == null_anchor {
            true => anchored,
            false => self.count_of(tokens, anchor)?,
        };
        let last = self.last(anchored, check, |number| derive(&tokens.tag, number))?;
        Ok(Positions { null_anchor, has_null: null.is_some(), anchor, anchored, last })
    }

    /// The position up to which an anchor that exists stands for positions.
    pub(super) fn count_of(&mut self, tokens: &EscTokens, anchor: u64) -> Result<u64> {
        match self.anchor(tokens, anchor)? {
            Some([0, count]) => Ok(count),
            _ => Err(malformed()),
        }
    }

    /// The position up to which a null anchor that exists stands for positions.
    pub(super) fn null_count(&mut self, tokens: &EscTokens) -> Result<u64> {
        Ok(self.anchor(tokens, 0)?.map_or(0, |[_, count]| count))
    }

    /// The two numbers in an anchor.
    fn anchor(&mut self, tokens: &EscTokens, anchor: u64) -> Result<Option<[u64; 2]>> {
        self.reads += 1;
        let id = anchor_id(&tokens.tag, anchor);
        let found = self.reader.record_by_id(self.collection, id_value(&id), &mut self.buf)?;
        let Some((_, doc)) = found else { return Ok(None) };
        let Value::Binary(value) = doc.get("value") else { return Err(malformed()) };
        open_numbers(&tokens.value, value.bytes).map(Some).ok_or_else(malformed)
    }

    pub(super) fn has(&mut self, id: &Token) -> Result<bool> {
        self.reads += 1;
        Ok(self.reader.find_id(self.collection, id_value(id))?.is_some())
    }

    /// The last number after `from` that exists, if those between exist; `from` if the next one does not.
    fn last(
        &mut self,
        from: u64,
        check: &dyn Fn() -> Result<()>,
        id: impl Fn(u64) -> Token,
    ) -> Result<u64> {
        let (mut low, mut step) = (from, 1_u64);
        let mut high = loop {
            check()?;
            let Some(next) = low.checked_add(step) else { bail!(MALFORMED, "{MALFORMED_TEXT}") };
            if !self.has(&id(next))? {
                break next;
            }
            (low, step) = (next, step.saturating_mul(2));
        };
        while high - low > 1 {
            check()?;
            let middle = low + (high - low) / 2;
            match self.has(&id(middle))? {
                true => low = middle,
                false => high = middle,
            }
        }
        Ok(low)
    }
}

const MALFORMED: Code = Code::Location(6_371_210);
const MALFORMED_TEXT: &str =
    "A document of the state collection of an encrypted collection is malformed";

#[cold]
fn malformed() -> nagi_error::Error {
    err!(MALFORMED, "{MALFORMED_TEXT}")
}
