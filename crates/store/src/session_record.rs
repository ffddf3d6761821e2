//! Session records: the result of a retryable write or a transaction, stored so that a retry does not execute it
//! again.
//!
//!   Space::Records   SESSIONS (4) | session (16) | transaction number (8) | statement (4)
//!                    value: 00 | BSON document, defined by the server
//!
//! Invariant: a record is written in the same transaction as the write that it describes. Transaction numbers only
//! grow, so the records of a session's newest number are its last ones.

use nagi_bson::{Doc, DocBuf};
use nagi_error::Result;
use nagi_kv::Space;

use crate::{Store, WriteOptions, WriteTxn, engine_error::engine, ident::Ident, record};

/// The key of a session record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionKey {
    /// The UUID of the session.
    pub session: [u8; 16],
    /// `txnNumber`, not negative.
    pub number: i64,
    /// Id of the first statement it describes; -1 for a transaction as a whole.
    pub statement: i32,
}

/// A stored session record.
#[derive(Clone, Debug)]
pub struct SessionRecord {
    pub key: SessionKey,
    pub doc: DocBuf,
}

const KEY_BYTES: usize = 4 + 16 + 8 + 4;
/// Records deleted per transaction.
const CHUNK_RECORDS: usize = 1_000;

impl SessionKey {
    fn bytes(&self) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(&Ident::SESSIONS.bytes());
        key[4..20].copy_from_slice(&self.session);
        key[20..28].copy_from_slice(&self.number.to_be_bytes());
        key[28..].copy_from_slice(&(self.statement as u32).to_be_bytes());
        key
    }

    fn parse(key: &[u8]) -> Option<SessionKey> {
        let (session, rest) = key.get(4..)?.split_first_chunk::<16>()?;
        let (number, statement) = rest.split_first_chunk::<8>()?;
        Some(SessionKey {
            session: *session,
            number: i64::from_be_bytes(*number),
            statement: u32::from_be_bytes(*statement.first_chunk()?) as i32,
        })
    }
}

impl WriteTxn<'_> {
    /// Stores a session record in this transaction.
    pub fn put_session_record(&mut self, key: &SessionKey, doc: Doc<'_>) -> Result<()> {
        let mut value = Vec::with_capacity(doc.len() + 1);
        record::encode_plain(doc, &mut value);
        self.txn().put(Space::Records, &key.bytes(), &value).map_err(engine)
    }

    /// Deletes a session record in this transaction.
    pub fn delete_session_record(&mut self, key: &SessionKey) -> Result<()> {
        self.txn().delete(Space::Records, &key.bytes()).map_err(engine)
    }
}

impl Store {
    /// The records of a session in the order of number and statement, as of the last commit. Costs one seek and a
    /// step per record.
    pub fn session_records(&self, session: &[u8; 16]) -> Result<Vec<SessionRecord>> {
        let mut start = Ident::SESSIONS.bytes().to_vec();
        start.extend_from_slice(session);
        let mut end = start.clone();
        end.extend_from_slice(&[0xFF; 13]);
        let mut records = Vec::new();
        self.visit(&start, &end, &mut |key, doc| {
            records.push(SessionRecord { key, doc: doc.to_buf() });
        })?;
        Ok(records)
    }

    /// Deletes the records that `gone` selects by key and content. Returns their number. Reads all session records,
    /// so it is meant for a background job.
    pub fn delete_session_records(
        &self,
        gone: &mut dyn FnMut(&SessionKey, Doc<'_>) -> bool,
    ) -> Result<usize> {
        let ident = Ident::SESSIONS;
        let mut keys = Vec::new();
        self.visit(&ident.bytes(), &ident.end(), &mut |key, doc| {
            if gone(&key, doc) {
                keys.push(key);
            }
        })?;
        for chunk in keys.chunks(CHUNK_RECORDS) {
            self.write_value(WriteOptions::default(), &mut |txn| {
                chunk.iter().try_for_each(|key| txn.delete_session_record(key))
            })?;
        }
        Ok(keys.len())
    }

    fn visit(
        &self,
        start: &[u8],
        end: &[u8],
        visit: &mut dyn FnMut(SessionKey, Doc<'_>),
    ) -> Result<()> {
        let read = self.engine.latest();
        let mut cursor = read.cursor(Space::Records, start, end).map_err(engine)?;
        let mut found = cursor.seek(start).map_err(engine)?;
        while found {
            if let Some(key) = SessionKey::parse(cursor.key()) {
                visit(key, record::plain(cursor.value()));
            }
            found = cursor.next().map_err(engine)?;
        }
        Ok(())
    }
}
