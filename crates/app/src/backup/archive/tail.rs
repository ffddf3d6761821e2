//! Reads the log of a running server with a tailable cursor.

use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value};
use nagi_encryption::MasterKey;

use crate::backup::flags::Flags;
use crate::backup::moment::{SetId, Stamp};
use crate::remote::client::{Client, Failure};

/// A request waits so long for new entries.
const WAIT_MS: i64 = 500;

const NO_MEMBER: &str =
    "the server has no log to archive: it must be a member of a replica set (--replSet)";

/// Why reading ends.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The server cannot be reached, or closed the cursor: the same position may be tried again.
    Interrupted(String),
    /// The server refused a request for a reason that may pass: a few more attempts may help.
    Refused(String),
    /// The log has no entry at the position any more.
    Gap,
    /// Trying again does not help.
    Failed(String),
}

impl Ended {
    /// The reason, where a position cannot be missing.
    pub(super) fn into_text(self) -> String {
        match self {
            Ended::Interrupted(text) | Ended::Refused(text) | Ended::Failed(text) => text,
            Ended::Gap => "the log is empty".to_owned(),
        }
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        match failure {
            Failure::Connection(text) => Ended::Interrupted(text),
            // CursorNotFound, CappedPositionLost, CursorKilled, Interrupted, shutdowns, a step-down: the position is
            // looked for again.
            Failure::Refused {
                code: 43 | 136 | 237 | 91 | 11_600 | 11_601 | 189, text, ..
            } => Ended::Interrupted(text),
            // No rights, a wrong password, and what has no code: the address does not fit the server.
            Failure::Refused { code: 0 | 13 | 18, text, .. } => Ended::Failed(text),
            Failure::Refused { text, .. } => Ended::Refused(text),
        }
    }
}

/// A cursor behind a position in the log.
pub(crate) struct Tail {
    client: Client,
    cursor: i64,
    /// The entries of the first batch, behind the position.
    first: Option<DocBuf>,
}

/// Entries that the server could lose in a power cut must not be archived: others would take their place.
fn durable_only(find: &mut DocWriter<'_>) {
    find.doc("readConcern", |w| w.put("level", "majority"));
}

/// The newest entry's stamp. The server does not lose it, and none before it.
pub(crate) fn newest(client: &mut Client) -> Result<Stamp, Ended> {
    let find = DocBuf::build(|w| {
        w.put("find", "oplog.rs");
        w.doc("sort", |w| w.put("$natural", -1));
        w.put("limit", 1);
        w.put("singleBatch", true);
        durable_only(w);
        w.put("$db", "local");
    });
    let reply = client.try_run(find.as_doc())?;
    let entry = batch(reply.as_doc(), "firstBatch").iter().next();
    let stamp = entry.and_then(|entry| Stamp::of(entry.as_doc()?.get("ts")));
    stamp.ok_or_else(|| Ended::Failed(NO_MEMBER.to_owned()))
}

/// The replica set of a server. `known`: the one that the archive is of.
pub(crate) fn set_of(client: &mut Client, known: Option<SetId>) -> Result<SetId, Ended> {
    let find = DocBuf::build(|w| {
        w.put("find", "system.replset");
        w.put("limit", 1);
        w.put("singleBatch", true);
        w.put("$db", "local");
    });
    let reply = client.try_run(find.as_doc())?;
    let config =
        batch(reply.as_doc(), "firstBatch").iter().next().and_then(|config| config.as_doc());
    let settings = config.and_then(|config| config.get("settings").as_doc());
    let Some(found) = settings.and_then(|settings| SetId::of(settings.get("replicaSetId"))) else {
        return Err(Ended::Failed(NO_MEMBER.to_owned()));
    };
    match known {
        Some(known) if known != found => Err(Ended::Failed(format!(
            "the archive is of the replica set with the id {known}, and the server belongs to another one, {found}: \
             use another archive, or the server that this one was begun with"
        ))),
        _ => Ok(found),
    }
}

