//! `applyOps`: applies oplog entries, as `mongorestore --oplogReplay` and `nagi restore --to` send them.
//!
//! | module         | purpose                                                       |
//! |----------------|---------------------------------------------------------------|
//! | `entry.rs`     | an entry, and the checks before the first one is applied      |
//! | `fields.rs`    | the types of an entry's fields                                |
//! | `documents.rs` | `i`, `u`, `d`: changes of a document                          |
//! | `views.rs`     | the same of `system.views`, whose documents describe views    |
//! | `catalog.rs`   | `c`: commands                                                 |
//! | `names.rs`     | the collections that a command is about                       |
//!
//! An entry may fail in two ways, as in MongoDB: alone, which is a `false` in the reply, or so that the ones behind it
//! are not applied, which is the error of the request.

mod catalog;
mod documents;
mod entry;
mod fields;
mod names;
mod views;

use nagi_error::Error;
use nagi_store::Namespace;

use crate::commands::collection::RENAME_COLLECTION;
use crate::commands::crud::check_batch;
use crate::core::access;
use crate::core::command::prelude::*;
use entry::{Demands, Entry, Kind};
use names::Names;

pub(in crate::commands) static APPLY_OPS: Command = Command {
    facts: Facts {
        name: "applyOps",
        help: "Applies entries of an oplog.",
        write: true,
        secret: Secret::Yes,
        applies_log: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

/// The entries that were applied, and the error that stopped the rest.
#[derive(Default)]
struct Results {
    applied: Vec<bool>,
    stopped_by: Option<Error>,
}

impl Results {
    fn write(&self, out: &mut DocWriter<'_>) {
        out.put("applied", self.applied.len() as i32);
        out.array("results", |list| self.applied.iter().for_each(|done| list.push(*done)));
    }

    fn error(&self) -> Option<Error> {
        let error = match &self.stopped_by {
            Some(error) => err!(error.code(), "{}", error.message()),
            None if self.applied.contains(&false) => {
                err!(Code::UNKNOWN_ERROR, "applyOps had one or more errors applying ops")
            }
            None => return None,
        };
        Some(error.with_info(DocBuf::build(|out| self.write(out))))
    }
}

/// Requires the privilege for `applyOps` and those of each entry's operation.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let entries = entry::operations(req.body)?;
    let mut demands = Demands::default();
    entry::check_nesting(&entries, 0, &mut demands)?;
    // Only a user with every action on every resource has this one.
    let is_superuser = asking.on_cluster(Action::Internal);
    if !asking.on_cluster(Action::ApplyOps)
        || demands.superuser && !is_superuser
        || demands.use_uuid && !asking.on_cluster(Action::UseUUID)
        || demands.force_uuid && !asking.on_cluster(Action::ForceUUID)
    {
        return Ok(false);
    }
    for doc in entries {
        if doc.get("op").as_str() == Some("n") {
            if !asking.on_cluster(Action::AppendOplogNote) {
                return Ok(false);
            }
            continue;
        }
        if !access_of(asking, req, &Entry::parse(doc)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn access_of(asking: &Asking<'_>, req: &Request<'_>, entry: &Entry<'_>) -> Result<bool> {
    let catalog = asking.server.store.catalog();
    if entry.kind == Kind::Command {
        return access_of_command(asking, req, entry, &Names::of(&catalog, entry)?);
    }
    // A UUID prevails over a name.
    let found = entry.uuid.and_then(|uuid| catalog.by_uuid(uuid));
    let (db, collection) = match found {
        Some(found) => (found.namespace.database(), found.namespace.collection()),
        None => entry.ns.split_once('.').unwrap_or((entry.ns, "")),
    };
    let may = |action| asking.on_collection(db, collection, action);
    Ok(match entry.kind {
        Kind::Delete => may(Action::Remove),
        _ => may(Action::Insert) && may(Action::Update),
    })
}

/// Requires what the command requires of a client that sends it for the collections that it is about.
fn access_of_command(
    asking: &Asking<'_>,
    req: &Request<'_>,
    entry: &Entry<'_>,
    names: &Names,
) -> Result<bool> {
    if !asking.server.auth.is_enabled() {
        return Ok(true);
    }
    let permits = |command: &'static Command, db: &str, body: Doc<'_>| {
        access::permits(asking, &command.access, &catalog::nested(req, command, db, body))
    };
    let renames = |from: &Namespace, to: &Namespace, drops: bool| {
        let body = DocBuf::build(|w| {
            w.put("renameCollection", from.as_str());
            w.put("to", to.as_str());
            w.put("dropTarget", drops);
        });
        permits(&RENAME_COLLECTION, "admin", body.as_doc())
    };
    let (db, name) = match names {
        Names::Database => (entry.database(), ""),
        Names::Collection { ns, .. } => (ns.database(), ns.collection()),
        Names::Create { ns, elsewhere } => {
            if let Some(other) = elsewhere
                && !renames(&other.namespace, ns, false)?
            {
                return Ok(false);
            }
            (ns.database(), ns.collection())
        }
        Names::Rename(moved) => {
            let may_drop = moved.doomed.as_ref().is_none_or(|doomed| {
                let ns = &doomed.namespace;
                asking.on_collection(ns.database(), ns.collection(), Action::DropCollection)
            });
            let may_rename = !moved.is_internal() || asking.on_cluster(Action::Internal);
            return Ok(may_drop && may_rename && renames(&moved.from, &moved.to, moved.drops)?);
        }
    };
    match catalog::as_request(entry, name) {
        Some((command, body)) => permits(command, db, body.as_doc()),
        // An entry without an effect.
        None => Ok(true),
    }
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let entries = entry::operations(req.body)?;
    entry::check_nesting(&entries, 0, &mut Demands::default())?;
    if !entries.is_empty() {
        check_batch(entries.len())?;
    }
    for (at, doc) in entries.iter().enumerate() {
        entry::check_head(at, *doc)?;
    }
    entry::check_mode(req.body)?;
    let results = apply_all(cx, req, req.body, &entries)?;
    if cx.write_concern(req).is_synced() {
        cx.store().flush()?;
    }
    match results.error() {
        Some(error) => Err(error),
        None => {
            results.write(out);
            Ok(())
        }
    }
}

/// Applies the entries of `command`, which is the request or an entry within it.
fn apply_all(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    command: Doc<'_>,
    entries: &[Doc<'_>],
) -> Result<Results> {
    entry::check_options(command)?;
    entry::check_commands(entries)?;
    let mut results = Results::default();
    for doc in entries.iter().filter(|doc| doc.get("op").as_str() != Some("n")) {
        cx.check()?;
        let ns = doc.get("ns").as_str().unwrap_or("");
        let done = cx
            .check_write_block(entry::database_of(ns))
            .and_then(|()| apply(cx, req, &Entry::parse(*doc)?));
        if ns.starts_with("admin.") {
            // The entry may have changed a user or role.
            cx.server.auth.changed();
        }
        let failed = match done {
            Ok(None) => {
                results.applied.push(true);
                continue;
            }
            Ok(Some(error)) if !cx.server.config.restores => error,
            // A restore has no use for a part of the entries.
            Ok(Some(error)) | Err(error) => {
                results.applied.push(false);
                results.stopped_by = Some(error);
                break;
            }
        };
        log::warn!(target: "REPL", id = 21064, ns = ns, error = failed.message();
            "applyOps error applying");
        results.applied.push(false);
    }
    Ok(results)
}

fn apply(cx: &mut Context<'_>, req: &Request<'_>, entry: &Entry<'_>) -> Result<Option<Error>> {
    if entry.kind != Kind::Command {
        let bypass = entry::flag(req.body, "bypassDocumentValidation")?;
        return documents::apply(cx, entry, bypass);
    }
    if entry.command() != "applyOps" {
        return catalog::apply(cx, req, entry).map(|()| None);
    }
    let entries = entry::operations(entry.object)?;
    match apply_all(cx, req, entry.object, &entries)?.error() {
        Some(error) => Err(error),
        None => Ok(None),
    }
}
