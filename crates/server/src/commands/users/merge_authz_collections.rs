//! `_mergeAuthzCollections`: restores users and roles for `mongorestore`. The tool first writes their documents
//! into temporary collections; this command checks the documents and copies them.

use std::collections::BTreeSet;

use nagi_store::Namespace;

use crate::auth::documents::{self, Kind};
use crate::auth::restrictions::Restrictions;
use crate::core::command::prelude::*;
use crate::{
    auth::{Target, roles, users},
    names::RoleName,
};

use super::common::{change, check_privileges, may_grant, with_fields};

pub(in crate::commands) static MERGE_AUTHZ_COLLECTIONS: Command = Command {
    facts: Facts {
        name: "_mergeAuthzCollections",
        help: "Imports users and roles from collections that a tool has filled.",
        admin_only: true,
        write: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "_mergeAuthzCollections" => Args {
    one:        Value<'a>       = "_mergeAuthzCollections",
    temp_users: Option<&'a str> = "tempUsersCollection",
    temp_roles: Option<&'a str> = "tempRolesCollection",
    db:         Option<&'a str> = "db",
    drop:       Option<StrictBool>    = "drop",
}}

impl<'a> Args<'a> {
    /// The collections to read, and the kind of their documents.
    fn sources(&self) -> Result<Vec<(Kind, Namespace)>> {
        let mut sources = Vec::new();
        for (kind, name) in [(Kind::Roles, self.temp_roles), (Kind::Users, self.temp_users)] {
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                sources.push((kind, Namespace::parse(name)?));
            }
        }
        if sources.is_empty() {
            bail!(
                Code::BAD_VALUE,
                "Must provide at least one of \"tempUsersCollection\" and \"tempRolescollection\""
            );
        }
        Ok(sources)
    }

    /// The database to restrict the command to; `None` for all.
    fn database(&self) -> Option<&'a str> {
        self.db.filter(|db| !db.is_empty())
    }
}

/// The roles that the documents grant are checked one by one when they are read.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let target = args.database().map_or(Target::Everywhere, Target::Database);
    let may = |action| asking.allows(target, action);
    let reads = args
        .sources()?
        .iter()
        .all(|(_, ns)| asking.on_collection(ns.database(), ns.collection(), Action::Find));
    Ok(reads
        && may(Action::CreateUser)
        && may(Action::CreateRole)
        && may(Action::GrantRole)
        && may(Action::RevokeRole)
        && (args.drop != Some(StrictBool(true))
            || (may(Action::DropUser) && may(Action::DropRole))))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let mut merged = Vec::new();
    for (kind, ns) in args.sources()? {
        merged.push((kind, read(cx, req, kind, &ns, args.database())?));
    }
    change(cx, || {
        for (kind, docs) in &merged {
            let mut kept = BTreeSet::new();
            for (id, doc) in docs {
                documents::put(&cx.connection.store, *kind, id, doc.as_doc())?;
                kept.insert(id.as_str());
            }
            if args.drop == Some(StrictBool(true)) {
                drop_others(cx, *kind, args.database(), &kept)?;
            }
        }
        Ok(())
    })
}

/// Reads the documents of a collection and checks them.
fn read(
    cx: &Context<'_>,
    req: &Request<'_>,
    kind: Kind,
    ns: &Namespace,
    db: Option<&str>,
) -> Result<Vec<(String, DocBuf)>> {
    let store = &cx.connection.store;
    let mut docs = Vec::new();
    let Some(collection) = store.collection(ns).filter(|c| !c.is_view()) else {
        return Ok(docs);
    };
    let snapshot = store.snapshot()?;
    let mut cursor = snapshot.reader().scan(&collection, true)?;
    while cursor.advance()? {
        cx.check()?;
        let doc = cursor.doc();
        if db.is_none_or(|db| doc.get("db").as_str() == Some(db)) {
            docs.push(check(cx, req, kind, doc)?);
        }
    }
    Ok(docs)
}

/// Checks one document: 9 if it is malformed, 13 if it grants a role that the client may not grant.
fn check(
    cx: &Context<'_>,
    req: &Request<'_>,
    kind: Kind,
    doc: Doc<'_>,
) -> Result<(String, DocBuf)> {
    let field = match kind {
        Kind::Users => "user",
        Kind::Roles => "role",
    };
    let (Value::String(name), Value::String(db)) = (doc.get(field), doc.get("db")) else {
        bail!(Code::FAILED_TO_PARSE, "a document without the strings \"{field}\" and \"db\"");
    };
    let name = RoleName::new(name, db);
    if doc.get("_id").as_str() != Some(&name.id()) {
        bail!(Code::FAILED_TO_PARSE, "the _id of {name} is not {}", name.id());
    }
    if !may_grant(&cx.asking(), &users::roles_of(doc)?) {
        return Err(crate::core::access::refusal(req));
    }
    if let Value::Array(list) = doc.get("authenticationRestrictions") {
        Restrictions::parse(list)?;
    }
    let uuid = crate::random::random_uuid()?;
    let uuid = Value::Binary(nagi_bson::Binary { subtype: 4, bytes: &uuid });
    let doc = match kind {
        // Dumps of servers before 3.6 have no `userId`.
        Kind::Users if doc.element("userId").is_none() => with_fields(doc, &[("userId", uuid)]),
        Kind::Users => doc.to_buf(),
        Kind::Roles => {
            check_privileges(&name, &roles::privileges_of(doc)?)?;
            doc.to_buf()
        }
    };
    Ok((name.id(), doc))
}

/// Drops the users or roles that are not among the merged ones.
fn drop_others(
    cx: &Context<'_>,
    kind: Kind,
    db: Option<&str>,
    kept: &BTreeSet<&str>,
) -> Result<()> {
    let mut others = Vec::new();
    documents::each(&cx.connection.store, kind, &mut |doc| {
        if let Value::String(id) = doc.get("_id")
            && !kept.contains(id)
            && db.is_none_or(|db| doc.get("db").as_str() == Some(db))
        {
            others.push(id.to_owned());
        }
        Ok(true)
    })?;
    for id in others {
        documents::remove(&cx.connection.store, kind, &id)?;
    }
    Ok(())
}
