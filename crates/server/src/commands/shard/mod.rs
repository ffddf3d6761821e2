//! Commands of sharded clusters, which only a router has. For other servers their names are unknown, as for a member of
//! a replica set.
//!
//! There is one shard, the store, which splits, places and balances the data by itself. So the commands are of three
//! kinds: those that tell of the cluster, those that are true of the store already and are recorded
//! (`enableSharding`, `shardCollection`, the balancer's mode), and those that only the store can do ([`refused`]).

mod balancer_status;
mod enable_sharding;
mod list_shards;
mod refused;
mod shard_collection;

use std::sync::LazyLock;

use nagi_store::Namespace;

use crate::core::command::prelude::*;
use crate::router::Router;

/// All of them, sorted by name.
pub(super) static ROUTER_COMMANDS: LazyLock<Vec<&'static Command>> = LazyLock::new(|| {
    let own: [&'static Command; 12] = [
        &balancer_status::BALANCER_COLLECTION_STATUS,
        &balancer_status::BALANCER_START,
        &balancer_status::BALANCER_STATUS,
        &balancer_status::BALANCER_STOP,
        &shard_collection::SHARD_COLLECTION,
        &shard_collection::UNSHARD_COLLECTION,
        &enable_sharding::ENABLE_SHARDING,
        &enable_sharding::MOVE_PRIMARY,
        &list_shards::FLUSH_ROUTER_CONFIG,
        &list_shards::GET_SHARD_MAP,
        &list_shards::ISDBGRID,
        &list_shards::LIST_SHARDS,
    ];
    let mut all: Vec<_> = own.into_iter().chain(refused::ROWS.iter()).collect();
    all.sort_by_key(|row| row.name.to_lowercase());
    all
});

/// The router that the server is. Other servers do not find the command.
fn router<'c>(cx: &Context<'c>) -> Result<&'c Router> {
    match &cx.server.router {
        Some(router) => Ok(router),
        None => bail!(Code::COMMAND_NOT_FOUND, "no such command: '{}'", cx.command.name),
    }
}

/// The collection that the first field names, as `db.collection` (73).
fn full_name(req: &Request<'_>) -> Result<Namespace> {
    let first = req.body.first().map_or(Value::Missing, |field| field.value());
    match first {
        Value::String(name) => Namespace::parse(name),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{0}.{0}' is the wrong type '{1}', expected type 'string'",
            req.command.name,
            other.kind().name()
        ),
    }
}

/// Returns true if the client may do `action` with the collection that the first field names.
fn may(asking: &Asking<'_>, req: &Request<'_>, action: Action) -> Result<bool> {
    let ns = full_name(req)?;
    Ok(asking.on_collection(ns.database(), ns.collection(), action))
}

/// The database that the first field names.
fn database<'a>(req: &Request<'a>) -> Result<&'a str> {
    let first = req.body.first().map_or(Value::Missing, |field| field.value());
    match first {
        Value::String(name) if Namespace::new(name, "c").is_ok() => Ok(name),
        Value::String(name) => {
            bail!(Code::INVALID_NAMESPACE, "invalid db name specified: {name}")
        }
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{0}.{0}' is the wrong type '{1}', expected type 'string'",
            req.command.name,
            other.kind().name()
        ),
    }
}