/// Refuses to archive what an encrypted server has so that others could read it, and keys that are not its own.
pub(crate) fn check_encryption(client: &mut Client, flags: &Flags) -> Result<(), Ended> {
    if flags.plain {
        return Ok(());
    }
    let status = DocBuf::build(|w| {
        w.put("serverStatus", 1);
        w.put("none", true);
        w.put("encryptionAtRest", true);
        w.put("$db", "admin");
    });
    let reply = client.try_run(status.as_doc())?;
    let section = reply.get("encryptionAtRest").as_doc();
    let server = section.and_then(|section| section.get("encryptionKeyId").as_str());
    let given = flags.masters.first().map(MasterKey::id);
    let refused = |text: String| Err(Ended::Failed(text));
    match (server, given) {
        (Some(server), Some(given)) if server == given => Ok(()),
        (Some(server), Some(given)) => refused(format!(
            "the server's files are encrypted with the master key {server}, and the given one is {given}"
        )),
        (Some(server), None) => refused(format!(
            "the server's files are encrypted, and the archived log would not be: --encryptionKeyFile must name its \
             master key, {server}, or --plain says that this is meant"
        )),
        (None, Some(_)) => refused(
            "the server's files are not encrypted, and those of an archive would not be either: --encryptionKeyFile \
             has no use"
                .to_owned(),
        ),
        (None, None) => Ok(()),
    }
}

impl Tail {
    /// Opens a cursor behind the entry at `position`, which must still exist.
    pub(crate) fn open(mut client: Client, position: Stamp) -> Result<Tail, Ended> {
        let find = DocBuf::build(|w| {
            w.put("find", "oplog.rs");
            w.doc("filter", |w| w.doc("ts", |w| w.put("$gte", Value::Timestamp(position.0))));
            w.put("tailable", true);
            w.put("awaitData", true);
            durable_only(w);
            w.put("$db", "local");
        });
        let reply = client.try_run(find.as_doc())?;
        let first = batch(reply.as_doc(), "firstBatch").iter().next();
        let found = first.and_then(|entry| Stamp::of(entry.as_doc()?.get("ts")));
        if found != Some(position) {
            return Err(Ended::Gap);
        }
        let cursor = id_of(reply.as_doc());
        Ok(Tail { client, cursor, first: Some(reply) })
    }

    /// Calls `on_entry` with the next entries, of which there may be none after half a second.
    pub(crate) fn next(
        &mut self,
        on_entry: &mut dyn FnMut(Doc<'_>) -> Result<(), String>,
    ) -> Result<usize, Ended> {
        let (reply, name, skipped) = match self.first.take() {
            Some(first) => (first, "firstBatch", 1),
            None if self.cursor == 0 => {
                return Err(Ended::Interrupted("the server has closed the cursor".to_owned()));
            }
            None => {
                let more = DocBuf::build(|w| {
                    w.put("getMore", self.cursor);
                    w.put("collection", "oplog.rs");
                    w.put("maxTimeMS", WAIT_MS);
                    w.put("$db", "local");
                });
                let reply = self.client.try_run(more.as_doc())?;
                self.cursor = id_of(reply.as_doc());
                (reply, "nextBatch", 0)
            }
        };
        let mut count = 0;
        for entry in batch(reply.as_doc(), name).iter().skip(skipped) {
            let entry = entry.as_doc().unwrap_or(Doc::EMPTY);
            on_entry(entry).map_err(Ended::Failed)?;
            count += 1;
        }
        Ok(count)
    }

    /// Writes a note into the log, so that the archived time advances while nothing changes.
    pub(crate) fn note(&mut self) -> Result<(), Failure> {
        let note = DocBuf::build(|w| {
            w.put("appendOplogNote", 1);
            w.doc("data", |w| w.put("msg", "nagi backup --archive: nothing has changed"));
            w.put("$db", "admin");
        });
        self.client.try_run(note.as_doc()).map(drop)
    }
}

fn batch<'d>(reply: Doc<'d>, name: &str) -> Array<'d> {
    let cursor = reply.get("cursor").as_doc().unwrap_or(Doc::EMPTY);
    cursor.get(name).as_array().unwrap_or(Array::EMPTY)
}

fn id_of(reply: Doc<'_>) -> i64 {
    let cursor = reply.get("cursor").as_doc().unwrap_or(Doc::EMPTY);
    nagi_bson::number::truncate_to_i64(cursor.get("id")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_that_may_pass_are_tried_again() {
        let ended = |code| {
            Ended::from(Failure::Refused { code, text: String::new(), reply: DocBuf::new() })
        };
        for code in [0, 13, 18] {
            assert!(matches!(ended(code), Ended::Failed(_)), "{code}");
        }
        for code in [43, 136, 189, 237, 11_600] {
            assert!(matches!(ended(code), Ended::Interrupted(_)), "{code}");
        }
        for code in [1, 10_107, 13_436] {
            assert!(matches!(ended(code), Ended::Refused(_)), "{code}");
        }
    }
}
