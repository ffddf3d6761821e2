//! Writing a column.
//!
//! Values are collected into runs: a literal and the values that are stored as differences from it. A run ends where a
//! value has another type, or a difference that does not fit a word. Documents and arrays are written as literals.

use nagi_bson::{Type, Value, append_payload, payload_value};

use super::{
    SCALE_CONTROL, UNSCALED, WORDS_MAX,
    number::{self, Kind, SCALES, kind},
};
use crate::simple8b::{Slot, fits, pack};

/// Writes a column of the values. A `Missing` value stands for a measurement without the field.
pub fn encode<'v>(values: impl IntoIterator<Item = Value<'v>>) -> Vec<u8> {
    let mut encoder = Encoder::default();
    values.into_iter().for_each(|value| encoder.push(value));
    encoder.finish()
}

struct Encoder {
    out: Vec<u8>,
    /// The type and the bytes of the last value.
    kind: Type,
    payload: Vec<u8>,
    narrow: i64,
    difference: i64,
    wide: Option<i128>,
    /// The differences that follow the literal; not used for doubles.
    slots: Vec<Slot>,
    /// The literal, then the doubles that follow it. Their scale is chosen when all are known.
    doubles: Vec<Option<f64>>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder {
            out: Vec::new(),
            kind: Type::Missing,
            payload: Vec::new(),
            narrow: 0,
            difference: 0,
            wide: None,
            slots: Vec::new(),
            doubles: Vec::new(),
        }
    }
}

impl Encoder {
    fn push(&mut self, value: Value<'_>) {
        if value.is_missing() {
            match self.kind {
                Type::Double => self.doubles.push(None),
                _ => self.slots.push(Slot::Missing),
            }
        } else if value.kind() != self.kind || !self.differs(value) {
            self.literal(value);
        }
        // Whether or not it was a literal, the next difference is one from this value.
        if !value.is_missing() {
            self.payload.clear();
            append_payload(&mut self.payload, value);
        }
    }

    /// Adds a value as a difference; false if it must be a literal.
    fn differs(&mut self, value: Value<'_>) -> bool {
        let last = payload_value(self.kind, &self.payload);
        let slot = match kind(self.kind) {
            Kind::Double => {
                let (Value::Double(last), Value::Double(n)) = (last, value) else { return false };
                return self.push_double(last, n);
            }
            Kind::Repeated => last.same_bytes(&value).then_some(0),
            Kind::Narrow => {
                let n = number::narrow(value);
                let difference = n.wrapping_sub(self.narrow);
                self.narrow = n;
                Some(u128::from(number::zigzag(difference)))
            }
            Kind::NarrowSecond => match same_process(last, value) {
                true => {
                    let n = number::narrow(value);
                    let difference = n.wrapping_sub(self.narrow);
                    let change = difference.wrapping_sub(self.difference);
                    (self.narrow, self.difference) = (n, difference);
                    Some(u128::from(number::zigzag(change)))
                }
                false => None,
            },
            Kind::Wide if last.same_bytes(&value) => Some(0),
            Kind::Wide => match (self.wide, number::wide(value)) {
                (Some(last_number), Some(n)) if same_binary(last, value) => {
                    self.wide = Some(n);
                    Some(number::zigzag_wide(n.wrapping_sub(last_number)))
                }
                _ => None,
            },
        };
        match slot.filter(|slot| fits(*slot)) {
            Some(slot) => self.slots.push(Slot::Value(slot)),
            None => return false,
        }
        true
    }

    fn push_double(&mut self, last: f64, n: f64) -> bool {
        let possible = common_scale(last, n).is_some() || fits(bits_between(last, n));
        if possible {
            self.doubles.push(Some(n));
        }
        possible
    }

    fn literal(&mut self, value: Value<'_>) {
        self.flush();
        self.out.extend_from_slice(&[value.kind() as u8, 0]);
        append_payload(&mut self.out, value);
        self.kind = value.kind();
        self.difference = 0;
        self.narrow = number::narrow(value);
        self.wide = number::wide(value);
        if let Value::Double(n) = value {
            self.doubles.push(Some(n));
        }
    }

    /// Writes the differences of the run.
    fn flush(&mut self) {
        let mut last = Slot::Value(0);
        let slots = std::mem::take(&mut self.slots);
        self.write(&slots, UNSCALED, &mut last);
        let doubles = std::mem::take(&mut self.doubles);
        let Some(Some(mut from)) = doubles.first().copied() else { return };
        let mut rest = &doubles[1..];
        while !rest.is_empty() {
            let (scale, count) = segment(from, rest);
            let (now, after) = rest.split_at(count);
            let slots: Vec<Slot> = now.iter().map(|n| double_slot(*n, &mut from, scale)).collect();
            self.write(&slots, scale, &mut last);
            rest = after;
        }
    }

    fn write(&mut self, slots: &[Slot], scale: usize, last: &mut Slot) {
        let words = pack(slots, last);
        for words in words.chunks(WORDS_MAX) {
            self.out.push(SCALE_CONTROL[scale] | (words.len() - 1) as u8);
            words.iter().for_each(|(word, _)| self.out.extend_from_slice(&word.to_le_bytes()));
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.out.push(0);
        self.out
    }
}

/// True unless both are ObjectIds of different processes, which have no difference.
fn same_process(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::ObjectId(a), Value::ObjectId(b)) => a[4..9] == b[4..9],
        _ => true,
    }
}

/// True unless both are binary data of different lengths or subtypes, which have no difference.
fn same_binary(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::Binary(a), Value::Binary(b)) => {
            a.subtype == b.subtype && { a.bytes }.len() == { b.bytes }.len()
        }
        _ => true,
    }
}

/// The least scale at which both doubles are integers.
fn common_scale(a: f64, b: f64) -> Option<usize> {
    (0..SCALES.len()).find(|s| number::scaled(a, *s).is_some() && number::scaled(b, *s).is_some())
}

/// The difference of two doubles that are not scaled.
fn bits_between(a: f64, b: f64) -> u128 {
    u128::from(number::zigzag((b.to_bits() as i64).wrapping_sub(a.to_bits() as i64)))
}

/// The scale of the doubles at the beginning of `rest`, which follow `from`, and how many of them have it.
fn segment(from: f64, rest: &[Option<f64>]) -> (usize, usize) {
    let Some(first) = rest.iter().flatten().next() else { return (UNSCALED, rest.len()) };
    let mut scale = common_scale(from, *first).unwrap_or(UNSCALED);
    let mut last = from;
    for (i, next) in rest.iter().enumerate() {
        let Some(next) = *next else { continue };
        let fits_here = match scale {
            UNSCALED => fits(bits_between(last, next)),
            _ => number::scaled(next, scale).is_some(),
        };
        if !fits_here {
            // One greater scale for all is better than another control byte, if there is one.
            let all = || std::iter::once(from).chain(rest[..=i].iter().flatten().copied());
            let greater =
                (scale + 1..SCALES.len()).find(|s| all().all(|n| number::scaled(n, *s).is_some()));
            match greater {
                Some(greater) => scale = greater,
                None => return (scale, i),
            }
        }
        last = next;
    }
    (scale, rest.len())
}

fn double_slot(next: Option<f64>, last: &mut f64, scale: usize) -> Slot {
    let Some(next) = next else { return Slot::Missing };
    let number = |n| number::scaled(n, scale).unwrap_or(0);
    let difference = number(next).wrapping_sub(number(*last));
    *last = next;
    Slot::Value(u128::from(number::zigzag(difference)))
}
