//! Decodes a key string and its type bits to values, for covered plans.

use std::borrow::Cow;

use nagi_bson::{ArrayWriter, Binary, DocWriter, Regex, Value, ValueSlot};
use nagi_error::{Error, Result};

use super::{
    big::Big,
    number::{self, EXPONENT_BIAS, FRACTION_BITS, Parts, TAIL_BIAS},
    tag,
    typebits::BitReader,
};

/// Writes the values of a key with the given names, in their original types. `Missing` writes nothing. `fields`
/// yields name and direction of each field of the key pattern.
pub fn decode<'n>(
    key: &[u8],
    type_bits: &[u8],
    fields: impl Iterator<Item = (&'n str, bool)>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    decode_some(key, type_bits, fields.map(|(name, descending)| (Some(name), descending)), out)
}

/// As [`decode`], but fields without a name are passed over.
pub fn decode_some<'n>(
    key: &[u8],
    type_bits: &[u8],
    fields: impl Iterator<Item = (Option<&'n str>, bool)>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let mut bits = BitReader::new(type_bits);
    let mut at = 0;
    for (name, descending) in fields {
        let mask = if descending { 0xFF } else { 0 };
        let mut reader = KeyReader { bytes: key, at, mask };
        match name {
            Some(name) => value(&mut reader, &mut bits, out.slot(name))?,
            None => pass_over(&mut reader, &mut bits)?,
        }
        at = reader.at;
    }
    Ok(())
}

/// Moves behind a value and its type bits.
fn pass_over(key: &mut KeyReader<'_>, bits: &mut BitReader<'_>) -> Result<()> {
    match key.peek()? {
        tag::STRING => {
            key.at += 1;
            key.escaped()?;
            bits.take(1);
        }
        first @ tag::NAN..=tag::POSITIVE_INFINITY => {
            key.at += 1;
            read_number(first, key, bits)?;
        }
        // Rare, or as cheap as this.
        _ => {
            let mut bytes = Vec::new();
            value(key, bits, DocWriter::new(&mut bytes).slot(""))?;
        }
    }
    Ok(())
}

#[cold]
fn corrupt() -> Error {
    Error::bug("an index key is damaged")
}

/// Reads bytes that may be complemented.
struct KeyReader<'k> {
    bytes: &'k [u8],
    at: usize,
    mask: u8,
}

impl<'k> KeyReader<'k> {
    fn peek(&self) -> Result<u8> {
        self.bytes.get(self.at).map(|byte| byte ^ self.mask).ok_or_else(corrupt)
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let chunk: &[u8; N] =
            self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or_else(corrupt)?;
        self.at += N;
        Ok(chunk.map(|byte| byte ^ self.mask))
    }

    fn take(&mut self, len: usize) -> Result<Vec<u8>> {
        let end = self.at.checked_add(len).ok_or_else(corrupt)?;
        let bytes = self.bytes.get(self.at..end).ok_or_else(corrupt)?;
        self.at = end;
        Ok(bytes.iter().map(|byte| byte ^ self.mask).collect())
    }

    fn length(&mut self) -> Result<usize> {
        match self.byte()? {
            0xFF => Ok(u32::from_be_bytes(self.array()?) as usize),
            short => Ok(usize::from(short)),
        }
    }

    /// Reads a text up to its end, 0. A byte 0 or 1 of the text is 1 and the byte plus 1.
    fn escaped(&mut self) -> Result<Cow<'k, [u8]>> {
        let rest = self.bytes.get(self.at..).ok_or_else(corrupt)?;
        let run = rest.iter().position(|byte| byte ^ self.mask <= 1).ok_or_else(corrupt)?;
        if self.mask == 0 && rest[run] == 0 {
            self.at += run + 1;
            return Ok(Cow::Borrowed(&rest[..run]));
        }
        let mut text = self.take(run)?;
        loop {
            match self.byte()? {
                0 => return Ok(Cow::Owned(text)),
                1 => text.push(self.byte()?.wrapping_sub(1)),
                byte => text.push(byte),
            }
        }
    }

    fn text(&mut self) -> Result<Cow<'k, str>> {
        Ok(match self.escaped()? {
            Cow::Borrowed(bytes) => {
                Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| corrupt())?)
            }
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|_| corrupt())?),
        })
    }
}

