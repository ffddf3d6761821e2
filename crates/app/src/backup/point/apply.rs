//! Applies entries of a log to the files of a copy, with a server in this process that has no address.
//!
//! It is no member of a replica set, so what it applies is not logged, and its collections keep their UUIDs. It deletes
//! no expired documents: a log has the deletes that the time of the restore is not to repeat. The log in the copy is
//! removed at the end, because the one that the restored server will write begins after the moment.

use std::path::Path;
use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value};
use nagi_encryption::MasterKey;
use nagi_server::{Connection, Log, LogDestination, Peer, Server, ServerBuilder, ServerConfig};
use nagi_store::{Store, StoreOptions};

use crate::backup::failed;
use crate::backup::moment::Stamp;
use crate::options::{self, Request};
use crate::{encryption, engine, server_config};

/// A request has so many changes, or so many bytes.
const BATCH_COUNT: usize = 2000;
const BATCH_BYTES: usize = 4 << 20;
const CACHE_BYTES: u64 = 256 << 20;
/// Header, flags and kind of an OP_MSG.
const BODY_AT: usize = 21;
const OP_MSG: i32 = 2013;

/// What was applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Applied {
    pub(super) entries: u64,
    pub(super) changes: u64,
    /// The newest entry that the copy has, and then the last one applied.
    pub(super) last: Stamp,
    /// The time on the server's clock when the last one applied was written.
    pub(super) wall_ms: Option<i64>,
}

pub(super) struct Applier {
    store: Arc<Store>,
    server: Arc<Server>,
    connection: Connection,
    /// Changes that are not sent yet.
    batch: Vec<DocBuf>,
    batch_bytes: usize,
    /// Parts of a transaction whose end has not come yet.
    parts: Vec<DocBuf>,
    applied: Applied,
}

impl Applier {
    /// Opens the files of a copy.
    pub(super) fn open(folder: &Path, masters: &[MasterKey]) -> Result<Applier, String> {
        let fail = |error: &dyn std::fmt::Display| failed(folder, error);
        let path = folder.display().to_string();
        let args = ["--dbpath", &path, "--setParameter", "ttlMonitorEnabled=false"];
        let Request::Serve(options) = options::read(&args.map(str::to_owned))? else {
            return Err("--dbpath is needed".to_owned());
        };
        let mut options = engine::settle(&options).map_err(|error| fail(&error))?;
        options.keys = encryption::of_folder(folder, masters)?;
        let engine = engine::open(&options, CACHE_BYTES).map_err(|error| fail(&error))?;
        let kept = StoreOptions { keep_temporary: true, ..StoreOptions::default() };
        let store = Store::open(engine, kept).map_err(|error| fail(&error))?;
        let log = Log::open(LogDestination::Nowhere).map_err(|error| fail(&error))?;
        let config =
            server_config::of_options(&options, &[], store.clone(), 1, options.net.port, &log);
        let config = ServerConfig { restores: true, ..config };
        let server = ServerBuilder::new(config).and_then(ServerBuilder::start);
        let server = server.map_err(|error| fail(&error))?;
        let peer = Peer { address: "nagi restore".to_owned(), unix_socket: true, local: None };
        let connection = server.connect(peer).ok_or_else(|| fail(&"the server takes no client"))?;
        let mut applier = Applier {
            store,
            server,
            connection,
            batch: Vec::new(),
            batch_bytes: 0,
            parts: Vec::new(),
            applied: Applied { entries: 0, changes: 0, last: Stamp(0), wall_ms: None },
        };
        applier.applied.last = applier.newest()?;
        Ok(applier)
    }

    /// The newest entry that the copy has, and then the last one applied.
    pub(super) fn last(&self) -> Stamp {
        self.applied.last
    }

    /// The newest entry of the log that was copied: what the copy has.
    fn newest(&mut self) -> Result<Stamp, String> {
        let find = DocBuf::build(|w| {
            w.put("find", "oplog.rs");
            w.doc("sort", |w| w.put("$natural", -1));
            w.put("limit", 1);
            w.put("$db", "local");
        });
        let reply = self.run(find.as_doc())?;
        let cursor = reply.get("cursor").as_doc().unwrap_or(Doc::EMPTY);
        let entry = cursor.get("firstBatch").as_array().and_then(|batch| batch.iter().next());
        let stamp = entry.and_then(|entry| Stamp::of(entry.as_doc()?.get("ts")));
        stamp.ok_or_else(|| "the base copy has no log".to_owned())
    }

