//! The query that query settings are set by: it must parse as its command would parse it.

use nagi_query::Explained;

use super::{aggregate, distinct, find};
use crate::commands::{self, common::namespace};
use crate::core::command::prelude::*;
use crate::request::Generic;
use crate::settings::query_settings::unrejectable;

/// Checks a find, distinct or aggregate with `$db`.
///
/// # Errors
/// Those of its command, 8584900 and 8584901 for the server's own collections, and 7746606 for a find by
/// `_id`, which is not planned.
pub(in crate::commands) fn check_representative(
    cx: &Context<'_>,
    req: &Request<'_>,
    query: Doc<'_>,
) -> Result<()> {
    let name = query.first().map_or("", |first| first.name());
    let Some(command) = commands::find(name) else {
        return Err(Error::bug("settings are set for known commands only"));
    };
    let db = query.get("$db").as_str().unwrap_or("");
    let generic = Generic::parse(command, query)?;
    let inner = Request {
        command,
        name,
        db,
        body: query,
        sequences: &[],
        generic,
        protocol: req.protocol,
        exhaust_allowed: false,
    };
    let watch = cx.watch();
    let env = cx.env(&watch);
    let check = |explained: &Explained<'_>| nagi_query::check_query(cx.store(), explained, &env);
    match name {
        "find" => {
            let args = find::Args::parse(&inner)?;
            let ns = namespace(db, args.collection.as_str().unwrap_or(""))?;
            own(ns.database(), ns.collection())?;
            let request = find::to_request(&args, &ns)?;
            if request.point().is_some() {
                bail!(
                    Code::Location(7_746_606),
                    "setQuerySettings command cannot be used on find queries eligible for IDHACK"
                );
            }
            check(&Explained::Find(request))
        }
        "distinct" => {
            let args = distinct::Args::parse(&inner)?;
            let ns = namespace(db, args.collection.0)?;
            own(ns.database(), ns.collection())?;
            check(&Explained::Distinct(distinct::to_request(&args, &ns)?))
        }
        _ => {
            let args = aggregate::Args::parse(&inner)?;
            let ns = args.namespace(db)?;
            let on_collection = matches!(args.collection, Value::String(_));
            own(ns.database(), if on_collection { ns.collection() } else { "" })?;
            match unrejectable(query) {
                // The server answers some of these itself.
                Some(_) => Ok(()),
                None => check(&Explained::Aggregate(args.request(&ns)?)),
            }
        }
    }
}

/// Refuses the server's own collections.
fn own(db: &str, collection: &str) -> Result<()> {
    if matches!(db, "admin" | "config" | "local") {
        bail!(
            Code::Location(8_584_900),
            "setQuerySettings command cannot be used on internal databases"
        );
    }
    if collection.starts_with("system.") {
        bail!(
            Code::Location(8_584_901),
            "setQuerySettings command cannot be used on system collections"
        );
    }
    Ok(())
}
