//! The predicates `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.
//!
//! The operand is a mask as a number, a list of bit positions, or binary data (position 0 is the lowest bit of the
//! first byte). A tested number has 64 bits; positions above 63 have the value of its sign bit. Positions behind the
//! end of tested binary data are zeros.

use nagi_bson::{Value, number};
use nagi_error::{Code, Result, bail, err};

/// The kind of test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitTest {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

impl BitTest {
    /// The operator's name in a filter.
    pub const fn name(self) -> &'static str {
        match self {
            BitTest::AllSet => "$bitsAllSet",
            BitTest::AllClear => "$bitsAllClear",
            BitTest::AnySet => "$bitsAnySet",
            BitTest::AnyClear => "$bitsAnyClear",
        }
    }
}

/// A test and the bit positions that it tests, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bits {
    pub test: BitTest,
    pub positions: Box<[u32]>,
}

impl Bits {
    /// Parses the operand.
    ///
    /// # Errors
    /// 2 or 9 for an operand that is not a mask.
    pub fn parse(field: &str, test: BitTest, operand: Value<'_>) -> Result<Bits> {
        let mut positions = match operand {
            Value::Array(list) => positions_of(list)?,
            Value::Binary(data) => ones(data.bytes.iter().copied()).map(|at| at as u32).collect(),
            value if value.is_number() => {
                let mask = mask_of(test, value)?;
                ones(mask.to_le_bytes().into_iter()).map(|at| at as u32).collect::<Vec<_>>()
            }
            other => bail!(
                Code::BAD_VALUE,
                "{field} takes an Array, a number, or a BinData but received: {}: {other}",
                test.name()
            ),
        };
        positions.sort_unstable();
        positions.dedup();
        Ok(Bits { test, positions: positions.into() })
    }

    /// Returns true if the value passes the test. Values other than binary data and numbers that are exact int64
    /// fail.
    pub fn matches(&self, value: Value<'_>) -> bool {
        match value {
            Value::Binary(data) => self.run(|at| {
                data.bytes.get(at as usize / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
            }),
            // Decimals are rounded. A decimal that does not fit counts as the smallest int64, as in MongoDB.
            Value::Decimal128(d) => {
                let n = d.round(0).to_i64().unwrap_or(i64::MIN);
                self.run(|at| n >> at.min(63) & 1 == 1)
            }
            value if value.is_number() => match number::as_i64_exact(value) {
                Some(n) => self.run(|at| n >> at.min(63) & 1 == 1),
                None => false,
            },
            _ => false,
        }
    }

    fn run(&self, set: impl Fn(u32) -> bool) -> bool {
        let mut positions = self.positions.iter().copied();
        match self.test {
            BitTest::AllSet => positions.all(set),
            BitTest::AllClear => !positions.any(set),
            BitTest::AnySet => positions.any(set),
            BitTest::AnyClear => !positions.all(set),
        }
    }
}

fn ones(bytes: impl Iterator<Item = u8>) -> impl Iterator<Item = usize> {
    bytes
        .enumerate()
        .flat_map(|(n, byte)| (0..8).filter(move |b| byte >> b & 1 == 1).map(move |b| n * 8 + b))
}

fn mask_of(test: BitTest, value: Value<'_>) -> Result<i64> {
    let name = test.name();
    let mask = number::integer(value)
        .map_err(|reason| err!(Code::FAILED_TO_PARSE, "{}", reason.describe(name, value)))?;
    if mask < 0 {
        bail!(Code::FAILED_TO_PARSE, "Expected a positive number in: {name}: {value}");
    }
    Ok(mask)
}

fn positions_of(list: nagi_bson::Array<'_>) -> Result<Vec<u32>> {
    let mut out = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let position = number::as_i64_exact(value).ok_or_else(|| {
            err!(Code::BAD_VALUE, "bit positions must be an integer but got: {index}: {value}")
        })?;
        if position < 0 {
            bail!(Code::BAD_VALUE, "bit positions must be >= 0 but got: {index}: {value}");
        }
        let position = i32::try_from(position).map_err(|_| {
            err!(
                Code::BAD_VALUE,
                "bit positions cannot be represented as a 32-bit signed integer: {index}: {value}"
            )
        })?;
        out.push(position as u32);
    }
    Ok(out)
}
