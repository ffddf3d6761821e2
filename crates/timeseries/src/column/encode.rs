//! Writing a column.
//!
//! Values are collected into runs: a literal and the values that are stored as differences from it. A run ends where a
//! value has another type, or a difference that does not fit a word. Arrays are written as literals, and a document if
//! it has fields that the one before it has not; else each of its leaves is a column (`interleave`).
//!
//! An encoder may be kept, and asked for the column again after more values: what can no longer change is in its final
//! form, so that does not cost the whole column.

use nagi_bson::{Doc, Type, Value, append_payload, payload_value};

use super::{
    SCALE_CONTROL, UNSCALED, WORDS_MAX, WRITTEN_LEAVES_MAX,
    interleave::Interleaver,
    number::{self, Kind, SCALES, kind},
};
use crate::simple8b::{Slot, fits, pack, pack_run, pack_settled};

/// The number of doubles from which a scale is chosen for them.
const DOUBLES_MIN: usize = 64;

/// The number of slots from which the first ones are packed, and then after each such number of slots.
const SLOTS_STEP: usize = 16;

/// The unused entries of a vector that are not worth a copy of it.
const SHRUNK_FROM: usize = 128;

/// Writes a column of the values. A `Missing` value stands for a measurement without the field.
pub fn encode<'v>(values: impl IntoIterator<Item = Value<'v>>) -> Vec<u8> {
    let mut encoder = Encoder::new();
    values.into_iter().for_each(|value| encoder.push(value));
    encoder.finish()
}

