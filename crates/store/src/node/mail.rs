//! Questions of one node to all others, and their answers: what only the process itself knows, such as the operations
//! that it runs.
//!
//!   Catalog   QUESTIONS                      {v: 1, version}        how many were asked; see `board.rs`
//!   Catalog   QUESTION | id (8)              {v: 1, node: UUID, asked: Timestamp, question: {..}}
//!   Catalog   ANSWER | id (8) | seat (2)     {v: 1, answer: {..}}
//!
//! Numbers are big-endian. The id of a question is the version that it was asked with. Whoever asked removes both when
//! it has read the answers; the steward removes what is left of nodes that are gone.

use nagi_bson::{Binary, Doc, DocBuf, Value, doc, number};
use nagi_kv::{Error, Read, Result, Space, Txn};

use super::{board, seat::NodeId};
use crate::ident::CatalogKey;

const VERSION: i32 = 1;

/// A question that was not removed yet.
pub(crate) struct Question {
    pub(crate) id: u64,
    /// Who asks.
    pub(crate) node: NodeId,
    /// When: a stamp of the engine's clock.
    pub(crate) asked: u64,
    pub(crate) question: DocBuf,
}

/// Stages a question, and returns its id. Of two at once, one is a conflict.
pub(crate) fn ask(txn: &mut dyn Txn, node: NodeId, asked: u64, question: Doc<'_>) -> Result<u64> {
    let id = board::advance(txn, CatalogKey::Questions)?;
    let doc = DocBuf::build(|w| {
        w.put("v", VERSION);
        w.put("node", Value::Binary(Binary { subtype: 4, bytes: &node }));
        w.put("asked", Value::Timestamp(asked));
        w.put("question", question);
    });
    txn.put(Space::Catalog, &question_key(id), doc.as_bytes())?;
    Ok(id)
}

/// All questions, in the order in which they were asked. A scan.
pub(crate) fn questions(read: &(impl Read + ?Sized)) -> Result<Vec<Question>> {
    let mut all = Vec::new();
    each(read, &[CatalogKey::Question as u8], &mut |key, doc| {
        let id = key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes)).ok_or_else(damaged)?;
        let (Value::Binary(node), Value::Timestamp(asked), Value::Doc(question)) =
            (doc.get("node"), doc.get("asked"), doc.get("question"))
        else {
            return Err(damaged());
        };
        let node = { node.bytes }.try_into().map_err(|_| damaged())?;
        all.push(Question { id, node, asked, question: question.to_buf() });
        Ok(())
    })?;
    Ok(all)
}

/// Stages the answer of the node with this seat. Returns false if the question was removed meanwhile.
pub(crate) fn answer(txn: &mut dyn Txn, id: u64, seat: u16, answer: Doc<'_>) -> Result<bool> {
    let key = question_key(id);
    // Whoever removes the question conflicts with this.
    txn.lock(Space::Catalog, &key)?;
    if txn.get(Space::Catalog, &key, &mut Vec::new())?.is_none() {
        return Ok(false);
    }
    let doc = doc! { "v": VERSION, "answer": answer };
    txn.put(Space::Catalog, &[&answers_of(id)[..], &seat.to_be_bytes()].concat(), doc.as_bytes())?;
    Ok(true)
}

/// The seats that have answered, and what. A scan.
pub(crate) fn answers(read: &(impl Read + ?Sized), id: u64) -> Result<Vec<(u16, DocBuf)>> {
    let mut all = Vec::new();
    each(read, &answers_of(id), &mut |key, doc| {
        let seat = key.last_chunk().map(|bytes| u16::from_be_bytes(*bytes)).ok_or_else(damaged)?;
        all.push((seat, doc.get("answer").as_doc().ok_or_else(damaged)?.to_buf()));
        Ok(())
    })?;
    Ok(all)
}

/// Stages the removal of a question and its answers.
pub(crate) fn remove(txn: &mut dyn Txn, id: u64) -> Result<()> {
    let mut keys = vec![question_key(id).to_vec()];
    each(&*txn, &answers_of(id), &mut |key, _| {
        keys.push(key.to_vec());
        Ok(())
    })?;
    keys.iter().try_for_each(|key| txn.delete(Space::Catalog, key))
}

fn question_key(id: u64) -> [u8; 9] {
    key(CatalogKey::Question, id)
}

fn answers_of(id: u64) -> [u8; 9] {
    key(CatalogKey::Answer, id)
}

