//! Session records: the result of a retryable write or a transaction, stored so that a retry does not execute it
//! again.
//!
//!   Space::Records   SESSIONS (4) | session (16) | transaction number (8) | statement (4) | user (32)
//!                    value: 00 | BSON document, defined by the server
//!
//! Keys of earlier versions end before `user`: sessions were known by their UUID alone. Such a record belongs to every
//! user's session with its UUID, so that a retry is recognized after an upgrade too. An earlier version in turn reads
//! the new keys, because it ignores the rest of a key.
//!
//! A server that shares the store with others adds a record with the session's newest number, behind all others.
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
    /// The digest of its user, as in `lsid.uid`; `None` in a record of an earlier version.
    pub user: Option<[u8; 32]>,
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

/// A key up to the user.
const HEAD_BYTES: usize = 4 + 16 + 8 + 4;
const KEY_BYTES: usize = HEAD_BYTES + 32;
/// Records deleted per transaction.
const CHUNK_RECORDS: usize = 1_000;

impl SessionKey {
    /// The key's bytes, and how many of them are used.
    fn bytes(&self) -> ([u8; KEY_BYTES], usize) {
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(&Ident::SESSIONS.bytes());
        key[4..20].copy_from_slice(&self.session);
        key[20..28].copy_from_slice(&self.number.to_be_bytes());
        key[28..HEAD_BYTES].copy_from_slice(&(self.statement as u32).to_be_bytes());
        let Some(user) = &self.user else { return (key, HEAD_BYTES) };
        key[HEAD_BYTES..].copy_from_slice(user);
        (key, KEY_BYTES)
    }

    fn parse(key: &[u8]) -> Option<SessionKey> {
        let (session, rest) = key.get(4..)?.split_first_chunk::<16>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (statement, user) = rest.split_first_chunk::<4>()?;
        Some(SessionKey {
            session: *session,
            user: user.try_into().ok(),
            number: i64::from_be_bytes(*number),
            statement: u32::from_be_bytes(*statement) as i32,
        })
    }
}

impl WriteTxn<'_> {
    /// Stores a session record in this transaction.
    pub fn put_session_record(&mut self, key: &SessionKey, doc: Doc<'_>) -> Result<()> {
        let mut value = Vec::with_capacity(doc.len() + 1);
        record::encode_plain(doc, &mut value);
        let (key, len) = key.bytes();
        self.txn().put(Space::Records, &key[..len], &value).map_err(engine)
    }

    /// Announces keys whose records are about to be read or written: where each read is a round trip, one reads all.
    pub fn fetch_session_records(&mut self, keys: &[SessionKey]) -> Result<()> {
        let keys: Vec<_> = keys.iter().map(SessionKey::bytes).collect();
        let lent: Vec<&[u8]> = keys.iter().map(|(key, len)| &key[..*len]).collect();
        self.txn().fetch(Space::Records, &lent).map_err(engine)
    }

    /// The document of a session record, as this transaction sees it. A commit that writes the same record meanwhile is
    /// a conflict if this transaction writes it, too.
    pub fn session_record(&mut self, key: &SessionKey) -> Result<Option<DocBuf>> {
        let (key, len) = key.bytes();
        let mut buf = Vec::new();
        let found = self.txn().get(Space::Records, &key[..len], &mut buf).map_err(engine)?;
        Ok(found.map(|value| record::plain(value).to_buf()))
    }

    /// Deletes a session record in this transaction.
    pub fn delete_session_record(&mut self, key: &SessionKey) -> Result<()> {
        let (key, len) = key.bytes();
        self.txn().delete(Space::Records, &key[..len]).map_err(engine)
    }
}

impl Store {
    /// The records of a user's session in the order of number and statement, as of the last commit; records of earlier
    /// versions are everyone's. Costs one seek and a step per record of the UUID.
    pub fn session_records(
        &self,
        session: &[u8; 16],
        user: &[u8; 32],
    ) -> Result<Vec<SessionRecord>> {
        let mut start = Ident::SESSIONS.bytes().to_vec();
        start.extend_from_slice(session);
        let mut end = start.clone();
        end.extend_from_slice(&[0xFF; 13]);
        let mut records = Vec::new();
        self.visit(&start, &end, &mut |key, doc| {
            if key.user.is_none_or(|owner| owner == *user) {
                records.push(SessionRecord { key, doc: doc.to_buf() });
            }
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
