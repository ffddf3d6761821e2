//! `applyOps`: applies oplog entries, as `mongorestore --oplogReplay` sends them.
//!
//! Entries are idempotent: an insert replaces an existing document, and a delete of a missing document does
//! nothing. A failed entry does not prevent the others from being applied.

use nagi_query::{DeleteStatement, UpdateStatement};
use nagi_store::{Durability, Namespace, WriteOptions};

use crate::commands;
use crate::commands::crud::check_batch;
use crate::core::access;
use crate::core::command::prelude::*;
use crate::request::Generic;

pub(in crate::commands) static APPLY_OPS: Command = Command {
    facts: Facts {
        name: "applyOps",
        help: "Applies entries of an oplog.",
        write: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "applyOps" => Args {
    ops:           Docs<'a>     = "applyOps",
    allow_atomic:  Option<bool> = "allowAtomic",
    always_upsert: Option<bool> = "alwaysUpsert",
    bypass:        Option<bool> = "bypassDocumentValidation",
    mode:          Value<'a>    = "oplogApplicationMode",
}}

/// The fields of an oplog entry that matter here.
#[derive(Clone, Copy)]
struct Entry<'a> {
    op: &'a str,
    ns: &'a str,
    object: Doc<'a>,
    /// Identifies the document of an update.
    target: Doc<'a>,
}

impl<'a> Entry<'a> {
    fn parse(doc: Doc<'a>) -> Result<Entry<'a>> {
        let text = |name: &str| match doc.get(name) {
            Value::String(text) => Ok(text),
            other => bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'applyOps.{name}' is the wrong type '{}', expected type 'string'",
                other.kind().name()
            ),
        };
        let op = text("op")?;
        let object = doc.get("o").as_doc();
        let Some(object) = object.or((op == "n").then_some(Doc::EMPTY)) else {
            bail!(
                Code::IDL_FAILED_TO_PARSE,
                "BSON field 'applyOps.o' is missing but a required field"
            );
        };
        let ns = if op == "n" { "" } else { text("ns")? };
        Ok(Entry { op, ns, object, target: doc.get("o2").as_doc().unwrap_or(Doc::EMPTY) })
    }

    fn namespace(&self) -> Result<Namespace> {
        let ns = Namespace::parse(self.ns)?;
        commands::common::check_writable(&ns)?;
        Ok(ns)
    }
}

/// Requires the privileges of each entry's operation.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    for doc in args.ops.iter() {
        let entry = Entry::parse(doc?)?;
        let (db, collection) = entry.ns.split_once('.').unwrap_or((entry.ns, ""));
        let may = |action| asking.on_collection(db, collection, action);
        let allowed = match entry.op {
            "n" => asking.on_cluster(Action::AppendOplogNote),
            "i" | "u" => may(Action::Insert) && may(Action::Update),
            "d" => may(Action::Remove),
            "c" => match command(entry)? {
                Some((command, body)) => access::permits(
                    asking,
                    &command.access,
                    &nested(req, command, db, body.as_doc()),
                )?,
                None => asking.on_cluster(Action::ApplyOps),
            },
            _ => asking.on_cluster(Action::ApplyOps),
        };
        if !allowed {
            return Ok(false);
        }
    }
    Ok(true)
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let entries = args.ops.iter().map(|doc| Entry::parse(doc?)).collect::<Result<Vec<_>>>()?;
    if !entries.is_empty() {
        check_batch(entries.len())?;
    }
    let _writing = cx.begin_write("admin")?;
    let upsert = args.always_upsert != Some(false);
    let mut results = Vec::with_capacity(entries.len());
    for entry in &entries {
        cx.check()?;
        let db = entry.ns.split_once('.').map_or(entry.ns, |(db, _)| db);
        let applied = cx.check_write_block(db).and_then(|()| apply(cx, req, *entry, upsert));
        if let Err(error) = &applied {
            log::warn!(target: "REPL", id = 21064, ns = entry.ns, error = error.message();
                "applyOps error applying");
        }
        if entry.ns.starts_with("admin.") {
            // The entry may have changed a user or role.
            cx.server.auth.changed();
        }
        results.push(applied.is_ok());
    }
    if cx.write_concern(req).is_synced() {
        cx.store().flush()?;
    }
    let write = |out: &mut DocWriter<'_>| {
        out.put("applied", results.len() as i32);
        out.array("results", |list| results.iter().for_each(|done| list.push(*done)));
    };
    if results.contains(&false) {
        return Err(err!(Code::UNKNOWN_ERROR, "applyOps had one or more errors applying ops")
            .with_info(DocBuf::build(write)));
    }
    write(out);
    Ok(())
}

fn apply(cx: &mut Context<'_>, req: &Request<'_>, entry: Entry<'_>, upsert: bool) -> Result<()> {
    match entry.op {
        "n" => Ok(()),
        "i" => replace(cx, entry, entry.object, true),
        "u" => update(cx, entry, upsert),
        "d" => delete(cx, entry),
        "c" => run_command(cx, req, entry),
        other => bail!(Code::FAILED_TO_PARSE, "invalid op type: {other}"),
    }
}

/// The filter for the document of an entry.
fn by_id(doc: Doc<'_>) -> Result<DocBuf> {
    match doc.get("_id") {
        Value::Missing => bail!(Code::NO_SUCH_KEY, "Failed to apply an entry without an _id"),
        id => Ok(DocBuf::build(|w| w.doc("_id", |w| w.put("$eq", id)))),
    }
}