fn value(key: &mut KeyReader<'_>, bits: &mut BitReader<'_>, slot: ValueSlot<'_>) -> Result<()> {
    match key.byte()? {
        tag::MIN_KEY => slot.put(Value::MinKey),
        tag::UNDEFINED => slot.put(Value::Undefined),
        tag::NULL if bits.take(1) == 1 => slot.put(Value::Missing),
        tag::NULL => slot.put(Value::Null),
        first @ tag::NAN..=tag::POSITIVE_INFINITY => slot.put(read_number(first, key, bits)?),
        tag::STRING => {
            let text = key.text()?;
            slot.put(if bits.take(1) == 1 { Value::Symbol(&text) } else { Value::String(&text) });
        }
        tag::OBJECT => slot.doc(|doc| read_fields(key, bits, doc))?,
        tag::ARRAY => slot.array(|array| read_items(key, bits, array))?,
        tag::BINARY => {
            let len = key.length()?;
            let subtype = key.byte()?;
            slot.put(Value::Binary(Binary { subtype, bytes: &key.take(len)? }));
        }
        tag::OBJECT_ID => slot.put(Value::ObjectId(&key.array()?)),
        tag::FALSE => slot.put(false),
        tag::TRUE => slot.put(true),
        tag::DATE => {
            slot.put(Value::DateTime((u64::from_be_bytes(key.array()?) ^ (1 << 63)) as i64));
        }
        tag::TIMESTAMP => slot.put(Value::Timestamp(u64::from_be_bytes(key.array()?))),
        other => read_rare(other, key, bits, slot)?,
    }
    Ok(())
}

/// Reads regular expressions, pointers, code.
fn read_rare(
    first: u8,
    key: &mut KeyReader<'_>,
    bits: &mut BitReader<'_>,
    slot: ValueSlot<'_>,
) -> Result<()> {
    match first {
        tag::REGEX => {
            let mut bytes = key.escaped()?.into_owned();
            bytes.push(0);
            bytes.extend_from_slice(&key.escaped()?);
            bytes.push(0);
            slot.put(Value::Regex(Regex::from_bytes(&bytes).ok_or_else(corrupt)?));
        }
        tag::DB_POINTER => {
            let len = key.length()?;
            let namespace = key.take(len)?;
            let mut raw = (len as i32 + 1).to_le_bytes().to_vec();
            raw.extend(namespace);
            raw.push(0);
            raw.extend(key.array::<12>()?);
            put_raw(0x0C, &raw, slot)?;
        }
        tag::CODE => slot.put(Value::Code(&key.text()?)),
        tag::CODE_WITH_SCOPE => {
            let code = key.text()?;
            let mut scope = Vec::new();
            read_fields(key, bits, &mut DocWriter::new(&mut scope))?;
            let total = 4 + 4 + code.len() + 1 + scope.len();
            let mut raw = (total as i32).to_le_bytes().to_vec();
            raw.extend((code.len() as i32 + 1).to_le_bytes());
            raw.extend(code.as_bytes());
            raw.push(0);
            raw.extend(scope);
            put_raw(0x0F, &raw, slot)?;
        }
        tag::MAX_KEY => slot.put(Value::MaxKey),
        _ => return Err(corrupt()),
    }
    Ok(())
}

/// Writes a value without a constructor by its bytes, through a document around it.
fn put_raw(kind: u8, payload: &[u8], slot: ValueSlot<'_>) -> Result<()> {
    let mut doc = (payload.len() as i32 + 7).to_le_bytes().to_vec();
    doc.extend([kind, 0]);
    doc.extend(payload);
    doc.push(0);
    let doc = nagi_bson::DocBuf::from_bytes(doc)?;
    slot.put(doc.get(""));
    Ok(())
}

fn read_fields(
    key: &mut KeyReader<'_>,
    bits: &mut BitReader<'_>,
    doc: &mut DocWriter<'_>,
) -> Result<()> {
    while key.byte()? != tag::END {
        let name = key.text()?;
        value(key, bits, doc.slot(&name))?;
    }
    Ok(())
}

fn read_items(
    key: &mut KeyReader<'_>,
    bits: &mut BitReader<'_>,
    array: &mut ArrayWriter<'_>,
) -> Result<()> {
    while key.peek()? != tag::END {
        value(key, bits, array.slot())?;
    }
    key.byte().map(drop)
}

/// The encoded magnitude of a number.
#[derive(Default)]
struct Magnitude {
    exponent: i32,
    integer: u64,
    fraction: u64,
    tail: Option<(i32, u128)>,
}

fn read_number(
    first: u8,
    key: &mut KeyReader<'_>,
    bits: &mut BitReader<'_>,
) -> Result<Value<'static>> {
    let kind = bits.take(2);
    let negative = first < tag::ZERO;
    match first {
        tag::NAN => return Ok(special(kind, f64::NAN, Parts::Nan)),
        tag::NEGATIVE_INFINITY => {
            return Ok(special(kind, f64::NEG_INFINITY, Parts::Infinity { negative: true }));
        }
        tag::POSITIVE_INFINITY => {
            return Ok(special(kind, f64::INFINITY, Parts::Infinity { negative: false }));
        }
        tag::ZERO => return Ok(zero(kind, bits)),
        _ => {}
    }
    key.mask ^= if negative { 0xFF } else { 0 };
    let magnitude = read_magnitude(first, key);
    key.mask ^= if negative { 0xFF } else { 0 };
    let magnitude = magnitude?;
    Ok(match kind {
        number::INT => Value::Int32(signed(&magnitude, negative) as i32),
        number::LONG => Value::Int64(signed(&magnitude, negative)),
        number::DOUBLE => {
            let n = as_double(&magnitude);
            Value::Double(if negative { -n } else { n })
        }
        _ => {
            let exponent = number::exponent_from_bits(bits.take(14));
            let coefficient = coefficient(&magnitude, exponent).ok_or_else(corrupt)?;
            Value::Decimal128(number::assemble(Parts::Finite { negative, exponent, coefficient }))
        }
    })
}

