//! `compactStructuredEncryptionData` and `cleanupStructuredEncryptionData`: shorten the state collections.
//!
//! ```text
//!   ECOC   a document for each stored block: the token of its value, encrypted
//!          -> decrypted with the tokens of the command; each different token is compacted:
//!   ESC    positions 1 .. 90                    -> anchor 1 (n = 90)       then the positions are deleted
//!          anchors 1 .. 4 (the last: n = 120)   -> null anchor (a = 4, n = 120); the anchors are deleted (cleanup)
//!          -> then the documents of ECOC are deleted
//! ```
//!
//! Each step is a transaction after which the state of every value is right, so writers and queries need not wait, and
//! the work can stop after any step: the documents of ECOC that are left are processed by the next command. Positions
//! are deleted in ascending order after their anchor was committed; if the last of them is missing, all are.
//!
//! MongoDB renames ECOC before it reads it. Here it is processed in batches, each from a snapshot of its own, until as
//! many documents were read as it had in the beginning. Documents that cannot be decrypted stay in it. A collection
//! `<ecoc>.compact`, which a compaction of MongoDB has left in restored data, is processed in the same way.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use nagi_bson::{Binary, DocBuf, Value};
use nagi_error::{Code, Result, bail, err};
use nagi_lang::encrypted::{EscTokens, Token, anchor_id, derive, open_token, seal_numbers};
use nagi_lang::filter::EncryptedBelow;
use nagi_store::{
    Collection, Durability, EditKind, Namespace, RecordBuf, RecordId, RecordKey, Store,
    WriteOptions, WriteTxn,
};
use parking_lot::{Condvar, Mutex};

use super::{
    information::Target,
    state::{Esc, Positions, id_value},
};
use crate::source::Env;

/// Documents of ECOC that are processed before they are deleted.
const BATCH_RECORDS: usize = 1000;
/// Documents that one transaction deletes.
const CHUNK_RECORDS: u64 = 500;
/// Tokens that are remembered, so that they are compacted once: 32 bytes each.
const TOKENS_REMEMBERED: usize = 100_000;

/// A field and its key of the encrypted tokens in ECOC.
#[derive(Debug, Clone)]
pub struct FieldTokens {
    pub path: String,
    pub ecoc: Token,
}

/// Runs a transaction.
pub type RunTransaction<'a> = dyn Fn(&mut dyn FnMut() -> Result<()>) -> Result<()> + 'a;

/// What to do.
pub struct Compaction<'a> {
    pub namespace: &'a Namespace,
    pub tokens: Vec<FieldTokens>,
    /// Replaces anchors too.
    pub cleanup: bool,
    pub random: fn() -> Result<[u8; 16]>,
    /// Runs a transaction, while writes are allowed. A compaction takes long, and must not hold up a lock for writes.
    pub write: &'a RunTransaction<'a>,
}

/// How many documents were read and changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    pub ecoc_read: u64,
    pub ecoc_deleted: u64,
    pub esc_read: u64,
    pub esc_inserted: u64,
    pub esc_updated: u64,
    pub esc_deleted: u64,
}

/// Collections that are being compacted, by their state collection.
static BUSY: Mutex<Vec<Namespace>> = Mutex::new(Vec::new());
static FREED: Condvar = Condvar::new();

/// The right to compact a collection.
struct Turn(Namespace);

