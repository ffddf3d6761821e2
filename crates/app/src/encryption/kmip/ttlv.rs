//! The encoding of KMIP: tag, type, length, value (OASIS KMIP 1.2, section 9.1).
//!
//! ```text
//!   3 bytes  tag            4 bytes  length of the value
//!   1 byte   type           n bytes  value, filled with zeros to a multiple of 8
//! ```
//! Numbers are big endian. The value of a structure is items.

use zeroize::Zeroizing;

/// The tags that are used here.
pub(super) mod tag {
    pub(in super::super) const ATTRIBUTE: u32 = 0x42_0008;
    pub(in super::super) const ATTRIBUTE_NAME: u32 = 0x42_000A;
    pub(in super::super) const ATTRIBUTE_VALUE: u32 = 0x42_000B;
    pub(in super::super) const BATCH_COUNT: u32 = 0x42_000D;
    pub(in super::super) const BATCH_ITEM: u32 = 0x42_000F;
    pub(in super::super) const CRYPTOGRAPHIC_ALGORITHM: u32 = 0x42_0028;
    pub(in super::super) const KEY_BLOCK: u32 = 0x42_0040;
    pub(in super::super) const KEY_FORMAT_TYPE: u32 = 0x42_0042;
    pub(in super::super) const KEY_MATERIAL: u32 = 0x42_0043;
    pub(in super::super) const KEY_VALUE: u32 = 0x42_0045;
    pub(in super::super) const OBJECT_TYPE: u32 = 0x42_0057;
    pub(in super::super) const OPERATION: u32 = 0x42_005C;
    pub(in super::super) const PROTOCOL_VERSION: u32 = 0x42_0069;
    pub(in super::super) const VERSION_MAJOR: u32 = 0x42_006A;
    pub(in super::super) const VERSION_MINOR: u32 = 0x42_006B;
    pub(in super::super) const REQUEST_HEADER: u32 = 0x42_0077;
    pub(in super::super) const REQUEST_MESSAGE: u32 = 0x42_0078;
    pub(in super::super) const REQUEST_PAYLOAD: u32 = 0x42_0079;
    pub(in super::super) const RESPONSE_MESSAGE: u32 = 0x42_007B;
    pub(in super::super) const RESPONSE_PAYLOAD: u32 = 0x42_007C;
    pub(in super::super) const RESULT_MESSAGE: u32 = 0x42_007D;
    pub(in super::super) const RESULT_STATUS: u32 = 0x42_007F;
    pub(in super::super) const SYMMETRIC_KEY: u32 = 0x42_008F;
    pub(in super::super) const TEMPLATE_ATTRIBUTE: u32 = 0x42_0091;
    pub(in super::super) const UNIQUE_IDENTIFIER: u32 = 0x42_0094;
}

/// The types that are used here.
mod kind {
    pub(super) const STRUCTURE: u8 = 1;
    pub(super) const INTEGER: u8 = 2;
    pub(super) const ENUMERATION: u8 = 5;
    pub(super) const TEXT: u8 = 7;
    pub(super) const BYTES: u8 = 8;
}

const HEAD_BYTES: usize = 8;

/// Writes items. Requests contain no secrets.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    fn item(&mut self, tag: u32, kind: u8, value: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(&(tag << 8 | u32::from(kind)).to_be_bytes());
        self.0.extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self
    }

    pub(super) fn structure(&mut self, tag: u32, inner: impl FnOnce(&mut Writer)) -> &mut Writer {
        let mut items = Writer::default();
        inner(&mut items);
        self.item(tag, kind::STRUCTURE, &items.0)
    }

    pub(super) fn integer(&mut self, tag: u32, value: u32) -> &mut Writer {
        self.item(tag, kind::INTEGER, &value.to_be_bytes())
    }

    pub(super) fn enumeration(&mut self, tag: u32, value: u32) -> &mut Writer {
        self.item(tag, kind::ENUMERATION, &value.to_be_bytes())
    }

    pub(super) fn text(&mut self, tag: u32, value: &str) -> &mut Writer {
        self.item(tag, kind::TEXT, value.as_bytes())
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The value of a structure: its items.
#[derive(Clone, Copy)]
pub(super) struct Items<'b>(&'b [u8]);

/// An item: its tag, its type and its value.
type Item<'b> = (u32, u8, &'b [u8]);

impl<'b> Items<'b> {
    /// The items of a message.
    pub(super) fn of(message: &'b [u8]) -> Items<'b> {
        Items(message)
    }

    /// A copy of its bytes.
    pub(super) fn to_bytes(self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.to_vec())
    }

    /// The first item and those after it; `None` at the end and if an item is longer than what there is.
    fn next(self) -> Option<(Item<'b>, Items<'b>)> {
        let (head, rest) = self.0.split_first_chunk::<HEAD_BYTES>()?;
        let [a, b, c, kind, d, e, f, g] = *head;
        let length = u32::from_be_bytes([d, e, f, g]) as usize;
        let value = rest.get(..length)?;
        // The last item may be without its filling.
        let after = rest.get(length.checked_next_multiple_of(8)?..).unwrap_or_default();
        Some(((u32::from_be_bytes([0, a, b, c]), kind, value), Items(after)))
    }

