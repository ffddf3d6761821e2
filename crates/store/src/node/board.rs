//! The board: what nodes that share the data tell each other of the catalog, in five keys of the catalog.
//!
//!   CHANGES        {v: 1, version, since, recent: [version, ident, ..]}   of the catalog; written by each change
//!   CATALOG_LOCK   {v: 1, node: UUID}                                     the node that is changing the catalog
//!   INTENTS        {v: 1, intents: [{id, node: UUID, idents: [..]}]}      collections that no node may write to
//!   SETTINGS       {v: 1, version}                                        of documents that servers have in memory;
//!                                                                         written by each commit that changes some
//!   QUESTIONS      {v: 1, version}                                        to the other nodes: `mail.rs`
//!
//! A key that is missing is one of a new cluster: version 0, no lock, no intents.

use nagi_bson::{Array, Binary, Doc, DocBuf, Value, doc, number};
use nagi_kv::{Error, Read, Result, Space, Txn};

use super::seat::NodeId;
use crate::ident::{CatalogKey, Ident};

const VERSION: i32 = 1;
/// Changes that are listed; a node that has missed more reads the whole catalog.
const RECENT_MAX: usize = 256;

/// The version of the catalog.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) version: u64,
    /// The changes behind this version are listed.
    since: u64,
    /// Versions, ascending, and the collections that they have changed, created or dropped.
    recent: Vec<(u64, Ident)>,
}

impl Changes {
    /// The next version, which changes these collections.
    pub(crate) fn next(&self, idents: impl IntoIterator<Item = Ident>) -> Changes {
        let version = self.version + 1;
        let (mut since, mut recent) = (self.since, self.recent.clone());
        recent.extend(idents.into_iter().map(|ident| (version, ident)));
        while recent.len() > RECENT_MAX {
            since = recent[0].0;
            recent.retain(|(version, _)| *version > since);
        }
        Changes { version, since, recent }
    }

    /// The collections that were changed behind a version; none if they are not listed.
    pub(crate) fn after(&self, version: u64) -> Option<Vec<Ident>> {
        if version < self.since {
            return None;
        }
        let later = self.recent.iter().filter(|(of, _)| *of > version);
        let mut idents: Vec<Ident> = later.map(|(_, ident)| *ident).collect();
        idents.sort_unstable();
        idents.dedup();
        Some(idents)
    }

    pub(crate) fn put(&self, txn: &mut dyn Txn) -> Result<()> {
        let doc = DocBuf::build(|w| {
            w.put("v", VERSION);
            w.put("version", self.version.cast_signed());
            w.put("since", self.since.cast_signed());
            w.array("recent", |w| {
                for (version, ident) in &self.recent {
                    w.push(version.cast_signed());
                    w.push(i64::from(ident.0));
                }
            });
        });
        txn.put(Space::Catalog, &key(CatalogKey::Changes), doc.as_bytes())
    }

    fn parse(stored: &[u8]) -> Result<Changes> {
        let doc = parsed(stored)?;
        let mut recent = Vec::new();
        let mut values = array(doc, "recent")?.iter();
        while let Some(version) = values.next() {
            recent.push((long(version)?, ident(values.next().unwrap_or(Value::Missing))?));
        }
        Ok(Changes { version: long(doc.get("version"))?, since: long(doc.get("since"))?, recent })
    }
}

/// Collections that are to be changed: all nodes keep their writers out of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Intent {
    pub(crate) id: u64,
    pub(crate) node: NodeId,
    pub(crate) idents: Vec<Ident>,
}

/// What is on the board.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Board {
    pub(crate) changes: Changes,
    pub(crate) lock: Option<NodeId>,
    pub(crate) intents: Vec<Intent>,
    /// The version of the documents that servers have in memory.
    pub(crate) settings: u64,
    /// How many questions were asked: `mail.rs`.
    pub(crate) questions: u64,
}

