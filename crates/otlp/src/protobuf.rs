//! Writes protobuf: the few kinds of fields that OTLP's messages have.
//!
//! ```text
//!   field   tag (number << 3 | kind) as a varint, then
//!           0 varint | 1 eight bytes | 2 length as a varint, bytes | 5 four bytes
//! ```
//! A field with the default value (0, empty) is left out by the functions whose names do not say `always`.

/// A message, or a part of one.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// The bytes of a message that `fill` writes.
    pub(crate) fn build(fill: impl FnOnce(&mut Message)) -> Vec<u8> {
        let mut message = Message::default();
        fill(&mut message);
        message.0
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn tag(&mut self, field: u32, kind: u8) {
        self.varint(u64::from(field) << 3 | u64::from(kind));
    }

    /// An int64, an enum or a bool.
    pub(crate) fn int(&mut self, field: u32, number: i64) {
        if number != 0 {
            self.int_always(field, number);
        }
    }

    /// An int64 that tells something even if it is 0, because it is one of several alternatives.
    pub(crate) fn int_always(&mut self, field: u32, number: i64) {
        self.tag(field, 0);
        self.varint(number as u64);
    }

    pub(crate) fn fixed64(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.tag(field, 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(crate) fn double_always(&mut self, field: u32, number: f64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.bytes_always(field, bytes);
        }
    }

    fn bytes_always(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    pub(crate) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        self.bytes_always(field, &Message::build(fill));
    }

    /// Numbers of eight bytes, one after another.
    pub(crate) fn packed(&mut self, field: u32, numbers: impl Iterator<Item = [u8; 8]>) {
        let bytes: Vec<u8> = numbers.flatten().collect();
        self.bytes(field, &bytes);
    }

    /// A `KeyValue` with a text.
    pub(crate) fn attribute(&mut self, field: u32, key: &str, text: &str) {
        self.message(field, |pair| {
            pair.text(1, key);
            pair.message(2, |value| value.bytes_always(1, text.as_bytes()));
        });
    }

    /// A `KeyValue` with an integer.
    pub(crate) fn number_attribute(&mut self, field: u32, key: &str, number: i64) {
        self.message(field, |pair| {
            pair.text(1, key);
            pair.message(2, |value| value.int_always(3, number));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_tags_and_lengths() {
        let bytes = Message::build(|message| {
            message.int(1, 300);
            message.int(1, 0);
            message.text(2, "ab");
            message.text(2, "");
            message.fixed64(16, 1);
            message.double_always(4, 0.0);
            message.message(3, |inner| inner.int_always(1, 0));
            message.packed(6, [1_u64, 2].iter().map(|n| n.to_le_bytes()));
        });
        let mut expected = vec![0x08, 0xac, 0x02, 0x12, 0x02, b'a', b'b', 0x81, 0x01];
        expected
            .extend([1, 0, 0, 0, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0, 0, 0, 0, 0x1a, 0x02, 0x08, 0x00]);
        expected.extend([0x32, 16, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes, expected);
        let negative = Message::build(|message| message.int(1, -1));
        assert_eq!(negative.len(), 11, "a negative int64 has ten bytes");
    }
}
