//! Seats: the nodes that share the data. Each has a number, and under it a lease and fences of its own.
//!
//!   Catalog   SEAT | number (4)     {v: 1, node: UUID, renewed, until: Timestamp, name, about: {..}, version,
//!                                   closed: [..], settings}
//!
//! The node that has the seat writes the entry, as does one that declares it dead: it removes it.

use nagi_bson::{Binary, Doc, DocBuf, Value, number};
use nagi_kv::{Error, Read, Result, Space, Txn};

use crate::ident::{CatalogKey, Ident};

/// Identifies a process that has the data open.
pub(crate) type NodeId = [u8; 16];

/// Nodes that may share the data. Each has 512 fences, whose numbers have two bytes.
pub(super) const COUNT: u16 = 128;

const VERSION: i32 = 1;

/// What a node says of its catalog.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Report {
    /// The version of the catalog that all its requests use.
    pub(crate) version: u64,
    /// The intents on whose collections it has no writers, in ascending order.
    pub(crate) closed: Vec<u64>,
    /// The version of the documents that it has in memory.
    pub(crate) settings: u64,
}

/// See the module's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seat {
    pub(crate) number: u16,
    pub(crate) node: NodeId,
    /// When its lease was renewed, and its end: stamps of the engine's clock.
    pub(crate) renewed: u64,
    pub(crate) until: u64,
    pub(crate) name: String,
    /// What the server says of itself.
    pub(crate) about: DocBuf,
    pub(crate) report: Report,
}

fn key(number: u16) -> [u8; 5] {
    Ident(number.into()).catalog_key(CatalogKey::Seat)
}

/// All seats, in the order of their numbers. A scan.
pub(crate) fn all(read: &(impl Read + ?Sized)) -> Result<Vec<Seat>> {
    let (start, end) = ([CatalogKey::Seat as u8], [CatalogKey::Seat as u8 + 1]);
    let mut cursor = read.cursor(Space::Catalog, &start, &end)?;
    let (mut all, mut found) = (Vec::new(), cursor.seek(&start)?);
    while found {
        let number = cursor.key().last_chunk().map(|bytes| u16::from_be_bytes(*bytes));
        all.push(Seat::parse(number.ok_or_else(damaged)?, cursor.value())?);
        found = cursor.next()?;
    }
    Ok(all)
}

/// The seat with this number.
pub(super) fn one(read: &(impl Read + ?Sized), number: u16) -> Result<Option<Seat>> {
    let mut buf = Vec::new();
    let stored = read.get(Space::Catalog, &key(number), &mut buf)?;
    stored.map(|stored| Seat::parse(number, stored)).transpose()
}

pub(super) fn remove(txn: &mut dyn Txn, number: u16) -> Result<()> {
    txn.delete(Space::Catalog, &key(number))
}

impl Seat {
    pub(super) fn put(&self, txn: &mut dyn Txn) -> Result<()> {
        txn.put(Space::Catalog, &key(self.number), self.to_doc().as_bytes())
    }

    fn to_doc(&self) -> DocBuf {
        DocBuf::build(|w| {
            w.put("v", VERSION);
            w.put("node", Value::Binary(Binary { subtype: 4, bytes: &self.node }));
            w.put("renewed", Value::Timestamp(self.renewed));
            w.put("until", Value::Timestamp(self.until));
            w.put("name", self.name.as_str());
            w.put("about", &self.about);
            w.put("version", self.report.version.cast_signed());
            w.array("closed", |w| {
                self.report.closed.iter().for_each(|intent| w.push(intent.cast_signed()));
            });
            w.put("settings", self.report.settings.cast_signed());
        })
    }

    fn parse(number: u16, stored: &[u8]) -> Result<Seat> {
        let doc = Doc::parse_wrapped(stored).map_err(|_| damaged())?;
        let version = number::truncate_to_i64(doc.get("v")).ok_or_else(damaged)?;
        if version != i64::from(VERSION) {
            return Err(Error::other(format!(
                "the entry of a node has version {version}, this server reads version {VERSION}"
            )));
        }
        let (Value::Binary(node), Value::Timestamp(renewed), Value::Timestamp(until)) =
            (doc.get("node"), doc.get("renewed"), doc.get("until"))
        else {
            return Err(damaged());
        };
        let node = { node.bytes }.try_into().map_err(|_| damaged())?;
        let name = doc.get("name").as_str().ok_or_else(damaged)?.to_owned();
        let long = |value| number::truncate_to_i64(value).map(i64::cast_unsigned);
        let version = long(doc.get("version")).ok_or_else(damaged)?;
        let closed = doc.get("closed").as_array().ok_or_else(damaged)?;
        let closed = closed.iter().map(|intent| long(intent).ok_or_else(damaged));
        let settings = long(doc.get("settings")).ok_or_else(damaged)?;
        let report = Report { version, closed: closed.collect::<Result<_>>()?, settings };
        let about = doc.get("about").as_doc().ok_or_else(damaged)?.to_buf();
        Ok(Seat { number, node, renewed, until, name, about, report })
    }
}

#[cold]
fn damaged() -> Error {
    Error::Corrupt("the entry of a node is damaged".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let report = Report { version: 1 << 40, closed: vec![1, u64::MAX], settings: 3 };
        let about = nagi_bson::doc! { "host": "a:1" };
        let (renewed, until) = (4 << 32, 5 << 32);
        let seat =
            Seat { number: 127, node: [7; 16], renewed, until, name: "a".into(), about, report };
        assert_eq!(Seat::parse(127, seat.to_doc().as_bytes()).expect("parses"), seat);
        let newer = nagi_bson::doc! { "v": 2 };
        let error = Seat::parse(0, newer.as_bytes()).expect_err("refused");
        assert!(error.to_string().contains("version 2, this server reads version 1"), "{error}");
        for stored in [&b""[..], b"\x05\0\0\0\0", nagi_bson::doc! { "v": 1 }.as_bytes()] {
            assert!(matches!(Seat::parse(0, stored), Err(Error::Corrupt(_))), "{stored:?}");
        }
    }
}
