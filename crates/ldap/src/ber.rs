//! The part of BER that LDAP uses (RFC 4511, 5.1): tags of one byte and definite lengths.
//!
//! Reading never recurses: a caller opens the elements that it expects, and skips others by their length. So the depth
//! of a hostile message costs nothing.

/// A message that is not BER, or not what its place requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const ENUMERATED: u8 = 0x0A;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// The bytes of a length in the form that [`nested`] writes: the count, and four bytes.
const LENGTH_BYTES: usize = 5;

/// The length of an element's header and of its contents, once `bytes` has the whole header; `None` before that.
pub(crate) fn header(bytes: &[u8]) -> Result<Option<(usize, usize)>, Malformed> {
    let Some(&first) = bytes.get(1) else { return Ok(None) };
    if first < 0x80 {
        return Ok(Some((2, usize::from(first))));
    }
    let count = usize::from(first & 0x7F);
    // 0x80 is the indefinite form. More than four bytes would be a length that no message may have.
    if !(1..=4).contains(&count) {
        return Err(Malformed);
    }
    let Some(length) = bytes.get(2..2 + count) else { return Ok(None) };
    Ok(Some((2 + count, length.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)))))
}

/// The elements of some bytes, one after the other.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tag and the contents of the next element.
    pub(crate) fn next(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let (head, length) = header(self.0)?.ok_or(Malformed)?;
        let end = head.checked_add(length).ok_or(Malformed)?;
        let contents = self.0.get(head..end).ok_or(Malformed)?;
        let tag = *self.0.first().ok_or(Malformed)?;
        // A tag number of 31 or more would continue in the next byte.
        if tag & 0x1F == 0x1F {
            return Err(Malformed);
        }
        self.0 = self.0.get(end..).ok_or(Malformed)?;
        Ok((tag, contents))
    }

    /// The contents of the next element, which has this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        match self.next()? {
            (found, contents) if found == tag => Ok(contents),
            _ => Err(Malformed),
        }
    }

    /// The next element, an integer of at most four bytes.
    pub(crate) fn integer(&mut self, tag: u8) -> Result<i32, Malformed> {
        let bytes = self.expect(tag)?;
        let first = *bytes.first().ok_or(Malformed)?;
        if bytes.len() > 4 {
            return Err(Malformed);
        }
        let sign = if first & 0x80 == 0 { 0 } else { -1 };
        Ok(bytes.iter().fold(sign, |sum, byte| (sum << 8) | i32::from(*byte)))
    }
}

/// Appends an element with these contents.
pub(crate) fn element(out: &mut Vec<u8>, tag: u8, contents: &[u8]) {
    nested(out, tag, |out| out.extend_from_slice(contents));
}

/// Appends an element whose contents `build` appends. Nothing is copied, so that a password is in `out` only.
pub(crate) fn nested(out: &mut Vec<u8>, tag: u8, build: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0x84, 0, 0, 0, 0]);
    build(out);
    let length = u32::try_from(out.len() - at - LENGTH_BYTES).expect("requests are short");
    out[at + 1..at + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

/// Appends a non-negative integer or enumerated value.
pub(crate) fn integer(out: &mut Vec<u8>, tag: u8, value: u32) {
    let bytes = value.to_be_bytes();
    let skipped = bytes.iter().take(3).take_while(|byte| **byte == 0).count();
    nested(out, tag, |out| {
        if bytes[skipped] & 0x80 != 0 {
            out.push(0);
        }
        out.extend_from_slice(&bytes[skipped..]);
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_in_all_forms() {
        assert_eq!(header(&[0x30]), Ok(None));
        assert_eq!(header(&[0x30, 0x05]), Ok(Some((2, 5))));
        assert_eq!(header(&[0x30, 0x82, 0x01]), Ok(None));
        assert_eq!(header(&[0x30, 0x82, 0x01, 0x02]), Ok(Some((4, 258))));
        // Active Directory pads lengths to four bytes.
        assert_eq!(header(&[0x30, 0x84, 0, 0, 0, 7]), Ok(Some((6, 7))));
        for bad in [0x80, 0x85, 0xFF] {
            assert_eq!(header(&[0x30, bad, 0, 0, 0, 0, 0, 0]), Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(n in 0..=i32::MAX as u32, text in ".{0,300}") {
            let mut out = Vec::new();
            nested(&mut out, SEQUENCE, |out| {
                integer(out, INTEGER, n);
                element(out, OCTETS, text.as_bytes());
            });
            let mut all = Reader::new(&out);
            let mut inner = Reader::new(all.expect(SEQUENCE).unwrap());
            prop_assert_eq!(inner.integer(INTEGER).unwrap() as u32, n);
            prop_assert_eq!(inner.expect(OCTETS).unwrap(), text.as_bytes());
            prop_assert!(inner.is_empty() && all.is_empty());
        }

        /// Any bytes are elements or are refused; what is read lies within them.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::new(&bytes);
            let mut read = 0;
            while let Ok((_, contents)) = reader.next() {
                read += contents.len() + 2;
                prop_assert!(read <= bytes.len());
            }
        }
    }
}
