//! Preferred numbers: the rounding of boundaries that `$bucketAuto` calls granularity.
//!
//! A series lists the numbers of one decade (times 10 or 100); the decades repeat by powers of ten.

use nagi_bson::{Decimal128, Value, number};
use nagi_error::{Code, Result, bail};

/// The rounding of boundaries.
#[derive(Debug, Clone)]
pub(super) enum Granularity {
    PowersOf2,
    /// The numbers of one decade, ascending.
    Series(Box<[f64]>),
}

const R5: &[u16] = &[10, 16, 25, 40, 63];
const R10: &[u16] = &[100, 125, 160, 200, 250, 315, 400, 500, 630, 800];
const R20: &[u16] = &[
    100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800,
    900,
];
const R40: &[u16] = &[
    100, 106, 112, 118, 125, 132, 140, 150, 160, 170, 180, 190, 200, 212, 224, 236, 250, 265, 280,
    300, 315, 335, 355, 375, 400, 425, 450, 475, 500, 530, 560, 600, 630, 670, 710, 750, 800, 850,
    900, 950,
];
/// Only the numbers that are not in R40, as in MongoDB.
const R80: &[u16] = &[
    103, 109, 115, 122, 128, 136, 145, 155, 165, 175, 185, 195, 206, 218, 230, 243, 258, 272, 290,
    307, 325, 345, 365, 387, 412, 437, 462, 487, 515, 545, 575, 615, 650, 690, 730, 775, 825, 875,
    925, 975,
];
const ONE_TWO_FIVE: &[u16] = &[10, 20, 50];
const E24: &[u16] = &[
    10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91,
];

impl Granularity {
    /// Looks up a granularity by name.
    pub(super) fn parse(name: &str) -> Result<Granularity> {
        let every = |step: usize| E24.iter().step_by(step).map(|n| f64::from(*n)).collect();
        let listed = |series: &[u16]| series.iter().map(|n| f64::from(*n)).collect();
        Ok(Granularity::Series(match name {
            "POWERSOF2" => return Ok(Granularity::PowersOf2),
            "R5" => listed(R5),
            "R10" => listed(R10),
            "R20" => listed(R20),
            "R40" => listed(R40),
            "R80" => listed(R80),
            "1-2-5" => listed(ONE_TWO_FIVE),
            "E6" => every(4),
            "E12" => every(2),
            "E24" => every(1),
            "E48" => exponential(48),
            "E96" => exponential(96),
            "E192" => exponential(192),
            _ => bail!(Code::Location(40257), "Unknown rounding granularity '{name}'"),
        }))
    }

    /// The next number of the series above `value`; zero stays zero.
    pub(super) fn round_up(&self, value: Value<'_>) -> Result<Value<'static>> {
        self.round(value, true)
    }

    /// The next number of the series below `value`; zero stays zero.
    pub(super) fn round_down(&self, value: Value<'_>) -> Result<Value<'static>> {
        self.round(value, false)
    }

    fn round(&self, value: Value<'_>, up: bool) -> Result<Value<'static>> {
        let n = checked(value)?;
        if n == 0.0 {
            return Ok(match value {
                Value::Int32(n) => Value::Int32(n),
                Value::Int64(n) => Value::Int64(n),
                Value::Decimal128(n) => Value::Decimal128(n),
                _ => Value::Double(0.0),
            });
        }
        let rounded = match self {
            Granularity::PowersOf2 => power_of_2(n, up),
            Granularity::Series(series) => preferred(series, n, up),
        };
        Ok(match value {
            Value::Decimal128(_) => Value::Decimal128(Decimal128::from_f64(rounded)),
            _ => Value::Double(rounded),
        })
    }
}

/// E48 and finer series follow from the formula, except for one historical number.
fn exponential(count: u32) -> Box<[f64]> {
    (0..count)
        .map(|i| (100.0 * 10f64.powf(f64::from(i) / f64::from(count))).round())
        .map(|n| if count == 192 && n == 919.0 { 920.0 } else { n })
        .collect()
}

fn checked(value: Value<'_>) -> Result<f64> {
    let Some(n) = number::as_f64(value) else {
        bail!(
            Code::Location(40258),
            "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a \
             value with type: {}",
            value.kind().name()
        );
    };
    if n.is_nan() {
        bail!(
            Code::Location(40259),
            "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN"
        );
    }
    if n < 0.0 {
        bail!(
            Code::Location(40260),
            "$bucketAuto can specify a 'granularity' with non-negative numbers only, but found a \
             negative number: {value}"
        );
    }
    Ok(n)
}

fn power_of_2(n: f64, up: bool) -> f64 {
    let exponent = n.log2();
    let exponent = if up { exponent.floor() + 1.0 } else { exponent.ceil() - 1.0 };
    exponent.exp2()
}

fn preferred(series: &[f64], n: f64, up: bool) -> f64 {
    let (Some(first), Some(last)) = (series.first(), series.last()) else {
        return n;
    };
    if n.is_infinite() {
        return n;
    }
    // The decade that contains n. If n is between two decades, the end that is nearer in the rounding direction
    // counts.
    let mut scale = 1.0;
    while if up { n >= last * scale } else { n > last * scale } {
        scale *= 10.0;
    }
    while if up { n < first * scale } else { n <= first * scale } {
        let bound = first * scale;
        scale /= 10.0;
        let between = if up { n >= last * scale } else { n > last * scale };
        if between {
            return if up { bound } else { last * scale };
        }
    }
    let found = if up {
        series.iter().find(|number| **number * scale > n)
    } else {
        series.iter().rev().find(|number| **number * scale < n)
    };
    found.map_or(n, |number| number * scale)
}