impl Board {
    /// Reads it, in one request.
    pub(crate) fn read(from: &(impl Read + ?Sized)) -> Result<Board> {
        let keys = [
            CatalogKey::Changes,
            CatalogKey::CatalogLock,
            CatalogKey::Intents,
            CatalogKey::Settings,
            CatalogKey::Questions,
        ]
        .map(key);
        let lent = keys.each_ref().map(<[u8; 5]>::as_slice);
        let mut found: [Option<Vec<u8>>; 5] = Default::default();
        from.get_many(Space::Catalog, &lent, &mut |at, value| {
            found[at] = value.map(<[u8]>::to_vec);
        })?;
        let [changes, lock, intents, settings, questions] = &found;
        Ok(Board {
            changes: changes.as_deref().map(Changes::parse).transpose()?.unwrap_or_default(),
            lock: lock.as_deref().map(|stored| node(parsed(stored)?)).transpose()?,
            intents: intents.as_deref().map(parse_intents).transpose()?.unwrap_or_default(),
            settings: settings.as_deref().map(parse_version).transpose()?.unwrap_or_default(),
            questions: questions.as_deref().map(parse_version).transpose()?.unwrap_or_default(),
        })
    }
}

/// Stages the next version of the documents that servers have in memory, and returns it. Of two commits at once that
/// change some, one is a conflict.
pub(crate) fn advance_settings(txn: &mut dyn Txn) -> Result<u64> {
    advance(txn, CatalogKey::Settings)
}

/// Stages the next version of this kind, and returns it.
pub(super) fn advance(txn: &mut dyn Txn, of: CatalogKey) -> Result<u64> {
    let key = key(of);
    let mut buf = Vec::new();
    let stored = txn.get(Space::Catalog, &key, &mut buf)?;
    let version = stored.map(parse_version).transpose()?.unwrap_or_default() + 1;
    let doc = doc! { "v": VERSION, "version": (version.cast_signed()) };
    txn.put(Space::Catalog, &key, doc.as_bytes())?;
    Ok(version)
}

fn parse_version(stored: &[u8]) -> Result<u64> {
    long(parsed(stored)?.get("version"))
}

pub(crate) fn put_lock(txn: &mut dyn Txn, node: NodeId) -> Result<()> {
    let doc = DocBuf::build(|w| {
        w.put("v", VERSION);
        w.put("node", Value::Binary(Binary { subtype: 4, bytes: &node }));
    });
    txn.put(Space::Catalog, &key(CatalogKey::CatalogLock), doc.as_bytes())
}

pub(crate) fn remove_lock(txn: &mut dyn Txn) -> Result<()> {
    txn.delete(Space::Catalog, &key(CatalogKey::CatalogLock))
}

pub(crate) fn put_intents(txn: &mut dyn Txn, intents: &[Intent]) -> Result<()> {
    let doc = DocBuf::build(|w| {
        w.put("v", VERSION);
        w.array("intents", |w| {
            for intent in intents {
                w.doc(|w| {
                    w.put("id", intent.id.cast_signed());
                    w.put("node", Value::Binary(Binary { subtype: 4, bytes: &intent.node }));
                    w.array("idents", |w| {
                        intent.idents.iter().for_each(|ident| w.push(i64::from(ident.0)));
                    });
                });
            }
        });
    });
    txn.put(Space::Catalog, &key(CatalogKey::Intents), doc.as_bytes())
}

/// Removes what a node that is gone has left on the board.
pub(super) fn remove_all_of(txn: &mut dyn Txn, node: NodeId) -> Result<()> {
    let board = Board::read(&*txn)?;
    if board.lock == Some(node) {
        remove_lock(txn)?;
    }
    if board.intents.iter().any(|intent| intent.node == node) {
        let kept: Vec<_> = board.intents.into_iter().filter(|i| i.node != node).collect();
        put_intents(txn, &kept)?;
    }
    Ok(())
}

fn key(kind: CatalogKey) -> [u8; 5] {
    Ident(0).catalog_key(kind)
}

fn parse_intents(stored: &[u8]) -> Result<Vec<Intent>> {
    let one = |value: Value<'_>| {
        let doc = value.as_doc().ok_or_else(damaged)?;
        let idents = array(doc, "idents")?.iter().map(ident).collect::<Result<_>>()?;
        Ok(Intent { id: long(doc.get("id"))?, node: node(doc)?, idents })
    };
    array(parsed(stored)?, "intents")?.iter().map(one).collect()
}