fn special(kind: u64, double: f64, decimal: Parts) -> Value<'static> {
    match kind {
        number::DECIMAL => Value::Decimal128(number::assemble(decimal)),
        _ => Value::Double(double),
    }
}

fn zero(kind: u64, bits: &mut BitReader<'_>) -> Value<'static> {
    match kind {
        number::INT => Value::Int32(0),
        number::LONG => Value::Int64(0),
        number::DOUBLE => Value::Double(if bits.take(1) == 1 { -0.0 } else { 0.0 }),
        _ => {
            let negative = bits.take(1) == 1;
            let exponent = number::exponent_from_bits(bits.take(14));
            let parts = Parts::Finite { negative, exponent, coefficient: 0 };
            Value::Decimal128(number::assemble(parts))
        }
    }
}

fn read_magnitude(first: u8, key: &mut KeyReader<'_>) -> Result<Magnitude> {
    let mut magnitude = Magnitude::default();
    match first {
        tag::NEGATIVE_LARGE | tag::NEGATIVE_SMALL | tag::POSITIVE_SMALL | tag::POSITIVE_LARGE => {
            magnitude.exponent = i32::from(u16::from_be_bytes(key.array()?)) - EXPONENT_BIAS;
            read_fraction(key, &mut magnitude)?;
        }
        _ => {
            let len = first.abs_diff(match first < tag::ZERO {
                true => tag::NEGATIVE_INT,
                false => tag::POSITIVE_INT,
            });
            let mut shifted = 0u64;
            for _ in 0..len {
                shifted = (shifted << 8) | u64::from(key.byte()?);
            }
            magnitude.integer = shifted >> 1;
            if shifted & 1 == 1 {
                read_fraction(key, &mut magnitude)?;
            }
        }
    }
    Ok(magnitude)
}

fn read_fraction(key: &mut KeyReader<'_>, magnitude: &mut Magnitude) -> Result<()> {
    for group in 1..=FRACTION_BITS / 7 {
        let byte = key.byte()?;
        magnitude.fraction |= u64::from(byte >> 1) << (FRACTION_BITS - 7 * group);
        if byte & 1 == 0 {
            return Ok(());
        }
    }
    let exponent = i32::from(u16::from_be_bytes(key.array()?)) - TAIL_BIAS;
    let mut coefficient = [0; 16];
    coefficient[1..].copy_from_slice(&key.array::<15>()?);
    magnitude.tail = Some((exponent, u128::from_be_bytes(coefficient)));
    Ok(())
}

/// An int or long: it has an integer part, or is the least long.
fn signed(magnitude: &Magnitude, negative: bool) -> i64 {
    match (magnitude.integer, negative) {
        (0, _) => i64::MIN,
        (n, true) => -(n as i64),
        (n, false) => n as i64,
    }
}

fn as_double(magnitude: &Magnitude) -> f64 {
    const UNIT: f64 = (1u64 << FRACTION_BITS) as f64;
    if magnitude.integer > 0 {
        return magnitude.integer as f64 + magnitude.fraction as f64 / UNIT;
    }
    let mantissa = (1u64 << 52) | (magnitude.fraction >> (FRACTION_BITS - 52));
    let exponent = magnitude.exponent;
    if exponent < -1022 {
        return f64::from_bits(mantissa >> (-1022 - exponent));
    }
    f64::from_bits((mantissa & ((1 << 52) - 1)) | (((exponent + 1023) as u64) << 52))
}

/// The coefficient of a decimal with this exponent.
fn coefficient(magnitude: &Magnitude, exponent: i32) -> Option<u128> {
    let (mut big, point) = match magnitude.tail {
        Some((tail_exponent, coefficient)) => {
            let zeros = u32::try_from(exponent - tail_exponent).ok()?;
            return coefficient.checked_div(10u128.checked_pow(zeros)?);
        }
        None if magnitude.integer > 0 => {
            let bits =
                (u128::from(magnitude.integer) << FRACTION_BITS) | u128::from(magnitude.fraction);
            (Big::from_u128(bits), FRACTION_BITS as i32)
        }
        None => {
            let bits = (1u128 << FRACTION_BITS) | u128::from(magnitude.fraction);
            (Big::from_u128(bits), FRACTION_BITS as i32 - magnitude.exponent)
        }
    };
    if point < 0 {
        big.shl(point.unsigned_abs() as usize);
    }
    if exponent < 0 {
        big.mul_ten(exponent.unsigned_abs());
    }
    if point > 0 {
        big.shr(point as usize);
    }
    if exponent > 0 {
        big.div_ten(exponent.unsigned_abs());
    }
    big.to_u128()
}
