//! The stored lease: which node owns the data, and until when.
//!
//! A document under `CatalogKey::Lease`: `{v: 1, node: UUID, until: Timestamp, name: string}`. It stays when a node
//! leaves in good order, with an end of zero.

use nagi_bson::{Binary, Doc, DocBuf, Value, number};
use nagi_kv::{Error, Result};

const VERSION: i32 = 1;

/// See the module's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Holder {
    pub(super) node: [u8; 16],
    /// A stamp of the engine's clock.
    pub(super) until: u64,
    pub(super) name: String,
}

impl Holder {
    pub(super) fn to_doc(&self) -> DocBuf {
        DocBuf::build(|w| {
            w.put("v", VERSION);
            w.put("node", Value::Binary(Binary { subtype: 4, bytes: &self.node }));
            w.put("until", Value::Timestamp(self.until));
            w.put("name", self.name.as_str());
        })
    }

    /// # Errors
    /// If it is damaged, or of a newer version.
    pub(super) fn parse(stored: &[u8]) -> Result<Holder> {
        let doc = Doc::parse_wrapped(stored).map_err(|_| damaged())?;
        let version = number::truncate_to_i64(doc.get("v")).ok_or_else(damaged)?;
        if version != i64::from(VERSION) {
            return Err(Error::other(format!(
                "the lease of the data has version {version}, this server reads version {VERSION}"
            )));
        }
        let (Value::Binary(node), Value::Timestamp(until)) = (doc.get("node"), doc.get("until"))
        else {
            return Err(damaged());
        };
        let node = { node.bytes }.try_into().map_err(|_| damaged())?;
        let name = doc.get("name").as_str().ok_or_else(damaged)?.to_owned();
        Ok(Holder { node, until, name })
    }
}

#[cold]
fn damaged() -> Error {
    Error::Corrupt("the lease of the data is damaged".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let holder = Holder { node: [7; 16], until: 5 << 32, name: "a".into() };
        assert_eq!(Holder::parse(holder.to_doc().as_bytes()).expect("parses"), holder);
        let newer = nagi_bson::doc! { "v": 2 };
        let error = Holder::parse(newer.as_bytes()).expect_err("refused");
        assert!(error.to_string().contains("version 2, this server reads version 1"), "{error}");
        for stored in [&b""[..], b"\x05\0\0\0\0", nagi_bson::doc! { "v": 1 }.as_bytes()] {
            assert!(matches!(Holder::parse(stored), Err(Error::Corrupt(_))), "{stored:?}");
        }
    }
}