impl Turn {
    /// Waits until no other command compacts the collection.
    fn take(esc: &Namespace, env: &Env<'_>) -> Result<Turn> {
        let mut busy = BUSY.lock();
        while busy.contains(esc) {
            env.interrupt().check()?;
            FREED.wait_for(&mut busy, std::time::Duration::from_millis(50));
        }
        busy.push(esc.clone());
        Ok(Turn(esc.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        BUSY.lock().retain(|other| *other != self.0);
        FREED.notify_all();
    }
}

/// Compacts the state collections of a collection.
///
/// # Errors
/// 26 if it does not exist, or has documents but no ESC; 6346807 if it has no encrypted fields; 6371210 for malformed
/// documents in ESC, 6346806 for a field without a token; the errors of the interrupt. What was done before an error
/// stays done.
pub fn compact(store: &Store, of: &Compaction<'_>, env: &Env<'_>) -> Result<Compacted> {
    let Some(collection) = store.collection(of.namespace) else {
        bail!(Code::NAMESPACE_NOT_FOUND, "Collection {} does not exist", of.namespace);
    };
    let Some(target) = Target::of(collection)? else {
        bail!(Code::Location(6_346_807), "Target namespace is not an encrypted collection");
    };
    let _turn = Turn::take(&target.esc, env)?;
    let mut done = Compacted::default();
    let Some(esc) = store.collection(&target.esc) else {
        return match target.has_documents(store.snapshot()?.reader())? {
            true => Err(target.without_esc()),
            false => Ok(done),
        };
    };
    let fields = target.collection.options.encrypted_fields.as_ref();
    let fields = fields.map(|fields| fields.top());
    let name = format!("{}.compact", target.ecoc.collection());
    let name = Namespace::new(of.namespace.database(), &name)?;
    let left = store.collection(&name);
    for ecoc in left.iter().chain(&store.collection(&target.ecoc)) {
        Pass { store, env, of, esc: &esc, ecoc, fields, done: &mut done }.run()?;
    }
    let left = left.map(|left| store.counts(&left)).transpose()?;
    if left.is_some_and(|(count, _)| count == 0) {
        (of.write)(&mut || store.drop_collection(&name).map(drop))?;
    }
    Ok(done)
}

/// An anchor.
fn document(id: &Token, value: &[u8; 32]) -> DocBuf {
    DocBuf::build(|out| {
        out.put("_id", id_value(id));
        out.put("value", Value::Binary(Binary { subtype: 0, bytes: value }));
    })
}

struct Pass<'p> {
    store: &'p Store,
    env: &'p Env<'p>,
    of: &'p Compaction<'p>,
    esc: &'p Arc<Collection>,
    ecoc: &'p Arc<Collection>,
    fields: Option<EncryptedBelow<'p>>,
    done: &'p mut Compacted,
}

/// Documents of ECOC.
struct Batch {
    read: usize,
    /// Those that are well-formed, and their tokens.
    ids: Vec<RecordId>,
    tokens: Vec<Token>,
}

impl Pass<'_> {
    fn run(&mut self) -> Result<()> {
        let mut seen = HashSet::<Token, RandomState>::default();
        let mut left = usize::try_from(self.store.counts(self.ecoc)?.0).unwrap_or(0);
        let (mut last, mut malformed) = (None, 0_u64);
        while left > 0 {
            let batch = self.read(&mut last, left.min(BATCH_RECORDS))?;
            if batch.read == 0 {
                break;
            }
            left -= batch.read;
            malformed += (batch.read - batch.ids.len()) as u64;
            for token in batch.tokens {
                if seen.insert(token) {
                    self.compact(&EscTokens::of(&token))?;
                }
            }
            for chunk in batch.ids.chunks(CHUNK_RECORDS as usize) {
                self.done.ecoc_deleted += self.delete_from_ecoc(chunk)?;
            }
            if seen.len() > TOKENS_REMEMBERED {
                seen.clear();
            }
        }
        if malformed > 0 {
            let namespace = self.ecoc.namespace.as_str();
            log::warn!(target: "QUERY", id = 7_702_093, namespace = namespace, count = malformed;
                "A compaction has left malformed documents in a state collection");
        }
        Ok(())
    }

    /// Reads at most `count` documents of ECOC after the one at `last`, which is moved.
    fn read(&mut self, last: &mut Option<RecordId>, count: usize) -> Result<Batch> {
        let snapshot = self.store.snapshot()?;
        let mut cursor = snapshot.reader().scan(self.ecoc, true)?;
        if let Some(last) = &*last {
            cursor.resume_after(last.key());
        }
        let mut batch = Batch { read: 0, ids: Vec::new(), tokens: Vec::new() };
        while batch.read < count {
            self.env.interrupt().check()?;
            if !cursor.advance()? {
                break;
            }
            batch.read += 1;
            self.done.ecoc_read += 1;
            let id = cursor.id().to_id();
            *last = Some(id.clone());
            if let Some(token) = self.token(cursor.doc())? {
                batch.ids.push(id);
                batch.tokens.push(token);
            }
        }
        Ok(batch)
    }

