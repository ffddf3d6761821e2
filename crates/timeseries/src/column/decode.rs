//! Reading a column.

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

use super::{
    LEAVES_MAX,
    interleaved::{self, Interleaved},
    stream::Stream,
};

/// Reads the values of a column in order. The column may be any bytes. A few bytes may stand for many values, so the
/// caller must bound their number.
#[derive(Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    values: Stream<'a>,
    documents: Option<Box<Interleaved<'a>>>,
    done: bool,
}

impl<'a> Decoder<'a> {
    /// A decoder of the bytes of binary data of subtype [`super::SUBTYPE`].
    pub fn new(column: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: column, values: Stream::new(), documents: None, done: false }
    }

    /// The next value: `Missing` if the measurement has no such field; none at the end of the column.
    ///
    /// # Errors
    /// If the bytes are no column (22). The decoder must not be used after an error.
    pub fn advance(&mut self) -> Result<Option<Value<'_>>> {
        let mut budget = LEAVES_MAX;
        self.advance_within(&mut budget)
    }

    /// Like [`Decoder::advance`]. `budget`: the number of leaves of interleaved documents that may be added, which
    /// several columns share; leaves of documents that are done come back.
    ///
    /// # Errors
    /// If the bytes are no column (22). The decoder must not be used after an error.
    pub fn advance_within(&mut self, budget: &mut usize) -> Result<Option<Value<'_>>> {
        if self.done {
            return Ok(None);
        }
        if let Some(mut documents) = self.documents.take() {
            if let Some(rest) = documents.advance(self.rest)? {
                self.rest = rest;
                return Ok(Some(self.documents.insert(documents).value()));
            }
            // A repetition may follow the documents.
            self.values.set(documents.value());
            *budget += documents.leaves();
            self.rest = &self.rest[1..];
        }
        if !self.values.is_done() {
            return self.values.next();
        }
        match self.rest.split_first() {
            None => bail!(Code::INVALID_BSON, "Invalid BSON Column encoding has overflowed buffer"),
            Some((0, [])) => {
                self.done = true;
                Ok(None)
            }
            Some((0, _)) => {
                bail!(Code::INVALID_BSON, "Final EOO found before reaching end of buffer")
            }
            Some((control, after)) if interleaved::begins(*control) => {
                let (mut documents, rest) = Interleaved::begin(*control, after, budget)?;
                let Some(rest) = documents.advance(rest)? else {
                    bail!(Code::INVALID_BSON, "BSON Column interleaved encoding has no object")
                };
                self.rest = rest;
                Ok(Some(self.documents.insert(Box::new(documents)).value()))
            }
            Some(_) => {
                let (value, rest) = self.values.run(self.rest)?;
                self.rest = rest;
                Ok(Some(value))
            }
        }
    }

    /// Calls `f` with the next `count` values, `Missing` included. Returns their number, which is less only at the end.
    /// This is several times as fast as [`Decoder::advance_within`] for numbers and dates.
    ///
    /// # Errors
    /// If the bytes are no column (22), and those of `f`. The decoder must not be used after an error.
    pub fn each(
        &mut self,
        count: usize,
        budget: &mut usize,
        f: &mut impl FnMut(Value<'_>) -> Result<()>,
    ) -> Result<usize> {
        let mut done = 0;
        while done < count {
            if self.documents.is_none() && !self.values.is_done() {
                done += self.values.each(count - done, f)?;
            } else if let Some(value) = self.advance_within(budget)? {
                f(value)?;
                done += 1;
            } else {
                break;
            }
        }
        Ok(done)
    }
}
