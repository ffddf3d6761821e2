//! What tells of the cluster: `listShards`, `getShardMap`, `isdbgrid`; and `flushRouterConfig`, which has nothing to
//! do.

use super::router;
use crate::core::command::prelude::*;
use crate::core::config_views;
use crate::router::SHARD;

pub(super) static LIST_SHARDS: Command = Command {
    facts: Facts {
        name: "listShards",
        help: "Lists the shards: one, which is the store.",
        admin_only: true,
        servers: Servers::Routers,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::ListShards]),
    run: list,
    ..Command::ROW
};

pub(super) static GET_SHARD_MAP: Command = Command {
    facts: Facts {
        name: "getShardMap",
        help: "The shards and their hosts.",
        admin_only: true,
        servers: Servers::Routers,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::GetShardMap]),
    run: map,
    ..Command::ROW
};

pub(super) static ISDBGRID: Command = Command {
    facts: Facts {
        name: "isdbgrid",
        aliases: &["isdbGrid"],
        help: "Says that the server is a router.",
        before_login: true,
        servers: Servers::Routers,
        ..Facts::ROW
    },
    run: is_router,
    ..Command::ROW
};

pub(super) static FLUSH_ROUTER_CONFIG: Command = Command {
    facts: Facts {
        name: "flushRouterConfig",
        help: "Forgets what is known of shards, which is nothing.",
        admin_only: true,
        servers: Servers::Routers,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::FlushRouterConfig]),
    run: flush,
    ..Command::ROW
};

args! { "listShards" => ListArgs {
    one:    Value<'a>       = "listShards",
    filter: Option<Doc<'a>> = "filter",
}}

args! { "getShardMap" => MapArgs {
    one: Value<'a> = "getShardMap",
}}

args! { "flushRouterConfig" => FlushArgs {
    of: Value<'a> = "flushRouterConfig",
}}

fn list(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = ListArgs::parse(req)?;
    if args.filter.is_some_and(|filter| !filter.is_empty()) {
        bail!(Code::INVALID_OPTIONS, "the shards are not filtered: there is only one");
    }
    let shard = config_views::shard(router(cx)?, &cx.server.host_and_port());
    out.array("shards", |list| list.push_doc(shard.as_doc()));
    Ok(())
}

fn map(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    MapArgs::parse(req)?;
    router(cx)?;
    let host = cx.server.host_and_port();
    out.doc("map", |map| {
        map.put("config", &host);
        map.put(SHARD, &host);
    });
    for name in ["hosts", "nodes"] {
        out.doc(name, |hosts| hosts.put(&host, SHARD));
    }
    Ok(())
}

fn is_router(cx: &mut Context<'_>, _: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    router(cx)?;
    out.put("isdbgrid", 1);
    out.put("hostname", &cx.server.config.host);
    Ok(())
}

fn flush(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    FlushArgs::parse(req)?;
    router(cx)?;
    out.put("flushed", true);
    Ok(())
}
