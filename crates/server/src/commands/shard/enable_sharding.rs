//! `enableSharding` and `movePrimary`: every database is on the only shard.

use super::{database, router};
use crate::core::command::prelude::*;
use crate::router::SHARD;

pub(super) static ENABLE_SHARDING: Command = Command {
    facts: Facts {
        name: "enableSharding",
        help: "Allows to shard collections of a database, which is always allowed.",
        admin_only: true,
        servers: Servers::Routers,
        write: true,
        ..Facts::ROW
    },
    access: Access::By(
        |asking, req| Ok(asking.on_database(database(req)?, Action::EnableSharding)),
    ),
    run: enable,
    ..Command::ROW
};

pub(super) static MOVE_PRIMARY: Command = Command {
    facts: Facts {
        name: "movePrimary",
        aliases: &["moveprimary"],
        help: "Moves what is not sharded of a database to a shard, of which there is one.",
        admin_only: true,
        servers: Servers::Routers,
        write: true,
        ..Facts::ROW
    },
    access: Access::By(|asking, req| Ok(asking.on_database(database(req)?, Action::MoveChunk))),
    run: move_primary,
    ..Command::ROW
};

args! { "enableSharding" => EnableArgs {
    db:      Name<'a>        = "enableSharding",
    primary: Option<&'a str> = "primaryShard",
}}

args! { "movePrimary" => MoveArgs {
    db:       Option<Name<'a>> = "movePrimary",
    old_name: Option<Name<'a>> = "moveprimary",
    to:       &'a str          = "to",
}}

fn enable(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = EnableArgs::parse(req)?;
    router(cx)?;
    let name = database(req)?;
    if matches!(name, "admin" | "local") {
        bail!(Code::INVALID_OPTIONS, "can't shard {name} database");
    }
    args.primary.map_or(Ok(()), check_shard)
}

fn move_primary(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = MoveArgs::parse(req)?;
    router(cx)?;
    let name = database(req)?;
    if matches!(name, "admin" | "config" | "local") {
        bail!(Code::INVALID_OPTIONS, "Can't move primary for {name} database");
    }
    check_shard(args.to)
}

/// Refuses a shard that does not exist (70).
fn check_shard(name: &str) -> Result<()> {
    match name == SHARD {
        true => Ok(()),
        false => bail!(Code::SHARD_NOT_FOUND, "Shard {name} not found"),
    }
}
