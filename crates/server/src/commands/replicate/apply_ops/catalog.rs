//! Entries that contain a command: `c`.
//!
//! A command that finds its work done already, as a log that is applied for the second time does, has no effect.

use nagi_store::{Collection, Namespace, Rename, Uuid};

use super::entry::{Entry, flag};
use super::names::{Moved, Names};
use crate::commands::{self, collection};
use crate::core::command::prelude::*;
use crate::request::Generic;
use crate::upkeep::views_collection;

/// The errors that a command may meet because it has been applied before. In a restore none has been: what is missing,
/// or is there already, means that the log does not fit the copy.
fn is_acceptable(cx: &Context<'_>, command: &str, code: Code) -> bool {
    if cx.server.config.restores
        && matches!(code, Code::NAMESPACE_NOT_FOUND | Code::NAMESPACE_EXISTS)
    {
        return false;
    }
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
    let names = Names::of(&cx.store().catalog(), entry)?;
    // Again: collections may have got other names since the request was checked, by an entry before this one too.
    if !super::access_of_command(&cx.asking(), req, entry, &names)? {
        bail!(Code::UNAUTHORIZED, "not authorized on {} to apply {command}", entry.database());
    }
    names.databases().try_for_each(|db| cx.check_write_block(db))?;
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
        _ => match names {
            Names::Create { ns, elsewhere } => create(cx, entry, &ns, elsewhere.as_deref()),
            Names::Rename(moved) => rename(cx, entry, &moved),
            Names::Collection { ns, found } => match (command, found, entry.uuid) {
                ("convertToCapped", Some(old), Some(_)) => convert(cx, entry, &old),
                ("convertToCapped", None, Some(uuid)) => convert_of(cx, entry, &ns, uuid),
                // The build of an index would create the collection.
                (_, None, _) => Err(err!(Code::NAMESPACE_NOT_FOUND, "applyOps: ns not found {ns}")),
                ("drop", Some(doomed), _) => drop_collection(cx, &doomed),
                ("collMod", Some(found), _) if found.options.timeseries.is_some() => {
                    modify_buckets(cx, entry, &found)
                }
                _ => run(cx, req, entry, ns.database(), ns.collection()),
            },
            Names::Database => run(cx, req, entry, entry.database(), ""),
        },
    };
    match done {
        Err(error) if is_acceptable(cx, command, error.code()) => Ok(()),
        done => done,
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

/// Runs the entry's command on a database, or on the collection `name` in it.
fn run(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    entry: &Entry<'_>,
    db: &str,
    name: &str,
) -> Result<()> {
    let Some((command, body)) = as_request(entry, name) else {
        bail!(Code::FAILED_TO_PARSE, "applyOps does not take the command '{}'", entry.command());
    };
    let mut reply = Vec::new();
    let mut out = DocWriter::new(&mut reply);
    (command.run)(cx, &nested(req, command, db, body.as_doc()), &mut out)
}

/// Creates a collection, with the entry's UUID if it has one. Another collection of this name is renamed, as in
/// MongoDB: a later entry of the log renames or drops it.
fn create(
    cx: &Context<'_>,
    entry: &Entry<'_>,
    ns: &Namespace,
    elsewhere: Option<&Collection>,
) -> Result<()> {
    let _writing = cx.begin_write(ns.database())?;
    let options = collection::stored_options(entry.object)?;
    let Some(uuid) = entry.uuid else {
        let created = cx.store().create_collection(ns, options.as_doc())?;
        if created.is_view() {
            cx.server.mirror_view(ns);
        }
        return Ok(());
    };
    match cx.store().collection(ns) {
        Some(existing) if existing.uuid == uuid => return Ok(()),
        Some(existing) if existing.is_view() => {
            bail!(Code::NAMESPACE_EXISTS, "a view already exists with that name: {ns}")
        }
        Some(_) => move_aside(cx, ns)?,
        None => {}
    }
    match elsewhere {
        Some(other) => {
            let how = Rename { source: Some(uuid), ..Rename::default() };
            cx.store().rename_collection(&other.namespace, ns, how, &|| cx.check())
        }
        None => cx.store().create_collection_of(ns, options.as_doc(), uuid).map(drop),
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

fn drop_collection(cx: &Context<'_>, doomed: &Collection) -> Result<()> {
    let ns = &doomed.namespace;
    let _writing = cx.begin_write(ns.database())?;
    if ns.collection() == views_collection::NAME {
        cx.server.drop_views(ns.database())?;
    }
    cx.store().drop_collection_of(ns, Some(doomed.uuid))?;
    if doomed.is_view() {
        cx.server.mirror_view(ns);
    } else {
        cx.server.top.forget(|name| name == ns.as_str());
    }
    Ok(())
}

/// Changes of a time series are logged as those of its buckets.
fn modify_buckets(cx: &Context<'_>, entry: &Entry<'_>, buckets: &Collection) -> Result<()> {
    let object = entry.object;
    // The other options of the time series stay as they are.
    let series = object.get("timeseries").as_doc().map(|series| {
        DocBuf::build(|out| {
            let fixed = |name| matches!(name, "timeField" | "metaField");
            series.iter().filter(|e| !fixed(e.name())).for_each(|e| out.put_element(e));
        })
    });
    let expires = match object.get("expireAfterSeconds") {
        Value::Missing => None,
        Value::String("off") => Some(Value::Missing),
        value => Some(value),
    };
    let changes = nagi_store::CollMod {
        timeseries: series.as_ref().map(DocBuf::as_doc),
        expire_after_seconds: expires,
        index: object.get("index").as_doc(),
        ..nagi_store::CollMod::default()
    };
    let _writing = cx.begin_write(buckets.namespace.database())?;
    cx.store().coll_mod(&buckets.namespace, changes)?;
    if let Some(view) = buckets.namespace.of_buckets() {
        cx.server.mirror_view(&view);
    }
    Ok(())
}

/// MongoDB's entry names the old collection, this server's the one that it becomes.
fn convert(cx: &Context<'_>, entry: &Entry<'_>, old: &Collection) -> Result<()> {
    let ns = &old.namespace;
    let name = entry.object.get("convertToCapped").as_str();
    if old.options.capped && name == Some(ns.collection()) {
        return Ok(());
    }
    convert_of(cx, entry, ns, Uuid::random())
}

fn convert_of(cx: &Context<'_>, entry: &Entry<'_>, ns: &Namespace, uuid: Uuid) -> Result<()> {
    let size = crate::number::truncate(entry.object.get("size")).unwrap_or(0);
    let options = collection::capped_options(size, None)?;
    let _writing = cx.begin_write(ns.database())?;
    cx.store().convert_to_capped_of(ns, options.as_doc(), uuid, &|| cx.check())
}

fn rename(cx: &Context<'_>, entry: &Entry<'_>, moved: &Moved) -> Result<()> {
    let Moved { from, source, to, drops, doomed } = moved;
    let _writing = cx.begin_write(to.database())?;
    let Some(source) = source else {
        // It was renamed and dropped later: what remains is to drop the target.
        if let Some(doomed) = doomed.as_ref().filter(|_| !cx.server.config.restores) {
            cx.store().drop_collection_of(&doomed.namespace, Some(doomed.uuid))?;
        }
        bail!(Code::NAMESPACE_NOT_FOUND, "Source collection {from} does not exist");
    };
    if source.namespace == *to {
        return Ok(());
    }
    let in_the_way = cx.store().collection(to).map(|target| target.uuid);
    let is_doomed = in_the_way.is_some() && in_the_way == doomed.as_ref().map(|doomed| doomed.uuid);
    if in_the_way.is_some() && *drops && !is_doomed {
        move_aside(cx, to)?;
    }
    let stay_temp = flag(entry.object, "stayTemp")?;
    let how = Rename { drop_target: *drops, stay_temp, target: None, source: Some(source.uuid) };
    cx.store().rename_collection(from, to, how, &|| cx.check())
}
