//! Checks the query by which `setQuerySettings` names a query shape: it must parse as its command would parse
//! it.

use nagi_query::Explained;

use crate::commands;
use crate::core::command::prelude::*;
use crate::request::Generic;

/// Checks a find, distinct or aggregate that has a field `$db`.
///
/// # Errors
/// The errors of its command; 8584900 and 8584901 for the server's own databases and collections; 7746606 for a
/// find by `_id`, which is not planned.
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
        command: &command.facts,
        name,
        db,
        body: query,
        sequences: &[],
        generic,
        protocol: req.protocol,
        exhaust_allowed: false,
    };
    match command.check_settings {
        Some(check) => check(cx, &inner),
        None => Err(Error::bug("settings are set for commands that have a shape only")),
    }
}

/// Parses the query as if it were to run.
pub(super) fn check(cx: &Context<'_>, explained: &Explained<'_>) -> Result<()> {
    let watch = cx.watch();
    nagi_query::check_query(cx.store(), explained, &cx.env(&watch))
}

/// Refuses internal databases and system collections.
pub(super) fn refuse_own(db: &str, collection: &str) -> Result<()> {
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
