//! The balancer: `balancerStatus`, `balancerStart`, `balancerStop`, `balancerCollectionStatus`.
//!
//! The store balances its regions by itself, and clients notice nothing of it. So the mode is only recorded, where
//! tools look for it: scripts switch the balancer off before they make a backup.

use nagi_bson::doc;

use super::{full_name, may, router};
use crate::core::command::prelude::*;
use crate::router::sharded;
use crate::settings::persisted;

/// The document of `config.settings` that has the mode.
const ID: &str = "balancer";

/// The size of a chunk in MB that MongoDB aims at.
const CHUNK_MB: i32 = 128;

pub(super) static BALANCER_STATUS: Command = Command {
    facts: Facts {
        name: "balancerStatus",
        help: "The mode of the balancer.",
        admin_only: true,
        servers: Servers::Routers,
        ..Facts::ROW
    },
    // As MongoDB: find on config.settings.
    access: Access::By(|asking, _| Ok(asking.on_collection("config", "settings", Action::Find))),
    run: status,
    ..Command::ROW
};

pub(super) static BALANCER_START: Command = Command {
    facts: Facts {
        name: "balancerStart",
        help: "Records that the balancer is on.",
        admin_only: true,
        servers: Servers::Routers,
        ..Facts::ROW
    },
    access: Access::By(may_set),
    run: start,
    ..Command::ROW
};

pub(super) static BALANCER_STOP: Command = Command {
    facts: Facts {
        name: "balancerStop",
        help: "Records that the balancer is off. The store balances its data all the same.",
        admin_only: true,
        servers: Servers::Routers,
        ..Facts::ROW
    },
    access: Access::By(may_set),
    run: stop,
    ..Command::ROW
};

pub(super) static BALANCER_COLLECTION_STATUS: Command = Command {
    facts: Facts {
        name: "balancerCollectionStatus",
        help: "Whether a sharded collection is balanced.",
        admin_only: true,
        servers: Servers::Routers,
        ..Facts::ROW
    },
    access: Access::By(|asking, req| may(asking, req, Action::EnableSharding)),
    run: collection_status,
    ..Command::ROW
};

args! { "balancerStart" => Args {
    start:  Value<'a> = "balancerStart",
    stop:   Value<'a> = "balancerStop",
    status: Value<'a> = "balancerStatus",
    named:  Value<'a> = "balancerCollectionStatus",
}}

/// As MongoDB: update on config.settings.
fn may_set(asking: &Asking<'_>, _: &Request<'_>) -> Result<bool> {
    Ok(asking.on_collection("config", "settings", Action::Update))
}

fn status(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    router(cx)?;
    let stored = persisted::read(&cx.server.store, "settings", ID)?;
    let stopped = stored.is_some_and(|stored| stored.get("stopped") == Value::Bool(true));
    out.put("mode", if stopped { "off" } else { "full" });
    out.put("inBalancerRound", false);
    out.put("numBalancerRounds", 0_i64);
    Ok(())
}

fn start(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    set(cx, "full")
}

fn stop(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    set(cx, "off")
}

/// Stores the mode beside what else the document has, such as a window of time.
fn set(cx: &Context<'_>, mode: &str) -> Result<()> {
    router(cx)?;
    let _writing = cx.begin_write("config")?;
    let stored = persisted::read(&cx.server.store, "settings", ID)?;
    let changed = DocBuf::build(|w| {
        w.extend(doc! { "_id": ID, "mode": mode, "stopped": (mode == "off") }.as_doc());
        let others = stored.iter().flat_map(|stored| stored.as_doc().iter());
        others
            .filter(|field| !["_id", "mode", "stopped"].contains(&field.name()))
            .for_each(|field| w.put_element(field));
    });
    persisted::write(&cx.server.store, "settings", changed.as_doc())?;
    log::info!(target: "SHARDING", id = 8_200_450, mode = mode;
        "The balancer's mode was recorded; the store balances its data by itself");
    Ok(())
}

fn collection_status(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    Args::parse(req)?;
    router(cx)?;
    let ns = full_name(req)?;
    let collection = cx.store().collection(&ns);
    let sharded = match &collection {
        Some(collection) => sharded::find(&cx.server.store, collection)?,
        None => None,
    };
    if sharded.is_none() {
        bail!(Code::NAMESPACE_NOT_SHARDED, "Namespace {ns} is not sharded.");
    }
    out.put("chunkSize", CHUNK_MB);
    out.put("balancerCompliant", true);
    Ok(())
}
