//! `--users`: the users and roles of the source, as `mongorestore` writes them: into collections that the target's
//! command `_mergeAuthzCollections` reads. A user or role that the target has is left as it is, also if it is another.

use std::collections::HashSet;

use nagi_bson::{Array, Doc, DocBuf, doc};

use super::link::{Link, Result, failed};
use super::listing::{Ns, drop_namespace};
use super::progress::note;

/// The collection of the source, that of the target, and the argument that names the latter.
const KINDS: &[(&str, &str, &str)] = &[
    ("system.roles", "temproles", "tempRolesCollection"),
    ("system.users", "tempusers", "tempUsersCollection"),
];
const DB: &str = "admin";
/// The most bytes of one insert.
const COMMAND_BYTES: usize = 8 << 20;

/// Copies the users and roles that the target does not have. Roles come first: users are granted them.
pub(super) fn copy(source: &mut Link, target: &mut Link) -> Result<()> {
    for (from, temporary, argument) in KINDS {
        let docs = source.list(&doc! { "find": *from, "$db": DB })?;
        let present = present(target, from, &docs)?;
        let (known, new): (Vec<&DocBuf>, Vec<&DocBuf>) = docs
            .iter()
            .partition(|doc| doc.get("_id").as_str().is_some_and(|id| present.contains(id)));
        let kind = from.trim_start_matches("system.");
        note(&format!(
            "{} {kind} are copied, {} are in the target already",
            new.len(),
            known.len()
        ));
        if !new.is_empty() {
            merge(target, temporary, argument, &new)?;
        }
    }
    Ok(())
}

/// The ids (`db.name`) of the users or roles that the target has.
fn present(target: &mut Link, from: &str, docs: &[DocBuf]) -> Result<HashSet<String>> {
    if docs.is_empty() {
        return Ok(HashSet::new());
    }
    let (command, field) = match from {
        "system.users" => ("usersInfo", "user"),
        _ => ("rolesInfo", "role"),
    };
    let asked = DocBuf::build(|out| {
        out.array(command, |out| {
            for doc in docs {
                out.doc(|out| {
                    out.put(field, doc.get(field));
                    out.put("db", doc.get("db"));
                });
            }
        });
        out.put("$db", DB);
    });
    let reply = target.run(&asked)?;
    let list = match from {
        "system.users" => reply.get("users").as_array(),
        _ => reply.get("roles").as_array(),
    };
    let id =
        |doc: Doc<'_>| Some(format!("{}.{}", doc.get("db").as_str()?, doc.get(field).as_str()?));
    Ok(list.unwrap_or(Array::EMPTY).iter().filter_map(|doc| id(doc.as_doc()?)).collect())
}

fn merge(target: &mut Link, temporary: &str, argument: &str, docs: &[&DocBuf]) -> Result<()> {
    let ns = Ns { db: DB.to_owned(), name: temporary.to_owned() };
    drop_namespace(target, &ns)?;
    let mut bytes = Vec::new();
    for (number, doc) in docs.iter().enumerate() {
        bytes.extend_from_slice(doc.as_bytes());
        if bytes.len() >= COMMAND_BYTES || number + 1 == docs.len() {
            let command = doc! { "insert": temporary, "$db": DB };
            let reply = target.run_with(&command, "documents", &bytes)?;
            if !reply.get("writeErrors").is_missing() {
                return failed(format!("{ns} in the target cannot be written"));
            }
            bytes.clear();
        }
    }
    let command = DocBuf::build(|out| {
        out.put("_mergeAuthzCollections", 1);
        out.put(argument, ns.to_string().as_str());
        out.put("drop", false);
        out.put("db", "");
        out.put("$db", DB);
    });
    let merged = target.run(&command);
    drop_namespace(target, &ns)?;
    merged.map(drop).map_err(|trouble| trouble.during("users and roles"))
}
