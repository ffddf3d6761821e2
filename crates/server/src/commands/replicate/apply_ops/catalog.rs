//! Entries that contain a command: `c`.
//!
//! A command that finds its work done already, as a log that is applied for the second time does, has no effect.

use nagi_store::{Namespace, Rename, Uuid};

use super::entry::{Entry, flag};
use crate::commands::{self, collection};
use crate::core::command::prelude::*;
use crate::request::Generic;
use crate::upkeep::views_collection;

/// The errors that a command may meet because it has been applied before.
fn is_acceptable(command: &str, code: Code) -> bool {
    let codes: &[Code] = match command {
        "create" => &[Code::NAMESPACE_EXISTS],
        "createIndexes" | "commitIndexBuild" => {
            &[Code::INDEX_ALREADY_EXISTS, Code::NAMESPACE_NOT_FOUND]
        }
        "collMod" | "dropIndexes" | "deleteIndexes" => {
            &[Code::INDEX_NOT_FOUND, Code::NAMESPACE_NOT_FOUND]
        }
        "renameCollection" => &[Code::NAMESPACE_NOT_FOUND, Code::NAMESPACE_EXISTS],
        "drop" | "dropDatabase" | "convertToCapped" => &[Code::NAMESPACE_NOT_FOUND],
        _ => &[],
    };
    codes.contains(&code)
}

/// Applies an entry whose command is not `applyOps`.
pub(super) fn apply(cx: &mut Context<'_>, req: &Request<'_>, entry: &Entry<'_>) -> Result<()> {
    Namespace::check_database(entry.database())?;
    let command = entry.command();
    let done = match command {
        // A build is logged by its begin and its end; what counts is the end.
        "startIndexBuild" | "abortIndexBuild" | "dbCheck" => Ok(()),
        "commitTransaction" => bail!(
            Code::Location(50_987),
            "commitTransaction is only used internally by secondaries."
        ),
        "abortTransaction" => {
            bail!(
                Code::Location(50_972),
                "abortTransaction is only used internally by secondaries."
            )
        }
        "importCollection" => {
            bail!(Code::COMMAND_NOT_SUPPORTED, "importCollection is not supported")
        }
        "create" => create(cx, entry),
        "drop" => drop_collection(cx, entry),
        "renameCollection" => rename(cx, entry),
        "convertToCapped" if entry.uuid.is_some() => convert(cx, entry),
        _ => run(cx, req, entry),
    };
    match done {
        Err(error) if is_acceptable(command, error.code()) => Ok(()),
        done => done,
    }
}

/// The collection that an entry's command names: by its UUID, if there is one (26 if there is no such collection).
fn named(cx: &Context<'_>, entry: &Entry<'_>) -> Result<Namespace> {
    if let Some(uuid) = entry.uuid {
        return match cx.store().catalog().by_uuid(uuid) {
            Some(collection) => Ok(collection.namespace.clone()),
            None => bail!(Code::NAMESPACE_NOT_FOUND, "No namespace with UUID {uuid}"),
        };
    }
    match entry.object.first().map(|first| first.value()) {
        Some(Value::String(name)) => Namespace::new(entry.database(), name),
        _ => bail!(Code::INVALID_NAMESPACE, "collection name has invalid type"),
    }
}