/// A column that grows.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// Finished literals and control bytes with their words.
    out: Vec<u8>,
    /// The type and the bytes of the last value.
    kind: Type,
    payload: Vec<u8>,
    narrow: i64,
    difference: i64,
    wide: Option<i128>,
    /// The words for the next control bytes, at this scale.
    words: Vec<u64>,
    scale: usize,
    /// What a repetition would repeat.
    repeated: Slot,
    /// Differences that are not yet words: the same one several times, or different ones.
    run: Slot,
    run_len: usize,
    slots: Vec<Slot>,
    /// Doubles whose scale is not yet chosen, and the double before them.
    doubles: Vec<Option<f64>>,
    from: f64,
    /// True if doubles get the scale of the ones before them.
    chosen: bool,
    /// Documents whose leaves are columns: all values so far behind `out`.
    documents: Option<Box<Interleaver>>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    /// An empty column.
    pub fn new() -> Encoder {
        Encoder {
            out: Vec::new(),
            kind: Type::Missing,
            payload: Vec::new(),
            narrow: 0,
            difference: 0,
            wide: None,
            words: Vec::new(),
            scale: UNSCALED,
            repeated: Slot::Value(0),
            run: Slot::Missing,
            run_len: 0,
            slots: Vec::new(),
            doubles: Vec::new(),
            from: 0.0,
            chosen: false,
            documents: None,
        }
    }

    /// An empty column whose first value may be a difference from this one.
    pub(super) fn behind(value: Value<'_>) -> Encoder {
        let mut encoder = Encoder::new();
        encoder.follow(value);
        append_payload(&mut encoder.payload, value);
        encoder
    }

    /// Adds a value; `Missing` for a measurement without the field.
    pub fn push(&mut self, value: Value<'_>) {
        let mut budget = WRITTEN_LEAVES_MAX - self.documents.as_ref().map_or(0, |it| it.leaves());
        self.push_within(value, &mut budget);
    }

    /// Like [`Encoder::push`]. `budget`: the number of leaves of documents that may be added, which several columns
    /// share; leaves of documents that end come back.
    pub fn push_within(&mut self, value: Value<'_>, budget: &mut usize) {
        if let Some(documents) = &mut self.documents {
            if documents.push(value) {
                return;
            }
            *budget += documents.leaves();
            self.end_documents();
        } else if let (Type::Object, Value::Doc(doc)) = (self.kind, value)
            && self.begin_documents(doc, *budget)
        {
            *budget -= self.documents.as_ref().map_or(0, |documents| documents.leaves());
            return;
        }
        if value.is_missing() {
            match self.kind {
                Type::Double if !self.chosen => self.push_pending(None),
                _ => self.push_slot(Slot::Missing),
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

    /// Adds a document that has only fields of the last one, which is not the same; false if there is none.
    fn begin_documents(&mut self, doc: Doc<'_>, leaves_max: usize) -> bool {
        let Value::Doc(last) = payload_value(self.kind, &self.payload) else { return false };
        if last.as_bytes() == doc.as_bytes() {
            return false;
        }
        let Some(mut documents) = Interleaver::new(last, leaves_max) else { return false };
        if !documents.push(Value::Doc(doc)) {
            return false;
        }
        self.write();
        self.documents = Some(Box::new(documents));
        true
    }

    /// Writes the documents. The value after them is a literal, or missing.
    fn end_documents(&mut self) {
        if let Some(documents) = self.documents.take() {
            documents.append_to(&mut self.out);
            self.payload.clear();
            self.follow(Value::Missing);
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
            Some(slot) => self.push_slot(Slot::Value(slot)),
            None => return false,
        }
        true
    }

    fn push_double(&mut self, last: f64, n: f64) -> bool {
        if self.chosen {
            if let Some(slot) = double_slot(n, self.from, self.scale) {
                self.from = n;
                self.push_slot(slot);
                return true;
            }
            self.chosen = false;
        }
        let possible = common_scale(last, n).is_some() || fits(bits_between(last, n));
        if possible {
            self.push_pending(Some(n));
        }
        possible
    }

    fn push_pending(&mut self, n: Option<f64>) {
        self.doubles.push(n);
        if self.doubles.len() >= DOUBLES_MIN {
            self.choose();
        }
    }

    /// Chooses scales for the doubles that have none.
    fn choose(&mut self) {
        let doubles = std::mem::take(&mut self.doubles);
        let mut rest = &doubles[..];
        while !rest.is_empty() {
            let (scale, count) = segment(self.from, rest);
            if scale != self.scale {
                self.write();
                self.scale = scale;
            }
            let (now, after) = rest.split_at(count);
            for n in now {
                let slot = n.and_then(|n| double_slot(n, self.from, scale));
                self.from = n.unwrap_or(self.from);
                self.push_slot(slot.unwrap_or(Slot::Missing));
            }
            rest = after;
            self.chosen = true;
        }
    }

    fn push_slot(&mut self, slot: Slot) {
        if self.slots.is_empty() && (self.run_len == 0 || slot == self.run) {
            (self.run, self.run_len) = (slot, self.run_len + 1);
            return;
        }
        let run = std::mem::take(&mut self.run_len);
        self.slots.extend(std::iter::repeat_n(self.run, run));
        self.slots.push(slot);
        if run > 0 || self.slots.len().is_multiple_of(SLOTS_STEP) {
            pack_settled(&mut self.slots, &mut self.repeated, &mut self.words);
        }
    }

    fn literal(&mut self, value: Value<'_>) {
        self.choose();
        self.write();
        self.out.extend_from_slice(&[value.kind() as u8, 0]);
        append_payload(&mut self.out, value);
        self.follow(value);
    }

    /// The state behind a value, without its payload.
    fn follow(&mut self, value: Value<'_>) {
        self.kind = value.kind();
        self.difference = 0;
        self.narrow = number::narrow(value);
        self.wide = number::wide(value);
        (self.scale, self.repeated, self.chosen) = (UNSCALED, Slot::Value(0), false);
        if let Value::Double(n) = value {
            self.from = n;
        }
    }

    /// Writes the differences of the present scale.
    fn write(&mut self) {
        pack_run(self.run, self.run_len, &mut self.repeated, &mut self.words);
        pack(&self.slots, &mut self.repeated, &mut self.words);
        self.run_len = 0;
        self.slots.clear();
        append_words([&self.words, &[]], self.scale, &mut self.out);
        self.words.clear();
    }

    /// The column.
    pub fn finish(mut self) -> Vec<u8> {
        self.end_documents();
        self.choose();
        self.write();
        self.out.push(0);
        self.out
    }

    /// Gives back memory that the next values do not need, where that is much: a vector that is made smaller after each
    /// value would be copied for each.
    pub fn shrink(&mut self) {
        if self.slots.capacity() > 4 * SLOTS_STEP {
            self.slots.shrink_to(SLOTS_STEP);
        }
        if self.out.capacity() > SHRUNK_FROM + 2 * self.out.len() {
            self.out.shrink_to(self.out.len() + self.out.len() / 8);
        }
        if self.words.capacity() > SHRUNK_FROM + 2 * self.words.len() {
            self.words.shrink_to(self.words.len() + self.words.len() / 8 + 1);
        }
    }

    /// The memory that it has allocated.
    pub fn heap_bytes(&self) -> usize {
        self.out.capacity()
            + self.payload.capacity()
            + self.words.capacity() * size_of::<u64>()
            + self.slots.capacity() * size_of::<Slot>()
            + self.doubles.capacity() * size_of::<Option<f64>>()
            + self.documents.as_ref().map_or(0, |documents| documents.heap_bytes())
    }

    /// The size of the column so far, if what is not yet packed needs as much as can be expected.
    pub fn bytes(&self) -> usize {
        let waiting = self.slots.len() + self.doubles.len();
        let documents = self.documents.as_ref().map_or(0, |documents| documents.bytes());
        documents + self.out.len() + (self.words.len() + waiting / 2 + 2) * size_of::<u64>()
    }

    /// Appends the column so far.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.bytes());
        out.extend_from_slice(&self.out);
        if !self.doubles.is_empty() {
            // They get a scale, or several.
            out.extend_from_slice(&self.unwritten().finish());
            return;
        }
        if let Some(documents) = &self.documents {
            documents.append_to(out);
        }
        let (mut last, mut repeated) = (Vec::new(), self.repeated);
        pack_run(self.run, self.run_len, &mut repeated, &mut last);
        pack(&self.slots, &mut repeated, &mut last);
        append_words([&self.words, &last], self.scale, out);
        out.push(0);
    }

    /// The part of a column of doubles that is not in `out`.
    fn unwritten(&self) -> Encoder {
        Encoder {
            out: Vec::new(),
            payload: self.payload.clone(),
            words: self.words.clone(),
            slots: self.slots.clone(),
            doubles: self.doubles.clone(),
            documents: None,
            ..*self
        }
    }
}

/// Appends words, which are in two parts, with their control bytes.
fn append_words(parts: [&[u64]; 2], scale: usize, out: &mut Vec<u8>) {
    let count = parts[0].len() + parts[1].len();
    let bytes = parts.into_iter().flatten().map(|word| word.to_le_bytes());
    for (at, word) in bytes.enumerate() {
        if at.is_multiple_of(WORDS_MAX) {
            out.push(SCALE_CONTROL[scale] | ((count - at).min(WORDS_MAX) - 1) as u8);
        }
        out.extend_from_slice(&word);
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

/// The scale of the doubles at the beginning of `rest`, which follow `from`, and how many of them have it: not none.
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

/// A double as a difference at a scale; none if it has none.
fn double_slot(n: f64, last: f64, scale: usize) -> Option<Slot> {
    let (to, from) = (number::scaled(n, scale)?, number::scaled(last, scale)?);
    let slot = u128::from(number::zigzag(to.wrapping_sub(from)));
    fits(slot).then_some(Slot::Value(slot))
}