fn parsed(stored: &[u8]) -> Result<Doc<'_>> {
    let doc = Doc::parse_wrapped(stored).map_err(|_| damaged())?;
    match number::truncate_to_i64(doc.get("v")).ok_or_else(damaged)? {
        version if version == i64::from(VERSION) => Ok(doc),
        version => Err(Error::other(format!(
            "what nodes tell each other of the catalog has version {version}, this server reads version {VERSION}"
        ))),
    }
}

fn node(doc: Doc<'_>) -> Result<NodeId> {
    match doc.get("node") {
        Value::Binary(node) => { node.bytes }.try_into().map_err(|_| damaged()),
        _ => Err(damaged()),
    }
}

fn array<'d>(doc: Doc<'d>, name: &str) -> Result<Array<'d>> {
    doc.get(name).as_array().ok_or_else(damaged)
}

fn long(value: Value<'_>) -> Result<u64> {
    number::truncate_to_i64(value).map(i64::cast_unsigned).ok_or_else(damaged)
}

fn ident(value: Value<'_>) -> Result<Ident> {
    u32::try_from(long(value)?).map(Ident).map_err(|_| damaged())
}

#[cold]
fn damaged() -> Error {
    Error::Corrupt("what nodes tell each other of the catalog is damaged".into())
}

#[cfg(test)]
mod tests {
    use nagi_kv::{Durability, Engine, Memory, TxnOptions};

    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let memory = Memory::new();
        assert_eq!(Board::read(memory.latest()).expect("reads"), Board::default());
        let changes = Changes::default().next([Ident(7)]).next([Ident(3), Ident(9)]);
        let intent = |id, node| Intent { id, node: [node; 16], idents: vec![Ident(1), Ident(2)] };
        let intents = vec![intent(5, 1), intent(u64::MAX, 2)];
        let mut txn = memory.begin(TxnOptions::default()).expect("begins");
        changes.put(&mut *txn).expect("puts");
        put_lock(&mut *txn, [2; 16]).expect("puts");
        put_intents(&mut *txn, &intents).expect("puts");
        assert_eq!(advance_settings(&mut *txn).expect("puts"), 1);
        assert_eq!(advance_settings(&mut *txn).expect("puts"), 2);
        (1..=3).for_each(|n| {
            assert_eq!(advance(&mut *txn, CatalogKey::Questions).expect("puts"), n);
        });
        txn.commit(Durability::Buffered).expect("commits");
        let board = Board { changes, lock: Some([2; 16]), intents, settings: 2, questions: 3 };
        assert_eq!(Board::read(memory.latest()).expect("reads"), board);
        let mut txn = memory.begin(TxnOptions::default()).expect("begins");
        remove_all_of(&mut *txn, [2; 16]).expect("removes");
        txn.commit(Durability::Buffered).expect("commits");
        let board = Board { lock: None, intents: vec![intent(5, 1)], ..board };
        assert_eq!(Board::read(memory.latest()).expect("reads"), board);
        let mut txn = memory.begin(TxnOptions::default()).expect("begins");
        txn.put(Space::Catalog, &key(CatalogKey::Intents), b"\x05\0\0\0\0").expect("puts");
        txn.commit(Durability::Buffered).expect("commits");
        assert!(matches!(Board::read(memory.latest()), Err(Error::Corrupt(_))));
    }

    #[test]
    fn a_node_that_has_missed_too_much_reads_everything() {
        let mut changes = Changes::default();
        for number in 0..300 {
            changes = changes.next([Ident(number % 7), Ident(1000 + number)]);
        }
        assert_eq!(changes.version, 300);
        assert_eq!(changes.after(300), Some(vec![]));
        assert_eq!(changes.after(299), Some(vec![Ident(299 % 7), Ident(1299)]));
        assert_eq!(changes.after(300 - 128).map(|idents| idents.len()), Some(7 + 128));
        assert_eq!(changes.after(300 - 129), None);
        let all = changes.next((0..1000).map(Ident));
        assert_eq!((all.after(300), all.after(301)), (None, Some(vec![])));
    }
}
