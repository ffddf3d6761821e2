//! The first bytes of a field name as a number, which distinguishes most names with a single comparison.

/// The first eight bytes of a name in little-endian order. A shorter name is padded with zeros, which names do not
/// contain. So equal tags of names shorter than eight bytes mean equal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NameTag(pub(crate) u64);

impl NameTag {
    /// A tag that no name has: its bytes are not valid UTF-8.
    pub const NONE: NameTag = NameTag(u64::MAX);

    /// Computes the tag of a name, for many later comparisons.
    #[inline]
    pub fn of(name: &str) -> NameTag {
        let bytes = name.as_bytes();
        match bytes.first_chunk::<8>() {
            Some(chunk) => NameTag(u64::from_le_bytes(*chunk)),
            None => NameTag(bytes.iter().rev().fold(0, |tag, b| tag << 8 | u64::from(*b))),
        }
    }

    /// Returns true if the tag contains the whole name.
    #[inline]
    pub const fn is_whole(self) -> bool {
        self.0 >> 56 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DocBuf;

    #[test]
    fn tags_are_those_of_elements() {
        let names =
            ["", "a", "ab", "1234567", "12345678", "123456789", "a.b", "\u{e4}\u{f6}\u{fc}x"];
        let doc = DocBuf::build(|out| names.iter().for_each(|name| out.put(name, 1)));
        let mut elements = doc.as_doc().iter();
        for name in names {
            let (tag, element) = elements.next_tagged().expect("as many as were written");
            assert_eq!((element.name(), tag), (name, NameTag::of(name)), "{name}");
            assert_eq!(tag.is_whole(), name.len() < 8, "{name}");
        }
        assert!(elements.next_tagged().is_none());
    }

    #[test]
    fn one_of_several_is_found() {
        let doc = crate::doc! { "a": 1, "b": 2, "12345678x": 3, "c": 4 };
        let tag = NameTag::of;
        let mut elements = doc.as_doc().iter();
        let tags = [tag("c"), tag("b"), tag("12345678y"), tag("b")];
        let mut next = || elements.find_any(&tags).map(|(which, e)| (which, e.name().to_owned()));
        assert_eq!(next(), Some((0b1010, "b".to_owned())));
        // Names with a common prefix of eight bytes: the caller must compare the whole names.
        assert_eq!(next(), Some((0b0100, "12345678x".to_owned())));
        assert_eq!(next(), Some((0b0001, "c".to_owned())));
        assert_eq!(next(), None);
        assert_eq!(next(), None);
        assert!(doc.as_doc().iter().find_any(&[NameTag::NONE; 4]).is_none());
    }

    #[test]
    fn names_that_begin_alike_are_told_apart() {
        let names = ["12345678", "123456789", "1234567", "12345678a"];
        let doc = DocBuf::build(|out| {
            names.iter().enumerate().for_each(|(at, name)| out.put(name, at as i32));
        });
        for (at, name) in names.iter().enumerate() {
            assert_eq!(doc.get(name), crate::Value::Int32(at as i32), "{name}");
        }
        assert!(doc.get("12345678b").is_missing());
        assert!(doc.get("123456").is_missing());
    }
}