    /// The token in a document of ECOC; none if it is malformed or of no encrypted field of the collection. Anybody
    /// who may write to ECOC can add such documents; they must not stop the compaction.
    fn token(&self, doc: nagi_bson::Doc<'_>) -> Result<Option<Token>> {
        let (Value::String(path), Value::Binary(sealed)) = (doc.get("fieldName"), doc.get("value"))
        else {
            return Ok(None);
        };
        if !self.fields.is_some_and(|fields| fields.has_field(path)) {
            return Ok(None);
        }
        let Some(field) = self.of.tokens.iter().find(|field| field.path == path) else {
            bail!(Code::Location(6_346_806), "There is no compaction token for the field '{path}'");
        };
        Ok(open_token(&field.ecoc, sealed.bytes))
    }

    fn compact(&mut self, tokens: &EscTokens) -> Result<()> {
        // An earlier command may have stopped after it had added an anchor.
        let (state, reads) = {
            let snapshot = self.store.snapshot()?;
            let mut esc = Esc::new(snapshot.reader(), self.esc);
            (esc.positions(tokens, &|| self.env.interrupt().check())?, esc.reads)
        };
        self.done.esc_read += reads;
        self.delete_positions(tokens, state)?;
        let state = self.add_anchor(tokens)?;
        self.delete_positions(tokens, state)?;
        while self.of.cleanup && self.move_null_anchor(tokens)? {}
        Ok(())
    }

    /// Adds an anchor for the positions after the last anchor, if there are any. Returns the state after that.
    fn add_anchor(&mut self, tokens: &EscTokens) -> Result<Positions> {
        let (state, reads, added) = self.write(&mut |pass, txn| {
            let (state, reads) = pass.state(txn, tokens)?;
            if state.last == state.anchored {
                return Ok((state, reads, false));
            }
            let anchor = state.anchor + 1;
            let id = anchor_id(&tokens.tag, anchor);
            pass.insert(txn, &id, &pass.sealed(tokens, [0, state.last])?)?;
            Ok((Positions { anchor, anchored: state.last, ..state }, reads, true))
        })?;
        self.done.esc_read += reads;
        self.done.esc_inserted += u64::from(added);
        Ok(state)
    }

    /// Deletes the positions for which the last anchor stands, in ascending order. Nothing was left by an earlier
    /// command if the last of them is missing.
    fn delete_positions(&mut self, tokens: &EscTokens, state: Positions) -> Result<()> {
        let id = |position: u64| derive(&tokens.tag, position);
        let has = |position: u64| -> Result<bool> {
            let snapshot = self.store.snapshot()?;
            Esc::new(snapshot.reader(), self.esc).has(&id(position))
        };
        if state.anchored == 0 || !has(state.anchored)? {
            return Ok(());
        }
        let before = match state.anchor - state.null_anchor {
            // Only a null anchor: what it stands for was deleted before.
            0 => return Ok(()),
            1 if !state.has_null => 0,
            _ => self.count_before(tokens, state)?,
        };
        let mut next = before + 1;
        while next <= state.anchored {
            self.env.interrupt().check()?;
            let end = next.saturating_add(CHUNK_RECORDS - 1).min(state.anchored);
            let deleted = self.write(&mut |pass, txn| {
                let mut deleted = 0;
                for position in next..=end {
                    deleted += u64::from(pass.delete(txn, &id(position))?);
                }
                Ok(deleted)
            })?;
            self.done.esc_deleted += deleted;
            next = end + 1;
        }
        Ok(())
    }

    /// The position up to which the anchor before the last one stands for positions.
    fn count_before(&self, tokens: &EscTokens, state: Positions) -> Result<u64> {
        let snapshot = self.store.snapshot()?;
        let mut esc = Esc::new(snapshot.reader(), self.esc);
        match state.anchor - 1 == state.null_anchor {
            true => esc.null_count(tokens),
            false => esc.count_of(tokens, state.anchor - 1),
        }
    }

