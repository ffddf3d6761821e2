//! The open database, and running commands on it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nagi_bson::{Doc, DocBuf, Value, oid};
use nagi_error::Code;
use nagi_server::{Connection, Peer, Server};
use parking_lot::{Condvar, Mutex};

use crate::document::parse;
use crate::open::Opened;
use crate::{Document, Error, ErrorKind, Options, Result};

/// The limit of a command with its documents, that of a message to a server.
const COMMAND_BYTES_MAX: usize = nagi_server::MESSAGE_BYTES_MAX;
/// Connections that are kept for the next command.
const IDLE_MAX: usize = 64;
/// The stack that a command may need, as that of a server's connection. A thread with less left gets another segment.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 8 << 20 } else { 1 << 20 };

/// An open database: a folder, or memory.
///
/// It is a handle: clones are the same database, threads may share it and run commands in parallel, and each command
/// runs on the thread that calls. It is closed by [`Database::close`], or when the last handle, cursor and session is
/// dropped.
///
/// ```
/// use nagi::{Database, doc};
/// let db = Database::in_memory()?;
/// let orders = db.database("shop").collection("orders");
/// orders.insert_one(doc! { "_id": 1, "item": "tea", "n": 2 })?;
/// let found = orders.find_one(doc! { "item": "tea" })?.expect("was inserted");
/// assert_eq!(found.get("n"), nagi::Value::Int32(2));
/// db.close()?;
/// # Ok::<(), nagi::Error>(())
/// ```
#[derive(Clone)]
pub struct Database(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    state: Mutex<State>,
    changed: Condvar,
    pub(crate) oids: oid::Generator,
    pub(crate) journaled: bool,
    /// The process that opened it. Memory, files and locks are shared with a forked child; the threads are not there.
    process: u32,
}

struct State {
    /// `None` once the database is closing or closed.
    opened: Option<Opened>,
    idle: Vec<Connection>,
    /// Commands that run.
    running: usize,
    /// Everything has ended.
    closed: bool,
}

