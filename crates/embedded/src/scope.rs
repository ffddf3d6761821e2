//! What a handle adds to its commands: the session, the transaction, the write concern.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nagi_bson::{Binary, Doc, DocBuf, DocWriter, Value};

use crate::{Database, Error, Result};

/// The subtype of UUIDs in BSON.
const UUID: u8 = 4;

/// The session id of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionId(pub(crate) [u8; 16]);

impl SessionId {
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        out.doc("lsid", |out| self.write_id(out));
    }

    pub(crate) fn write_id(&self, out: &mut DocWriter<'_>) {
        out.put("id", Value::Binary(Binary { subtype: UUID, bytes: &self.0 }));
    }
}

/// A transaction of a session.
#[derive(Debug)]
pub(crate) struct TransactionId {
    pub(crate) session: SessionId,
    pub(crate) number: i64,
    /// A command has started it.
    pub(crate) started: AtomicBool,
}

/// Where the commands of a handle run.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) db: Database,
    pub(crate) session: Option<SessionId>,
    pub(crate) transaction: Option<Arc<TransactionId>>,
    /// Writes wait until they are on disk.
    pub(crate) journaled: bool,
}

impl Scope {
    pub(crate) fn plain(db: &Database) -> Scope {
        Scope { db: db.clone(), session: None, transaction: None, journaled: db.0.journaled }
    }

    /// Runs a command that only reads.
    pub(crate) fn read(&self, db: &str, body: impl FnOnce(&mut DocWriter<'_>)) -> Result<DocBuf> {
        let body = DocBuf::build(|out| {
            body(out);
            self.write_fields(out);
        });
        self.db.run(db, body.as_doc(), None)
    }

    /// Runs a command that writes; `options` are further fields of it.
    ///
    /// # Errors
    /// Also those of single writes, and of the write concern.
    pub(crate) fn write(
        &self,
        db: &str,
        options: Doc<'_>,
        documents: Option<(&str, &[u8])>,
        body: impl FnOnce(&mut DocWriter<'_>),
    ) -> Result<DocBuf> {
        let body = DocBuf::build(|out| {
            body(out);
            out.extend(options);
            let chosen = options.element("writeConcern").is_some();
            if self.journaled && self.transaction.is_none() && !chosen {
                write_journaled(out);
            }
            self.write_fields(out);
        });
        let reply = self.db.run(db, body.as_doc(), documents)?;
        match Error::of_writes(&reply) {
            Some(error) => Err(error),
            None => Ok(reply),
        }
    }

    /// Writes the fields of the session and the transaction.
    fn write_fields(&self, out: &mut DocWriter<'_>) {
        match (&self.transaction, &self.session) {
            (Some(transaction), _) => {
                transaction.session.write(out);
                out.put("txnNumber", transaction.number);
                out.put("autocommit", false);
                if !transaction.started.swap(true, Ordering::Relaxed) {
                    out.put("startTransaction", true);
                }
            }
            (None, Some(session)) => session.write(out),
            (None, None) => {}
        }
    }
}

/// Writes the write concern that waits for the disk.
pub(crate) fn write_journaled(out: &mut DocWriter<'_>) {
    out.doc("writeConcern", |out| {
        out.put("w", 1);
        out.put("j", true);
    });
}