    /// Lets the null anchor stand for the next anchors. Returns true if more are left.
    fn move_null_anchor(&mut self, tokens: &EscTokens) -> Result<bool> {
        self.env.interrupt().check()?;
        let (reads, moved, had_null, left) = self.write(&mut |pass, txn| {
            let (state, mut reads) = pass.state(txn, tokens)?;
            let to = state.anchor.min(state.null_anchor.saturating_add(CHUNK_RECORDS));
            if to == state.null_anchor {
                return Ok((reads, 0, state.has_null, false));
            }
            let count = Esc::new(txn.reader(), pass.esc).count_of(tokens, to)?;
            reads += 1;
            let id = anchor_id(&tokens.tag, 0);
            let value = pass.sealed(tokens, [to, count])?;
            match pass.find(txn, &id)?.filter(|_| state.has_null) {
                Some((record, old)) => {
                    let new = document(&id, &value);
                    txn.update_by(
                        EditKind::Replacement,
                        pass.esc,
                        record.key(),
                        old.as_doc(),
                        new.as_doc(),
                    )?;
                }
                None => pass.insert(txn, &id, &value)?,
            }
            for anchor in state.null_anchor + 1..=to {
                pass.delete(txn, &anchor_id(&tokens.tag, anchor))?;
            }
            Ok((reads, to - state.null_anchor, state.has_null, to < state.anchor))
        })?;
        self.done.esc_read += reads;
        if moved > 0 {
            self.done.esc_deleted += moved;
            self.done.esc_updated += u64::from(had_null);
            self.done.esc_inserted += u64::from(!had_null);
        }
        Ok(left)
    }

    fn state(&self, txn: &WriteTxn<'_>, tokens: &EscTokens) -> Result<(Positions, u64)> {
        let mut esc = Esc::new(txn.reader(), self.esc);
        let state = esc.positions(tokens, &|| self.env.interrupt().check())?;
        Ok((state, esc.reads))
    }

    fn sealed(&self, tokens: &EscTokens, numbers: [u64; 2]) -> Result<[u8; 32]> {
        Ok(seal_numbers(&tokens.value, (self.of.random)()?, numbers))
    }

    fn insert(&self, txn: &mut WriteTxn<'_>, id: &Token, value: &[u8; 32]) -> Result<()> {
        txn.insert(self.esc, document(id, value).as_doc()).map(drop)
    }

    fn find(&self, txn: &WriteTxn<'_>, id: &Token) -> Result<Option<(RecordId, DocBuf)>> {
        let mut buf = RecordBuf::default();
        let found = txn.reader().record_by_id(self.esc, id_value(id), &mut buf)?;
        Ok(found.map(|(record, doc)| (record, doc.to_buf())))
    }

    /// Deletes a document of ESC; returns false if it does not exist.
    fn delete(&self, txn: &mut WriteTxn<'_>, id: &Token) -> Result<bool> {
        let Some((record, doc)) = self.find(txn, id)? else { return Ok(false) };
        txn.delete(self.esc, record.key(), doc.as_doc())?;
        Ok(true)
    }

    fn delete_from_ecoc(&self, ids: &[RecordId]) -> Result<u64> {
        self.write(&mut |pass, txn| {
            let mut deleted = 0;
            for id in ids {
                let mut buf = RecordBuf::default();
                let key: RecordKey<'_> = id.key();
                let found = txn.reader().record(pass.ecoc, key, &mut buf)?.map(|doc| doc.to_buf());
                if let Some(doc) = found {
                    txn.delete(pass.ecoc, key, doc.as_doc())?;
                    deleted += 1;
                }
            }
            Ok(deleted)
        })
    }

    /// Runs a transaction, and repeats it after conflicts.
    fn write<T>(&self, f: &mut dyn FnMut(&Self, &mut WriteTxn<'_>) -> Result<T>) -> Result<T> {
        let check = || self.env.interrupt().check();
        let options = WriteOptions {
            durability: Durability::Buffered,
            interrupt: Some(&check),
            bypass_validation: true,
            keep_empty_timestamps: false,
        };
        let mut value = None;
        (self.of.write)(&mut || {
            value = Some(self.store.write(options, &mut |txn| f(self, txn))?.value);
            Ok(())
        })?;
        value.ok_or_else(|| err!(Code::INTERNAL_ERROR, "a transaction was not run"))
    }
}
