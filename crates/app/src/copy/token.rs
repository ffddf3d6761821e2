//! The time in a resume token.
//!
//! The token of a change stream is `{_data: "82..."}`: a key string in hexadecimal digits. It begins with the type of a
//! timestamp (0x82) and the timestamp as 8 bytes, most significant first: seconds, then the increment. This holds for
//! MongoDB's tokens and for Nagi's. A time tells how far a stream without events has come.

use nagi_bson::Doc;

/// The type of a timestamp in a key string.
const TIMESTAMP: &str = "82";
const DIGITS: usize = 16;

/// The cluster time up to which the token's stream has looked at everything, as of BSON: seconds above, the increment
/// below. `None` for a token of another format.
pub(super) fn time(token: Doc<'_>) -> Option<u64> {
    let rest = token.get("_data").as_str()?.strip_prefix(TIMESTAMP)?;
    let digits = rest.get(..DIGITS).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

/// The seconds of a cluster time.
pub(super) fn seconds(time: u64) -> u64 {
    time >> 32
}

#[test]
fn times_of_tokens() {
    use nagi_bson::doc;
    let of = |data: &str| time(doc! { "_data": data }.as_doc());
    assert_eq!(of("826B0A2BEC000000062B0429296E1404"), Some(0x6B0A_2BEC_0000_0006));
    assert_eq!(seconds(0x6B0A_2BEC_0000_0006), 0x6B0A_2BEC);
    for bad in ["", "82", "826B0A2BEC0000", "816B0A2BEC000000062B", "82+B0A2BEC000000062B"] {
        assert_eq!(of(bad), None, "{bad}");
    }
    assert_eq!(time(doc! { "x": 1 }.as_doc()), None);
}