    /// The values of all items with a tag and a type.
    fn all(self, tag: u32, kind: u8) -> impl Iterator<Item = &'b [u8]> {
        let items = std::iter::successors(self.next(), |(_, rest)| rest.next());
        items.filter(move |((t, k, _), _)| (*t, *k) == (tag, kind)).map(|((.., value), _)| value)
    }

    fn first(self, tag: u32, kind: u8) -> Option<&'b [u8]> {
        self.all(tag, kind).next()
    }

    pub(super) fn structure(self, tag: u32) -> Option<Items<'b>> {
        self.first(tag, kind::STRUCTURE).map(Items)
    }

    pub(super) fn structures(self, tag: u32) -> impl Iterator<Item = Items<'b>> {
        self.all(tag, kind::STRUCTURE).map(Items)
    }

    pub(super) fn enumeration(self, tag: u32) -> Option<u32> {
        Some(u32::from_be_bytes(self.first(tag, kind::ENUMERATION)?.try_into().ok()?))
    }

    pub(super) fn text(self, tag: u32) -> Option<&'b str> {
        str::from_utf8(self.first(tag, kind::TEXT)?).ok()
    }

    pub(super) fn bytes(self, tag: u32) -> Option<Zeroizing<Vec<u8>>> {
        self.first(tag, kind::BYTES).map(|bytes| Zeroizing::new(bytes.to_vec()))
    }
}

/// The length of the value whose item begins with these bytes, if it is a structure with this tag.
pub(super) fn length_of(head: [u8; HEAD_BYTES], tag: u32) -> Option<usize> {
    let [_, _, _, _, d, e, f, g] = head;
    let expected = (tag << 8 | u32::from(kind::STRUCTURE)).to_be_bytes();
    head.starts_with(&expected).then(|| u32::from_be_bytes([d, e, f, g]) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of section 9.1.2 of the specification.
    #[test]
    fn items_are_encoded_as_published() {
        let mut writer = Writer::default();
        writer.integer(0x42_0020, 8).enumeration(0x42_0020, 255).text(0x42_0020, "Hello World");
        writer.structure(0x42_0020, |inner| {
            inner.enumeration(0x42_0004, 254).integer(0x42_0005, 255);
        });
        let expected: [&[u8]; 4] = [
            b"\x42\x00\x20\x02\0\0\0\x04\0\0\0\x08\0\0\0\0",
            b"\x42\x00\x20\x05\0\0\0\x04\0\0\0\xff\0\0\0\0",
            b"\x42\x00\x20\x07\0\0\0\x0bHello World\0\0\0\0\0",
            b"\x42\x00\x20\x01\0\0\0\x20\x42\x00\x04\x05\0\0\0\x04\0\0\0\xfe\0\0\0\0\
              \x42\x00\x05\x02\0\0\0\x04\0\0\0\xff\0\0\0\0",
        ];
        let bytes = writer.into_bytes();
        assert_eq!(bytes, expected.concat());
        let items = Items::of(&bytes);
        assert_eq!(items.enumeration(0x42_0020), Some(255));
        assert_eq!(items.text(0x42_0020), Some("Hello World"));
        let inner = items.structure(0x42_0020).unwrap();
        assert_eq!(inner.enumeration(0x42_0004), Some(254));
        assert_eq!(items.structures(0x42_0020).count(), 1);
        assert!(items.bytes(0x42_0020).is_none() && inner.text(0x42_0005).is_none());
    }

    #[test]
    fn hostile_lengths_end_a_list() {
        for bytes in [
            &b""[..],
            b"\x42\x00\x20",
            b"\x42\x00\x20\x08\xff\xff\xff\xff12345678",
            b"\x42\x00\x20\x08\0\0\0\x09 12345678",
            b"\x42\x00\x20\x05\0\0\0\x03\0\0\0\0\0\0\0\0",
        ] {
            let items = Items::of(bytes);
            assert!(items.bytes(0x42_0020).is_none() || bytes.len() == 17, "{bytes:?}");
            assert!(
                items.enumeration(0x42_0020).is_none() && items.structures(0x42_0020).count() == 0
            );
        }
        // An item without its filling at the end.
        let items = Items::of(b"\x42\x00\x20\x08\0\0\0\x03abc");
        assert_eq!(items.bytes(0x42_0020).unwrap().as_slice(), b"abc");
        assert_eq!(length_of(*b"\x42\x00\x7b\x01\0\0\x01\x02", tag::RESPONSE_MESSAGE), Some(258));
        assert_eq!(length_of(*b"HTTP/1.1", tag::RESPONSE_MESSAGE), None);
    }
}