    /// Applies an entry later, unless the copy has it.
    pub(super) fn push(&mut self, stamp: Stamp, entry: Doc<'_>) -> Result<(), String> {
        if stamp <= self.applied.last {
            return Ok(());
        }
        self.applied.last = stamp;
        self.applied.entries += 1;
        if let Value::DateTime(ms) = entry.get("wall") {
            self.applied.wall_ms = Some(ms);
        }
        let object = entry.get("o").as_doc().unwrap_or(Doc::EMPTY);
        match object.get("applyOps") {
            Value::Array(parts) if entry.get("op").as_str() == Some("c") => {
                self.parts.extend(parts.iter().filter_map(|part| part.as_doc()).map(change));
                // The others follow. If the moment is before the last of them, the transaction has not happened.
                if object.get("partialTxn") == Value::Bool(true) {
                    return Ok(());
                }
                for part in std::mem::take(&mut self.parts) {
                    self.add(part)?;
                }
                Ok(())
            }
            _ if entry.get("op").as_str() == Some("n") => Ok(()),
            _ => self.add(change(entry)),
        }
    }

    fn add(&mut self, change: DocBuf) -> Result<(), String> {
        let object = change.get("o").as_doc().unwrap_or(Doc::EMPTY);
        let alone = object.element("dropDatabase").is_some();
        if alone {
            self.send()?;
        }
        self.batch_bytes += change.as_bytes().len();
        self.batch.push(change);
        let full = self.batch.len() >= BATCH_COUNT || self.batch_bytes >= BATCH_BYTES;
        if full || alone { self.send() } else { Ok(()) }
    }

    /// Sends the changes. A single one that cannot be applied is an error: the log would not fit the copy.
    fn send(&mut self) -> Result<(), String> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        self.applied.changes += batch.len() as u64;
        let apply = DocBuf::build(|w| {
            w.array("applyOps", |ops| {
                batch.iter().for_each(|change| ops.push_doc(change.as_doc()))
            });
            w.put("bypassDocumentValidation", true);
            w.doc("writeConcern", |w| w.put("w", 1));
            w.put("$db", "admin");
        });
        let reply = self.exchange(apply.as_doc())?;
        if reply.get("ok").is_truthy() {
            return Ok(());
        }
        let results = reply.get("results").as_array();
        let at = results.and_then(|list| list.iter().position(|done| done == Value::Bool(false)));
        let change = at.and_then(|at| batch.get(at)).map(|change| told(change.as_doc()));
        Err(format!(
            "the log up to {} cannot be applied to the base copy: {} ({}): {}",
            self.applied.last,
            reply.get("errmsg").as_str().unwrap_or(""),
            reply.get("codeName").as_str().unwrap_or(""),
            change.unwrap_or_default()
        ))
    }

    /// Sends the rest. Returns what was applied.
    pub(super) fn finish(&mut self) -> Result<Applied, String> {
        self.send()?;
        let drop = DocBuf::build(|w| {
            w.put("drop", "oplog.rs");
            w.put("$db", "local");
        });
        self.run(drop.as_doc())?;
        Ok(self.applied)
    }

    /// Closes the files.
    pub(super) fn close(self) -> Result<(), String> {
        let Applier { store, server, connection, .. } = self;
        drop(connection);
        server.stop();
        store.close().map_err(|error| format!("the restored data cannot be closed: {error}"))
    }

    fn run(&mut self, body: Doc<'_>) -> Result<DocBuf, String> {
        let reply = self.exchange(body)?;
        match reply.get("ok").is_truthy() {
            true => Ok(reply),
            false => Err(reply.get("errmsg").as_str().unwrap_or("a command failed").to_owned()),
        }
    }

    fn exchange(&mut self, body: Doc<'_>) -> Result<DocBuf, String> {
        let body = body.as_bytes();
        let mut frame = Vec::with_capacity(BODY_AT + body.len());
        for number in [(BODY_AT + body.len()) as i32, 1, 0, OP_MSG, 0] {
            frame.extend_from_slice(&number.to_le_bytes());
        }
        frame.push(0);
        frame.extend_from_slice(body);
        let mut reply = Vec::new();
        self.server.handle(&mut self.connection, &frame, &mut reply);
        let doc = reply.get(BODY_AT..).unwrap_or_default().to_vec();
        DocBuf::from_bytes(doc).map_err(|_| "the server's reply is not valid".to_owned())
    }
}

/// What a failing change was about, without documents: they may be secret, and large.
fn told(change: Doc<'_>) -> String {
    let object = change.get("o").as_doc().unwrap_or(Doc::EMPTY);
    let id = [change.get("o2").as_doc().unwrap_or(Doc::EMPTY), object]
        .iter()
        .find_map(|doc| doc.element("_id"))
        .filter(|_| change.get("op").as_str() != Some("c"));
    let doc = DocBuf::build(|w| {
        w.put("op", change.get("op"));
        w.put("ns", change.get("ns"));
        match id {
            Some(id) => w.put_element(id),
            None => w.put("command", object.first().map_or("", |first| first.name())),
        }
    });
    doc.as_doc().to_string().chars().take(1000).collect()
}

/// The part of an entry that says what to change. Without its `ts` it must find its document.
fn change(entry: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        for field in entry {
            if matches!(field.name(), "op" | "ns" | "ui" | "o" | "o2" | "b") {
                w.put_element(field);
            }
        }
    })
}