/// Replaces the document with the same `_id`.
fn replace(cx: &Context<'_>, entry: Entry<'_>, of: Doc<'_>, upsert: bool) -> Result<()> {
    let filter = by_id(of)?;
    let statement = UpdateStatement {
        upsert,
        bypass_validation: true,
        ..UpdateStatement::new(filter.as_doc(), Value::Doc(entry.object))
    };
    run_update(cx, entry, &statement)
}

fn run_update(cx: &Context<'_>, entry: Entry<'_>, statement: &UpdateStatement<'_>) -> Result<()> {
    let (ns, watch) = (entry.namespace()?, cx.watch());
    let done =
        nagi_query::update(cx.store(), &ns, statement, Durability::Buffered, &cx.env(&watch))?;
    if done.matched == 0 && done.upserted.is_none() {
        bail!(Code::NO_SUCH_KEY, "Failed to apply update: no document to change");
    }
    Ok(())
}

fn update(cx: &Context<'_>, entry: Entry<'_>, upsert: bool) -> Result<()> {
    let version = crate::number::truncate(entry.object.get("$v"));
    if version == Some(2) {
        return apply_diff(cx, entry);
    }
    let first = entry.object.first().map_or("", |e| e.name());
    if !first.starts_with('$') {
        return replace(cx, entry, entry.target, upsert);
    }
    let modifiers = DocBuf::build(|w| {
        entry.object.iter().filter(|e| e.name() != "$v").for_each(|e| w.put_element(e));
    });
    let filter = by_id(entry.target)?;
    let statement = UpdateStatement {
        upsert,
        bypass_validation: true,
        ..UpdateStatement::new(filter.as_doc(), Value::Doc(modifiers.as_doc()))
    };
    run_update(cx, entry, &statement)
}

fn apply_diff(cx: &Context<'_>, entry: Entry<'_>) -> Result<()> {
    let Value::Doc(diff) = entry.object.get("diff") else {
        bail!(Code::Location(4_772_601), "Expected 'diff' field in $v:2 update");
    };
    let ns = entry.namespace()?;
    let gone = || err!(Code::NO_SUCH_KEY, "Failed to apply update: no document to change");
    let Some(collection) = cx.store().collection(&ns) else { return Err(gone()) };
    let check = || cx.check();
    let options = WriteOptions {
        interrupt: Some(&check),
        bypass_validation: true,
        ..WriteOptions::default()
    };
    cx.write(options, &mut |txn| {
        let id = txn.reader().find_id(&collection, entry.target.get("_id"))?;
        let Some(id) = id else { return Err(gone()) };
        let mut buf = nagi_store::RecordBuf::default();
        let found = txn.reader().record(&collection, id.key(), &mut buf)?.map(|doc| doc.to_buf());
        let Some(old) = found else { return Err(gone()) };
        let mut result = Ok(());
        let new = DocBuf::build(|w| result = nagi_store::patch(old.as_doc(), diff, w));
        result?;
        txn.update(&collection, id.key(), old.as_doc(), new.as_doc())
    })
}

fn delete(cx: &Context<'_>, entry: Entry<'_>) -> Result<()> {
    let filter = by_id(entry.object)?;
    let (ns, watch) = (entry.namespace()?, cx.watch());
    let statement = DeleteStatement::new(filter.as_doc(), false);
    nagi_query::delete(cx.store(), &ns, &statement, Durability::Buffered, &cx.env(&watch)).map(drop)
}

/// The command of an entry, with its body as a client would send it; `None` for entries without an effect.
fn command(entry: Entry<'_>) -> Result<Option<(&'static Command, DocBuf)>> {
    let name = entry.object.first().map_or("", |e| e.name());
    let body = match name {
        "startIndexBuild" | "abortIndexBuild" => return Ok(None),
        "commitIndexBuild" => DocBuf::build(|w| {
            w.put("createIndexes", entry.object.get(name));
            w.put("indexes", entry.object.get("indexes"));
        }),
        // The entry holds one index, with its specification beside the name of the collection.
        "createIndexes" if entry.object.get("indexes").is_missing() => DocBuf::build(|w| {
            w.put("createIndexes", entry.object.get(name));
            w.array("indexes", |list| {
                list.doc(|w| entry.object.iter().skip(1).for_each(|e| w.put_element(e)));
            });
        }),
        "drop" | "dropDatabase" | "emptycapped" => {
            DocBuf::build(|w| w.put(name, entry.object.get(name)))
        }
        _ => entry.object.to_buf(),
    };
    let name = body.as_doc().first().map_or("", |e| e.name()).to_owned();
    match commands::find(&name).filter(|command| command.in_oplog) {
        Some(command) => Ok(Some((command, body))),
        None => bail!(Code::FAILED_TO_PARSE, "applyOps does not take the command '{name}'"),
    }
}

fn nested<'a>(
    req: &Request<'a>,
    command: &'static Command,
    db: &'a str,
    body: Doc<'a>,
) -> Request<'a> {
    Request {
        command: &command.facts,
        name: command.name,
        db,
        body,
        sequences: &[],
        generic: Generic::default(),
        protocol: req.protocol,
        exhaust_allowed: false,
    }
}

fn run_command(cx: &mut Context<'_>, req: &Request<'_>, entry: Entry<'_>) -> Result<()> {
    let Some((command, body)) = command(entry)? else { return Ok(()) };
    let db = entry.ns.split_once('.').map_or(entry.ns, |(db, _)| db);
    Namespace::check_database(db)?;
    let mut reply = Vec::new();
    let mut out = DocWriter::new(&mut reply);
    (command.run)(cx, &nested(req, command, db, body.as_doc()), &mut out)
}
