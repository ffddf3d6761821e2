//! Resume tokens: `{_data: hex string}`, whose order as strings is the order of the events.
//!
//! The bytes are those of MongoDB's version 2 without the identifier of the event at the end, so that tools that read
//! the time of a token understand it:
//!
//! ```text
//!   event        82 time(8)  2B 04  2C 01 00  operation  6E | 6F  5A 10 04 uuid(16) | 14  [fragment]  04
//!   high water   82 time(8)  2B 04  29        29         6E       14                                  04
//! ```
//!
//! `operation` is the position of the event's operation in its transaction, 6F marks an `invalidate` behind the event
//! that caused it, and `fragment` is given by `$changeStreamSplitLargeEvent`. A high-water mark stands for the place
//! before all events of its time.

use nagi_bson::{Doc, DocWriter, Value, text::Hex};
use nagi_error::{Code, Result, bail};

const TIMESTAMP: u8 = 0x82;
const VERSION: u64 = 2;
const ZERO: u8 = 0x29;
/// Followed by one byte; up to eight bytes for greater numbers.
const ONE_BYTE: u8 = 0x2B;
const EIGHT_BYTES: u8 = 0x32;
const FALSE: u8 = 0x6E;
const TRUE: u8 = 0x6F;
const UUID_HEAD: [u8; 3] = [0x5A, 0x10, 0x04];
const NULL: u8 = 0x14;
const END: u8 = 0x04;
/// The token type of events.
const OF_EVENT: u64 = 128;
/// Longer than any token: MongoDB's contain document keys.
const HEX_BYTES_MAX: usize = 64 << 10;

/// A place in a change stream. Ordered as the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    pub(crate) cluster_time: u64,
    pub(crate) place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Before all events of the time.
    HighWater,
    /// At an event.
    Event {
        op: u64,
        from_invalidate: bool,
        uuid: Option<[u8; 16]>,
        /// A fragment of the event.
        fragment: Option<u64>,
    },
}

impl Token {
    pub(crate) fn high_water(cluster_time: u64) -> Token {
        Token { cluster_time, place: Place::HighWater }
    }

    /// The same event's token, with a fragment.
    pub(crate) fn with_fragment(self, fragment: u64) -> Token {
        match self.place {
            Place::HighWater => self,
            Place::Event { op, from_invalidate, uuid, .. } => {
                let fragment = Some(fragment);
                Token { place: Place::Event { op, from_invalidate, uuid, fragment }, ..self }
            }
        }
    }

    pub(crate) fn fragment(&self) -> Option<u64> {
        match self.place {
            Place::Event { fragment, .. } => fragment,
            Place::HighWater => None,
        }
    }

    /// The token of the event that tells that this one has ended the stream.
    pub(super) fn invalidating(self) -> Token {
        match self.place {
            Place::HighWater => self,
            Place::Event { op, uuid, fragment, .. } => {
                Token { place: Place::Event { op, from_invalidate: true, uuid, fragment }, ..self }
            }
        }
    }

    /// The time, and the operation's position in its transaction.
    pub(super) fn op_of_time(&self) -> (u64, u64) {
        match self.place {
            Place::HighWater => (self.cluster_time, 0),
            Place::Event { op, .. } => (self.cluster_time, op),
        }
    }

    pub(super) fn uuid(&self) -> Option<[u8; 16]> {
        match self.place {
            Place::HighWater => None,
            Place::Event { uuid, .. } => uuid,
        }
    }

    /// True for a token of the same event, or of one of its fragments.
    pub(super) fn is_same_event(&self, other: &Token) -> bool {
        self.op_of_time() == other.op_of_time()
            && self.uuid() == other.uuid()
            && self.is_invalidate() == other.is_invalidate()
    }

    pub(super) fn is_high_water(&self) -> bool {
        self.place == Place::HighWater
    }