/// The command with its body as a client would send it; `None` for an entry that is not applied by a command.
pub(super) fn as_request(entry: &Entry<'_>, name: &str) -> Option<(&'static Command, DocBuf)> {
    let object = entry.object;
    let body = match entry.command() {
        "commitIndexBuild" => DocBuf::build(|w| {
            w.put("createIndexes", name);
            w.put("indexes", object.get("indexes"));
            w.put("ignoreUnknownIndexOptions", true);
        }),
        // The entry has one index, whose specification stands beside the name of the collection.
        "createIndexes" if object.get("indexes").is_missing() => DocBuf::build(|w| {
            w.put("createIndexes", name);
            w.array("indexes", |list| {
                list.doc(|w| object.iter().skip(1).for_each(|e| w.put_element(e)));
            });
            w.put("ignoreUnknownIndexOptions", true);
        }),
        command @ ("drop" | "emptycapped") => DocBuf::build(|w| w.put(command, name)),
        "dropDatabase" => DocBuf::build(|w| w.put("dropDatabase", 1)),
        "dropIndexes" | "deleteIndexes" => DocBuf::build(|w| {
            w.put("dropIndexes", name);
            w.put("index", object.get("index"));
        }),
        "renameCollection" | "applyOps" => object.to_buf(),
        command => DocBuf::build(|w| {
            w.put(command, name);
            object.iter().skip(1).for_each(|e| w.put_element(e));
        }),
    };
    let command = body.as_doc().first().map_or("", |e| e.name());
    Some((commands::find(command)?, body.clone()))
}

/// The request of a command within `req`.
pub(super) fn nested<'a>(
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

/// Runs the entry's command.
fn run(cx: &mut Context<'_>, req: &Request<'_>, entry: &Entry<'_>) -> Result<()> {
    let (db, name) = match entry.command() {
        "dropDatabase" => (entry.database().to_owned(), String::new()),
        _ => {
            let ns = named(cx, entry)?;
            // The build of an index would create the collection.
            if cx.store().collection(&ns).is_none() {
                bail!(Code::NAMESPACE_NOT_FOUND, "ns not found {ns}");
            }
            (ns.database().to_owned(), ns.collection().to_owned())
        }
    };
    let Some((command, body)) = as_request(entry, &name) else {
        bail!(Code::FAILED_TO_PARSE, "applyOps does not take the command '{}'", entry.command());
    };
    let mut reply = Vec::new();
    let mut out = DocWriter::new(&mut reply);
    (command.run)(cx, &nested(req, command, &db, body.as_doc()), &mut out)
}

/// Creates a collection, with the entry's UUID if it has one. Another collection of this name is renamed, as in
/// MongoDB: a later entry of the log renames or drops it.
fn create(cx: &Context<'_>, entry: &Entry<'_>) -> Result<()> {
    let name = entry.object.get("create").as_str().unwrap_or("");
    let ns = Namespace::new(entry.database(), name)?;
    let _writing = cx.begin_write(ns.database())?;
    let options = collection::stored_options(entry.object)?;
    let Some(uuid) = entry.uuid else {
        let created = cx.store().create_collection(&ns, options.as_doc())?;
        if created.is_view() {
            cx.server.mirror_view(&ns);
        }
        return Ok(());
    };
    match cx.store().collection(&ns) {
        Some(existing) if existing.uuid == uuid => return Ok(()),
        Some(existing) if existing.is_view() => {
            bail!(Code::NAMESPACE_EXISTS, "a view already exists with that name: {ns}")
        }
        Some(_) => move_aside(cx, &ns)?,
        None => {}
    }
    let elsewhere = cx.store().catalog().by_uuid(uuid).map(|other| other.namespace.clone());
    match elsewhere {
        Some(from) => cx.store().rename_collection(&from, &ns, Rename::default(), &|| cx.check()),
        None => cx.store().create_collection_of(&ns, options.as_doc(), uuid).map(drop),
    }
}

/// Renames a collection that stands in the way to a temporary name.
fn move_aside(cx: &Context<'_>, ns: &Namespace) -> Result<()> {
    loop {
        let name = format!("tmp{}.renameCollection", Uuid::random());
        let free = Namespace::new(ns.database(), &name)?;
        if cx.store().collection(&free).is_none() {
            let how = Rename { stay_temp: true, ..Rename::default() };
            return cx.store().rename_collection(ns, &free, how, &|| cx.check());
        }
    }
}

