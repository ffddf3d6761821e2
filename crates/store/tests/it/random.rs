//! Random values of every type, biased towards the edge cases of ordering and encoding.

use nagi_bson::{ArrayBuf, Binary, Decimal128, DocBuf, Regex, Value, ValueBuf};

/// A small generator (xorshift64*), so that a failing seed can be repeated.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn text(&mut self) -> String {
        let letters = "\0\u{1}\u{2} -12Aab\u{7f}\u{e9}\u{301}\u{10FFFF}";
        let letters: Vec<char> = letters.chars().collect();
        (0..self.below(4)).map(|_| self.pick(&letters)).collect()
    }

    pub(crate) fn number(&mut self) -> ValueBuf {
        let value = match self.below(4) {
            0 => Value::Int32(self.integer() as i32),
            1 => Value::Int64(self.integer()),
            2 => Value::Double(self.double()),
            _ => Value::Decimal128(self.decimal()),
        };
        ValueBuf::new(value)
    }

    fn integer(&mut self) -> i64 {
        let near = self.pick(&[0, 1, 2, 0x7F, 0xFF, 1 << 31, 1 << 52, 1 << 53, 1 << 62, i64::MAX]);
        let n = match self.below(3) {
            0 => near.wrapping_add(self.below(5) as i64 - 2),
            1 => self.below(20) as i64,
            _ => (self.next() >> self.below(64)) as i64,
        };
        if self.below(2) == 0 { n.wrapping_neg() } else { n }
    }

    fn double(&mut self) -> f64 {
        let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, f64::MAX];
        let n = match self.below(6) {
            0 => self.pick(&special),
            1 => self.integer() as f64,
            2 => self.integer() as f64 / 8.0,
            3 => self.integer() as f64 / 10.0,
            4 => f64::from_bits(self.next()),
            _ => self.pick(&[0.1, 0.5, 1.1, 19.99, 1e22, 1e23, 2f64.powi(63), f64::MIN_POSITIVE]),
        };
        match (n.is_nan(), self.below(2)) {
            (true, _) => f64::NAN,
            (false, 0) => -n,
            (false, _) => n,
        }
    }

    fn decimal(&mut self) -> Decimal128 {
        let text = match self.below(7) {
            0 => self.pick(&["NaN", "Infinity", "-Infinity", "0", "-0", "0E+3", "-0E-6176"]).into(),
            1 => format!("{}", self.integer()),
            2 => format!("{}E-{}", self.integer(), self.below(30)),
            3 => format!("{}E{}", self.integer(), self.below(40)),
            4 => format!("{}E{}", self.integer(), self.below(12000) as i64 - 6176),
            5 => self.pick(&["0.1", "0.10", "19.99", "9.223372036854775808E18", "1E+6144"]).into(),
            _ => return Decimal128::from_f64(self.double()),
        };
        Decimal128::parse(&text).unwrap_or(Decimal128::from_i64(1))
    }

    pub(crate) fn value(&mut self, depth: u32) -> ValueBuf {
        let nested = if depth > 0 { 20 } else { 16 };
        let text = self.text();
        let value = match self.below(nested) {
            0..4 => return self.number(),
            4 => Value::Null,
            5 => Value::Undefined,
            6 => self.pick(&[Value::MinKey, Value::MaxKey, Value::Missing]),
            7 => Value::String(&text),
            8 => Value::Symbol(&text),
            9 => Value::Bool(self.below(2) == 0),
            10 => Value::DateTime(self.integer()),
            11 => Value::Timestamp(self.next() >> self.below(64)),
            12 => {
                let bytes = vec![self.below(3) as u8; self.pick(&[0, 1, 2, 254, 255, 300])];
                let subtype = self.pick(&[0, 4, 0x80]);
                return ValueBuf::new(Value::Binary(Binary { subtype, bytes: &bytes }));
            }
            13 => return ValueBuf::new(Value::ObjectId(&[self.below(3) as u8; 12])),
            14 => Value::Code(&text),
            15 => {
                let raw = format!("{}\0{}\0", text.replace('\0', ""), self.pick(&["", "i", "im"]));
                let regex = Regex::from_bytes(raw.as_bytes()).unwrap();
                return ValueBuf::new(Value::Regex(regex));
            }
            16 | 17 => return ValueBuf::new(Value::from(&self.doc(depth - 1))),
            _ => return ValueBuf::new(Value::from(&self.array(depth - 1))),
        };
        ValueBuf::new(value)
    }

    fn doc(&mut self, depth: u32) -> DocBuf {
        let fields: Vec<_> = (0..self.below(3))
            .map(|_| (self.pick(&["", "a", "b", "ab", "\u{1}"]), self.value(depth)))
            .collect();
        DocBuf::build(|w| fields.iter().for_each(|(name, value)| w.put(name, value.value())))
    }

    fn array(&mut self, depth: u32) -> ArrayBuf {
        let items: Vec<_> = (0..self.below(3)).map(|_| self.value(depth)).collect();
        ArrayBuf::build(|w| items.iter().for_each(|item| w.push(item.value())))
    }
}