    pub(crate) fn is_invalidate(&self) -> bool {
        matches!(self.place, Place::Event { from_invalidate: true, .. })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        out.push(TIMESTAMP);
        out.extend_from_slice(&self.cluster_time.to_be_bytes());
        put_number(VERSION, &mut out);
        match self.place {
            Place::HighWater => out.extend_from_slice(&[ZERO, ZERO, FALSE, NULL]),
            Place::Event { op, from_invalidate, uuid, fragment } => {
                put_number(OF_EVENT, &mut out);
                put_number(op, &mut out);
                out.push(if from_invalidate { TRUE } else { FALSE });
                match uuid {
                    Some(uuid) => {
                        out.extend_from_slice(&UUID_HEAD);
                        out.extend_from_slice(&uuid);
                    }
                    None => out.push(NULL),
                }
                if let Some(fragment) = fragment {
                    put_number(fragment, &mut out);
                }
            }
        }
        out.push(END);
        out
    }

    /// Writes `{_data: ...}`.
    pub(crate) fn put(&self, out: &mut DocWriter<'_>) {
        out.put("_data", &*Hex(&self.bytes()).to_string().to_uppercase());
    }

    /// Reads a token as clients send it.
    ///
    /// # Errors
    /// 40647 without data, 9 if it is not hexadecimal, 40649 if it is empty, 50795 for an unknown version, 50811 for
    /// anything else.
    pub(crate) fn parse(token: Doc<'_>) -> Result<Token> {
        let Value::String(text) = token.get("_data") else {
            bail!(
                Code::Location(40647),
                "Bad resume token: _data of missing or of wrong type. Expected string, got {}",
                token.get("_data").kind().name()
            );
        };
        if !matches!(token.get("_typeBits"), Value::Missing | Value::Binary(_)) {
            bail!(Code::Location(40648), "Bad resume token: _typeBits of wrong type {token}");
        }
        let Some(bytes) = decode(text) else {
            bail!(Code::FAILED_TO_PARSE, "resume token string was not a valid hex string");
        };
        if bytes.is_empty() {
            bail!(Code::Location(40649), "invalid empty resume token");
        }
        let mut rest = Rest(&bytes);
        let Some((cluster_time, version)) = rest.time_and_version() else { return malformed(text) };
        if version > VERSION {
            bail!(
                Code::Location(50795),
                "Invalid Resume Token: only supports version 0, 1 and 2, but found {version}"
            );
        }
        match rest.place(version) {
            Some(place) => Ok(Token { cluster_time, place }),
            None => malformed(text),
        }
    }
}

fn malformed(text: &str) -> Result<Token> {
    let shown: String = text.chars().take(80).collect();
    bail!(Code::Location(50811), "Invalid resume token: {{_data: \"{shown}\"}}")
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if text.len() % 2 == 1 || text.len() > HEX_BYTES_MAX {
        return None;
    }
    let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8);
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Writes a number as MongoDB's index keys have it.
fn put_number(number: u64, out: &mut Vec<u8>) {
    if number == 0 {
        return out.push(ZERO);
    }
    let bytes = (number << 1).to_be_bytes();
    let skipped = bytes.iter().take_while(|byte| **byte == 0).count();
    out.push(ONE_BYTE + (7 - skipped) as u8);
    out.extend_from_slice(&bytes[skipped..]);
}

/// The part of a token's bytes that was not read.
struct Rest<'b>(&'b [u8]);

