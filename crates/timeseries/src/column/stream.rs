//! One sequence of values while it is read: a whole column, or a leaf of interleaved documents.

use nagi_bson::{Type, Value, append_payload, payload_value};
use nagi_error::{Code, Result, bail, err};

use super::{
    SCALE_CONTROL, UNSCALED, WORDS_MAX, literal,
    number::{self, Kind, kind},
};
use crate::simple8b::{Slot, Words};

/// The last value, and the words of differences that follow it.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    /// `Missing` before the first value.
    kind: Type,
    payload: Vec<u8>,
    /// The number of the last value; of doubles, at `scale`.
    narrow: i64,
    /// The last difference, for types that store how it changes.
    difference: i64,
    wide: i128,
    scale: usize,
    words: Words<'a>,
}

impl<'a> Stream<'a> {
    pub(super) fn new() -> Stream<'a> {
        Stream {
            kind: Type::Missing,
            payload: Vec::new(),
            narrow: 0,
            difference: 0,
            wide: 0,
            scale: UNSCALED,
            words: Words::none(),
        }
    }

    /// The last value.
    pub(super) fn value(&self) -> Value<'_> {
        payload_value(self.kind, &self.payload)
    }

    /// True if the next value needs another run.
    pub(super) const fn is_done(&self) -> bool {
        self.words.is_done()
    }

    /// Sets the last value.
    pub(super) fn set(&mut self, value: Value<'_>) {
        self.kind = value.kind();
        self.payload.clear();
        append_payload(&mut self.payload, value);
        self.words = Words::none();
        self.difference = 0;
        match kind(self.kind) {
            Kind::Narrow | Kind::NarrowSecond => self.narrow = number::narrow(value),
            // A long text has no number. The format defines it as 0.
            Kind::Wide => self.wide = number::wide(value).unwrap_or(0),
            Kind::Double | Kind::Repeated => {}
        }
    }

    /// Reads the run at the beginning of `rest` and the first value of it. Returns that value, `Missing` included, and
    /// the bytes after the run.
    ///
    /// # Errors
    /// If the bytes are no run of this sequence.
    pub(super) fn run(&mut self, rest: &'a [u8]) -> Result<(Value<'_>, &'a [u8])> {
        let Some((control, after)) = rest.split_first() else {
            bail!(Code::INVALID_BSON, "Invalid BSON Column encoding has overflowed buffer")
        };
        match Type::from_byte(*control) {
            Some(kind) => {
                let Some((0, value)) = after.split_first() else {
                    bail!(Code::INVALID_BSON, "A literal in a BSONColumn has a field name")
                };
                let (value, rest) = value.split_at(literal::check(kind, value)?);
                self.set(payload_value(kind, value));
                Ok((self.value(), rest))
            }
            None => {
                let (words, rest) = self.words_of(*control, after)?;
                self.words.feed(words);
                let value = self.next()?.unwrap_or(Value::Missing);
                Ok((value, rest))
            }
        }
    }

    /// Splits the words behind a control byte from the rest, and takes its scale.
    fn words_of(&mut self, control: u8, after: &'a [u8]) -> Result<(&'a [u8], &'a [u8])> {
        let Some(scale) = SCALE_CONTROL.iter().position(|bits| *bits == control & 0xF0) else {
            bail!(Code::INVALID_BSON, "Invalid control byte in BSON Column: {control:#04x}")
        };
        let count = usize::from(control & 0x0F) + 1;
        debug_assert!(count <= WORDS_MAX);
        let Some(split) = after.split_at_checked(count * 8) else {
            bail!(Code::INVALID_BSON, "Control block would overflow buffer")
        };
        match self.value() {
            Value::Double(last) => {
                let last = number::scaled(last, scale);
                self.narrow = last.ok_or_else(|| {
                    err!(Code::INVALID_BSON, "Invalid double encoding in BSON Column")
                })?;
                self.scale = scale;
            }
            _ if scale != UNSCALED => {
                bail!(Code::INVALID_BSON, "Unexpected control for type in BSONColumn")
            }
            _ => {}
        }
        Ok(split)
    }

    /// The next value of the current words, `Missing` included; none if they are read.
    pub(super) fn next(&mut self) -> Result<Option<Value<'_>>> {
        let Some(slot) = self.words.next()? else { return Ok(None) };
        let Slot::Value(number) = slot else { return Ok(Some(Value::Missing)) };
        match kind(self.kind) {
            // Before the first value, all values are missing.
            Kind::Repeated if self.kind == Type::Missing => return Ok(Some(Value::Missing)),
            Kind::NarrowSecond => {
                self.difference = self.difference.wrapping_add(number::unzigzag(number as u64));
                self.narrow = self.narrow.wrapping_add(self.difference);
                self.write_narrow();
            }
            _ if number == 0 => {}
            Kind::Narrow | Kind::Double => {
                self.narrow = self.narrow.wrapping_add(number::unzigzag(number as u64));
                self.write_narrow();
            }
            Kind::Wide => {
                self.wide = self.wide.wrapping_add(number::unzigzag_wide(number));
                self.write_wide()?;
            }
            Kind::Repeated => bail!(Code::INVALID_BSON, "Invalid delta in BSON Column encoding"),
        }
        Ok(Some(self.value()))
    }

    /// Calls `f` with the next values of the current words, `Missing` included, at most `max`. Returns their number.
    ///
    /// # Errors
    /// Those of [`Stream::next`] and of `f`. It must not be used after an error.
    #[inline]
    pub(super) fn each(
        &mut self,
        max: usize,
        f: &mut impl FnMut(Value<'_>) -> Result<()>,
    ) -> Result<usize> {
        match (self.kind, number::factor(self.scale)) {
            (Type::Double, Some(factor)) => {
                self.each_narrow(max, f, |n| Value::Double(n as f64 / factor))
            }
            (Type::Double, None) => {
                self.each_narrow(max, f, |n| Value::Double(f64::from_bits(n as u64)))
            }
            (Type::Int, _) => self.each_narrow(max, f, |n| Value::Int32(n as i32)),
            (Type::Long, _) => self.each_narrow(max, f, Value::Int64),
            (Type::Date, _) => self.each_date(max, f),
            _ => {
                let mut done = 0;
                while done < max
                    && let Some(value) = self.next()?
                {
                    f(value)?;
                    done += 1;
                }
                Ok(done)
            }
        }
    }

    #[inline]
    fn each_narrow(
        &mut self,
        max: usize,
        f: &mut impl FnMut(Value<'_>) -> Result<()>,
        value: impl Fn(i64) -> Value<'static>,
    ) -> Result<usize> {
        let mut n = self.narrow;
        let done = self.words.each(max, |slot| {
            let Some(difference) = slot else { return f(Value::Missing) };
            n = n.wrapping_add(number::unzigzag(difference));
            f(value(n))
        })?;
        self.narrow = n;
        self.write_narrow();
        Ok(done)
    }

    #[inline]
    fn each_date(
        &mut self,
        max: usize,
        f: &mut impl FnMut(Value<'_>) -> Result<()>,
    ) -> Result<usize> {
        let (mut n, mut difference) = (self.narrow, self.difference);
        let done = self.words.each(max, |slot| {
            let Some(change) = slot else { return f(Value::Missing) };
            difference = difference.wrapping_add(number::unzigzag(change));
            n = n.wrapping_add(difference);
            f(Value::DateTime(n))
        })?;
        (self.narrow, self.difference) = (n, difference);
        self.write_narrow();
        Ok(done)
    }

    fn write_narrow(&mut self) {
        let n = self.narrow;
        match self.kind {
            Type::Double => {
                self.payload.copy_from_slice(&number::unscaled(n, self.scale).to_le_bytes());
            }
            Type::Int => self.payload.copy_from_slice(&(n as i32).to_le_bytes()),
            Type::Bool => self.payload[0] = u8::from(n != 0),
            Type::ObjectId => {
                if let Some(id) = self.payload.first_chunk_mut() {
                    number::into_object_id(n, id);
                }
            }
            _ => self.payload.copy_from_slice(&n.to_le_bytes()),
        }
    }

    fn write_wide(&mut self) -> Result<()> {
        match self.kind {
            Type::Decimal => self.payload.copy_from_slice(&self.wide.to_le_bytes()),
            Type::BinData => {
                let bytes = &mut self.payload[5..];
                let Some(number) = self.wide.to_le_bytes().get(..bytes.len()).map(<[u8]>::to_vec)
                else {
                    bail!(
                        Code::INVALID_BSON,
                        "BinData length should not exceed 16 in a delta encoding"
                    )
                };
                bytes.copy_from_slice(&number);
            }
            _ => {
                let (bytes, start) = number::text_bytes(self.wide);
                let text = std::str::from_utf8(&bytes[start..]).map_err(|_| {
                    err!(Code::INVALID_BSON, "A string in a BSONColumn is not valid UTF-8")
                })?;
                self.payload.clear();
                append_payload(&mut self.payload, Value::String(text));
            }
        }
        Ok(())
    }
}