fn key(kind: CatalogKey, id: u64) -> [u8; 9] {
    let mut key = [kind as u8; 9];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

fn each(
    read: &(impl Read + ?Sized),
    prefix: &[u8],
    visit: &mut dyn FnMut(&[u8], Doc<'_>) -> Result<()>,
) -> Result<()> {
    let end = match prefix {
        [kind] => vec![kind + 1],
        _ => [prefix, &[0xFF; 3]].concat(),
    };
    let mut cursor = read.cursor(Space::Catalog, prefix, &end)?;
    let mut found = cursor.seek(prefix)?;
    while found {
        let doc = Doc::parse_wrapped(cursor.value()).map_err(|_| damaged())?;
        match number::truncate_to_i64(doc.get("v")).ok_or_else(damaged)? {
            version if version == i64::from(VERSION) => visit(cursor.key(), doc)?,
            version => {
                return Err(Error::other(format!(
                    "a question of a node has version {version}, this server reads version {VERSION}"
                )));
            }
        }
        found = cursor.next()?;
    }
    Ok(())
}

#[cold]
fn damaged() -> Error {
    Error::Corrupt("a question of a node, or its answer, is damaged".into())
}

#[cfg(test)]
mod tests {
    use nagi_kv::{Durability, Engine, Minimal, TxnOptions};

    use super::*;

    fn write<T>(memory: &Minimal, f: impl FnOnce(&mut dyn Txn) -> Result<T>) -> Result<T> {
        let mut txn = memory.begin(TxnOptions::default())?;
        let value = f(&mut *txn)?;
        txn.commit(Durability::Synced)?;
        Ok(value)
    }

    #[test]
    fn questions_and_answers_are_read_as_they_were_written_and_removed() -> Result<()> {
        let memory = Minimal::new();
        let ids = [1_u8, 2].map(|node| {
            let question = doc! { "from": i32::from(node) };
            write(&memory, |txn| ask(txn, [node; 16], 7 << 32, question.as_doc())).expect("asked")
        });
        assert_eq!(ids, [1, 2]);
        for seat in [0, 127] {
            let doc = doc! { "seat": i32::from(seat) };
            assert!(write(&memory, |txn| answer(txn, 2, seat, doc.as_doc()))?);
        }
        let found = questions(&*memory.snapshot()?)?;
        let shown: Vec<_> = found.iter().map(|q| (q.id, q.node[0], q.asked)).collect();
        assert_eq!(shown, [(1, 1, 7 << 32), (2, 2, 7 << 32)]);
        assert_eq!(found[1].question, doc! { "from": 2 });
        assert_eq!(answers(&*memory.snapshot()?, 1)?, []);
        let of_second = answers(&*memory.snapshot()?, 2)?;
        assert_eq!(of_second, [(0, doc! { "seat": 0 }), (127, doc! { "seat": 127 })]);
        write(&memory, |txn| remove(txn, 2))?;
        assert_eq!(answers(&*memory.snapshot()?, 2)?, []);
        assert_eq!(questions(&*memory.snapshot()?)?.len(), 1);
        assert!(!write(&memory, |txn| answer(txn, 2, 1, Doc::EMPTY))?, "it is gone");
        Ok(())
    }

    #[test]
    fn an_answer_beside_the_removal_of_its_question_is_a_conflict() -> Result<()> {
        let memory = Minimal::new();
        let id = write(&memory, |txn| ask(txn, [1; 16], 1, Doc::EMPTY))?;
        let mut late = memory.begin(TxnOptions::default())?;
        assert!(answer(&mut *late, id, 3, Doc::EMPTY)?);
        write(&memory, |txn| remove(txn, id))?;
        assert!(matches!(late.commit(Durability::Synced), Err(Error::Conflict)));
        Ok(())
    }

    #[test]
    fn entries_of_another_version_and_damaged_ones_are_refused() {
        for (stored, text) in [
            (doc! { "v": 2 }.as_bytes(), "has version 2, this server reads version 1"),
            (doc! { "v": 1 }.as_bytes(), "damaged"),
            (&b"\x05\0\0\0\0"[..], "damaged"),
        ] {
            let memory = Minimal::new();
            write(&memory, |txn| txn.put(Space::Catalog, &question_key(1), stored)).expect("put");
            let error = questions(&*memory.snapshot().expect("a snapshot")).err().expect("refused");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