impl Database {
    /// Opens a folder, and creates it if it does not exist.
    ///
    /// The folder has the format of a server's data directory: a server may open it later and the other way round.
    /// It is locked meanwhile. After a crash the log is replayed, which takes up to some seconds.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("nagi-doc-open-{}", std::process::id()));
    /// use nagi::{Database, ErrorKind, Options};
    /// let db = Database::open(&folder, Options::new())?;
    /// let second = Database::open(&folder, Options::new());
    /// assert_eq!(second.unwrap_err().kind(), ErrorKind::InUse);
    /// db.close()?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::InUse`]: this process or another one, perhaps a server, has it open.
    /// - [`ErrorKind::Options`]: an option is not valid or does not fit the data.
    /// - [`ErrorKind::Io`]: it cannot be read or written, the disk is full, or the folder belongs to another program or
    ///   a newer version.
    /// - [`ErrorKind::Corrupt`]: its data is damaged.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let opened = Opened::folder(path.as_ref(), &options)?;
        Ok(Database::of(opened, &options))
    }

    /// An empty database in memory, which is gone when it is closed.
    ///
    /// # Errors
    /// If a thread cannot be started or the system has no randomness.
    pub fn in_memory() -> Result<Database> {
        Database::in_memory_with(Options::new())
    }

    /// As [`Database::in_memory`], with options; those that concern files have no effect.
    ///
    /// ```
    /// let db = nagi::Database::in_memory_with(nagi::Options::new().replica_set("rs0"))?;
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Options`] if an option is not valid.
    pub fn in_memory_with(options: Options) -> Result<Database> {
        let opened = Opened::in_memory(&options)?;
        Ok(Database::of(opened, &options))
    }

    fn of(opened: Opened, options: &Options) -> Database {
        let mut random = [0; 9];
        // Without randomness, ids of this process are still unique among themselves.
        let _ = getrandom::fill(&mut random);
        let [a, b, c, d, e, start @ ..] = random;
        Database(Arc::new(Inner {
            state: Mutex::new(State {
                opened: Some(opened),
                idle: Vec::new(),
                running: 0,
                closed: false,
            }),
            changed: Condvar::new(),
            oids: oid::Generator::new([a, b, c, d, e], u32::from_le_bytes(start)),
            journaled: options.journaled,
            process: std::process::id(),
        }))
    }

    /// Runs any command of [MongoDB's reference](https://www.mongodb.com/docs/manual/reference/command/) on the
    /// database `db` and returns its reply.
    ///
    /// ```
    /// # let database = nagi::Database::in_memory()?;
    /// use nagi::{Value, doc};
    /// database.run_command("shop", doc! { "insert": "c", "documents": [{ "_id": 1 }] })?;
    /// let reply = database.run_command("shop", doc! { "count": "c" })?;
    /// assert_eq!(reply.get("n"), Value::Int32(1));
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::Command`] if the reply has `ok: 0`. Writes that failed one by one are in a reply with `ok: 1`, as
    ///   with a server: [`crate::Collection`] makes errors of them.
    /// - [`ErrorKind::Document`] if the command is no valid document or larger than 48 MB.
    /// - [`ErrorKind::Closed`] if the database is closed, or was opened before this process was forked.
    pub fn run_command(&self, db: &str, command: impl Document) -> Result<DocBuf> {
        let parsed = command.document()?;
        self.run(db, parsed.as_doc(), None)
    }

    /// The names of the databases with collections, sorted, with those that belong to
    /// the server (`admin`, `config`, `local`).
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// db.database("shop").collection("orders").insert_one(nagi::doc! {})?;
    /// assert!(db.database_names()?.contains(&"shop".to_owned()));
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    pub fn database_names(&self) -> Result<Vec<String>> {
        let reply =
            self.run_command("admin", nagi_bson::doc! { "listDatabases": 1, "nameOnly": true })?;
        let Value::Array(all) = reply.get("databases") else { return Ok(Vec::new()) };
        let name = |entry: Value<'_>| entry.as_doc()?.get("name").as_str().map(str::to_owned);
        Ok(all.iter().filter_map(name).collect())
    }

    /// Interrupts running commands, waits for them, writes everything to disk and releases the folder. Other handles,
    /// cursors and sessions then fail with [`ErrorKind::Closed`]. Closing a closed database does nothing. Dropping the
    /// last handle does the same, but cannot report an error.
    ///
    /// # Errors
    /// If the data cannot be written; the next open replays the log then.
    pub fn close(&self) -> Result<()> {
        self.0.close()
    }

    /// Runs a command, which was validated, and returns its reply.
    pub(crate) fn run(
        &self,
        db: &str,
        body: Doc<'_>,
        documents: Option<(&str, &[u8])>,
    ) -> Result<DocBuf> {
        let bytes = body.len() + documents.map_or(0, |(_, bytes)| bytes.len());
        if bytes > COMMAND_BYTES_MAX {
            return Err(Error::document(format!(
                "a command of {bytes} bytes is larger than the limit of {COMMAND_BYTES_MAX}"
            )));
        }
        // What was built around documents may be nested deeper than each of them.
        let body = parse(body.as_bytes())?;
        let mut out = Vec::new();
        let mut held = self.0.take()?;
        // Panics of commands are caught where they run; this one is for the code around them.
        let ran = catch_unwind(AssertUnwindSafe(|| {
            stacker::maybe_grow(STACK_BYTES * 3 / 4, STACK_BYTES, || {
                held.run(db, body, documents, &mut out)
            })
        }));
        drop(held);
        let Ok(replied) = ran else {
            let text = "a panic ended the command";
            return Err(Error::new(ErrorKind::Command, Code::INTERNAL_ERROR, text));
        };
        if !replied {
            return Err(Error::new(
                ErrorKind::Command,
                Code::OPERATION_FAILED,
                "the command closed its connection without a reply",
            ));
        }
        let reply = Doc::trusted(&out);
        let ok = reply.get("ok").is_truthy();
        let reply = DocBuf::from_bytes(out)
            .map_err(|error| Error::document(format!("invalid reply: {error}")))?;
        if ok { Ok(reply) } else { Err(Error::of_reply(reply)) }
    }

    /// A new ObjectId.
    pub(crate) fn next_oid(&self) -> [u8; 12] {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.oids.next(since.as_secs() as u32)
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.state.lock();
        let open = state.opened.is_some();
        f.debug_struct("Database").field("open", &open).field("running", &state.running).finish()
    }
}

/// A connection while a command runs on it.
struct Held<'a> {
    inner: &'a Inner,
    /// `None` once the command is over.
    server: Option<Arc<Server>>,
    /// `None` until there is one, and when a panic has left it in an unknown state.
    connection: Option<Connection>,
}

impl Held<'_> {
    fn run(
        &mut self,
        db: &str,
        body: Doc<'_>,
        documents: Option<(&str, &[u8])>,
        out: &mut Vec<u8>,
    ) -> bool {
        let (Some(server), Some(mut connection)) = (&self.server, self.connection.take()) else {
            return false;
        };
        let replied = server.run_command(&mut connection, db, body, documents, out);
        if replied {
            self.connection = Some(connection);
        }
        replied
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // The lock is held by `close` only briefly, and it waits for the last owner of the server.
        drop(self.server.take());
        let mut state = self.inner.state.lock();
        if state.opened.is_some() && state.idle.len() < IDLE_MAX {
            state.idle.extend(self.connection.take());
        } else {
            drop(state);
            drop(self.connection.take());
            state = self.inner.state.lock();
        }
        state.running -= 1;
        let waited_for = state.opened.is_none();
        drop(state);
        if waited_for {
            self.inner.changed.notify_all();
        }
    }
}

impl Inner {
    /// Takes a connection for a command.
    fn take(&self) -> Result<Held<'_>> {
        self.check_process()?;
        let mut state = self.state.lock();
        let Some(opened) = &state.opened else { return Err(Error::closed()) };
        let server = opened.server.clone();
        let connection = state.idle.pop();
        state.running += 1;
        drop(state);
        let connection = connection.or_else(|| {
            let peer = Peer { address: "embedded".to_owned(), unix_socket: false, local: None };
            server.connect(peer)
        });
        let held = Held { inner: self, server: Some(server), connection };
        if held.connection.is_none() {
            let closing = self.state.lock().opened.is_none();
            return Err(if closing {
                Error::closed()
            } else {
                Error::new(
                    ErrorKind::Command,
                    Code::EXCEEDED_MEMORY_LIMIT,
                    "the memory budget has no capacity for one more command at the same time",
                )
            });
        }
        Ok(held)
    }

    /// # Errors
    /// In a process that was forked from the one that opened the database. Nothing may be locked before: a thread of
    /// the other process may have held the lock at that moment.
    fn check_process(&self) -> Result<()> {
        match std::process::id() == self.process {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Closed,
                Code::ILLEGAL_OPERATION,
                "the database was opened by another process, from which this one was forked",
            )),
        }
    }

    fn close(&self) -> Result<()> {
        self.check_process()?;
        let mut state = self.state.lock();
        let Some(opened) = state.opened.take() else {
            while !state.closed {
                self.changed.wait(&mut state);
            }
            return Ok(());
        };
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        drop(idle);
        opened.stop();
        let mut state = self.state.lock();
        while state.running > 0 {
            self.changed.wait(&mut state);
        }
        drop(state);
        let closed = opened.close();
        self.state.lock().closed = true;
        self.changed.notify_all();
        closed
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // Closing would write to files that the other process uses, and wait for threads that are not here.
            let state = self.state.get_mut();
            std::mem::forget((state.opened.take(), std::mem::take(&mut state.idle)));
            return;
        }
        if let Err(error) = self.close() {
            log::error!(target: "STORAGE", id = 8_200_003, error = error.message();
                "The data could not be written at shutdown");
        }
    }
}