impl Rest<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        match self.byte()? {
            ZERO => Some(0),
            kind @ ONE_BYTE..=EIGHT_BYTES => {
                let count = usize::from(kind - ONE_BYTE) + 1;
                let mut all = [0; 8];
                for byte in &mut all[8 - count..] {
                    *byte = self.byte()?;
                }
                Some(u64::from_be_bytes(all) >> 1)
            }
            _ => None,
        }
    }

    fn time_and_version(&mut self) -> Option<(u64, u64)> {
        (self.byte()? == TIMESTAMP).then_some(())?;
        let time = u64::from_be_bytes(self.array()?);
        Some((time, self.number()?))
    }

    fn place(&mut self, version: u64) -> Option<Place> {
        let is_event = version == 0 || self.number()? == OF_EVENT;
        let op = self.number()?;
        let from_invalidate = match self.byte()? {
            TRUE => true,
            FALSE => false,
            _ => return None,
        };
        let uuid = match self.byte()? {
            NULL => None,
            byte if byte == UUID_HEAD[0] => {
                (self.array::<2>()? == UUID_HEAD[1..]).then_some(())?;
                Some(self.array()?)
            }
            // A high-water mark of version 1 ends here.
            END if !is_event => return Some(Place::HighWater),
            _ => return None,
        };
        if !is_event {
            return Some(Place::HighWater);
        }
        // MongoDB's tokens identify the event here; the place is enough.
        let fragment = self.number();
        Some(Place::Event { op, from_invalidate, uuid, fragment })
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, doc};
    use proptest::prelude::*;

    use super::*;

    fn data(token: &Token) -> String {
        let doc = DocBuf::build(|out| token.put(out));
        doc.as_doc().get("_data").as_str().unwrap().to_owned()
    }

    fn token() -> impl Strategy<Value = Token> {
        let number = || prop_oneof![0..3u64, 0..70_000u64, 0..u64::MAX >> 1];
        let uuid = prop_oneof![Just(None), Just(Some([0xAB; 16])), Just(Some([4; 16]))];
        let event =
            (number(), any::<bool>(), uuid, prop_oneof![Just(None), (0..9u64).prop_map(Some)]);
        let event = event.prop_map(|(op, from_invalidate, uuid, fragment)| Place::Event {
            op,
            from_invalidate,
            uuid,
            fragment,
        });
        let place = prop_oneof![Just(Place::HighWater), event];
        (number(), place).prop_map(|(cluster_time, place)| Token { cluster_time, place })
    }

    fn code(text: &str) -> i32 {
        Token::parse(doc! { "_data": text }.as_doc()).map(|_| 0).unwrap_or_else(|e| e.code().0)
    }

    proptest! {
        #[test]
        fn text_has_the_order_of_places_and_reads_back(a in token(), b in token()) {
            let text = data(&a);
            let read = Token::parse(doc! { "_data": (text.as_str()) }.as_doc()).unwrap();
            prop_assert_eq!(read, a);
            // The order of UUIDs and fragments at one operation is of no consequence.
            let op = |x: &Token| match x.place {
                Place::Event { op, from_invalidate, .. } => Some((op, from_invalidate)),
                Place::HighWater => None,
            };
            if a.cluster_time != b.cluster_time || op(&a) != op(&b) {
                prop_assert_eq!(text.cmp(&data(&b)), a.cmp(&b));
            }
        }

        #[test]
        fn damaged_tokens_are_refused_or_read(a in token(), at: usize, to: u8, length: usize) {
            let mut bytes = a.bytes();
            let count = bytes.len();
            bytes[at % count] = to;
            bytes.truncate(length % (count + 1));
            let code = code(&Hex(&bytes).to_string());
            prop_assert!(matches!(code, 0 | 40649 | 50795 | 50811), "{}", code);
        }
    }

    #[test]
    fn tokens_have_the_bytes_of_mongodb() {
        assert_eq!(data(&Token::high_water(1 << 32 | 2)), "8200000001000000022B0429296E1404");
        let place =
            Place::Event { op: 0, from_invalidate: false, uuid: Some([0xAB; 16]), fragment: None };
        let event = Token { cluster_time: 1 << 32 | 2, place };
        let uuid = "AB".repeat(16);
        assert_eq!(data(&event), format!("8200000001000000022B042C0100296E5A1004{uuid}04"));
    }

    #[test]
    fn broken_tokens_are_refused() {
        assert_eq!(Token::parse(doc! {}.as_doc()).unwrap_err().code().0, 40647);
        assert_eq!(Token::parse(doc! { "_data": 1 }.as_doc()).unwrap_err().code().0, 40647);
        assert_eq!(code("xyz"), 9);
        assert_eq!(code("8"), 9);
        assert_eq!(code("\u{e9}"), 9);
        assert_eq!(code(""), 40649);
        assert_eq!(code("82"), 50811);
        assert_eq!(code("8200000001000000022B0A"), 50795);
        assert_eq!(code("8200000001000000022B04"), 50811);
        assert_eq!(code("8100000001000000022B0429296E1404"), 50811);
    }
}