fn drop_collection(cx: &Context<'_>, entry: &Entry<'_>) -> Result<()> {
    let ns = named(cx, entry)?;
    let _writing = cx.begin_write(ns.database())?;
    let Some(doomed) = cx.store().collection(&ns) else { return Ok(()) };
    if ns.collection() == views_collection::NAME {
        cx.server.drop_views(ns.database())?;
    }
    cx.store().drop_collection_of(&ns, Some(doomed.uuid))?;
    if doomed.is_view() {
        cx.server.mirror_view(&ns);
    } else {
        cx.server.top.forget(|name| name == ns.as_str());
    }
    Ok(())
}

fn convert(cx: &Context<'_>, entry: &Entry<'_>) -> Result<()> {
    let Some(uuid) = entry.uuid else { return Ok(()) };
    // MongoDB's entry names the old collection, this server's the one that it becomes.
    if let Some(old) = cx.store().catalog().by_uuid(uuid) {
        let (ns, capped) = (&old.namespace, old.options.capped);
        let name = entry.object.get("convertToCapped").as_str();
        if capped && name == Some(ns.collection()) {
            return Ok(());
        }
        return convert_of(cx, entry, ns, Uuid::random());
    }
    let name = entry.object.get("convertToCapped").as_str().unwrap_or("");
    convert_of(cx, entry, &Namespace::new(entry.database(), name)?, uuid)
}

fn convert_of(cx: &Context<'_>, entry: &Entry<'_>, ns: &Namespace, uuid: Uuid) -> Result<()> {
    let size = crate::number::truncate(entry.object.get("size")).unwrap_or(0);
    let options = collection::capped_options(size, None)?;
    let _writing = cx.begin_write(ns.database())?;
    cx.store().convert_to_capped_of(ns, options.as_doc(), uuid, &|| cx.check())
}

fn rename(cx: &Context<'_>, entry: &Entry<'_>) -> Result<()> {
    let parse = |name: &str| match entry.object.get(name) {
        Value::String(text) => Namespace::parse(text),
        _ => bail!(Code::INVALID_NAMESPACE, "'{name}' must be of type String"),
    };
    let (from, to) = (parse("renameCollection")?, parse("to")?);
    let catalog = cx.store().catalog();
    let source = match entry.uuid {
        Some(uuid) => catalog.by_uuid(uuid),
        None => catalog.collection(&from),
    };
    let (drops, doomed) = match entry.object.get("dropTarget") {
        Value::Binary(uuid) => {
            let uuid = uuid.bytes.try_into().map(Uuid).ok();
            let known = uuid.and_then(|uuid| catalog.by_uuid(uuid));
            // mongorestore removes the UUIDs of entries, but not this one, which then says nothing here.
            let by_name = || catalog.collection(&to).filter(|_| entry.uuid.is_none());
            (true, known.or_else(by_name))
        }
        _ => (flag(entry.object, "dropTarget")?, catalog.collection(&to)),
    };
    let _writing = cx.begin_write(to.database())?;
    let Some(source) = source else {
        // It was renamed and dropped later: what remains is to drop the target.
        if let Some(doomed) = doomed.filter(|_| drops) {
            cx.store().drop_collection_of(&doomed.namespace, Some(doomed.uuid))?;
        }
        bail!(Code::NAMESPACE_NOT_FOUND, "Source collection {from} does not exist");
    };
    if source.namespace == to {
        return Ok(());
    }
    let in_the_way = catalog.collection(&to).map(|target| target.uuid);
    let is_doomed = in_the_way.is_some() && in_the_way == doomed.map(|doomed| doomed.uuid);
    if in_the_way.is_some() && drops && !is_doomed {
        move_aside(cx, &to)?;
    }
    let stay_temp = flag(entry.object, "stayTemp")?;
    let how = Rename { drop_target: drops, stay_temp, target: None, source: Some(source.uuid) };
    cx.store().rename_collection(&source.namespace, &to, how, &|| cx.check())
}
