//! Commands that only the store could do, one row each: a router has them, checks the privilege, and says so.
//!
//! | commands                                       | who does it                                                |
//! |------------------------------------------------|------------------------------------------------------------|
//! | `addShard`, `removeShard`, draining            | stores are added to and removed from the cluster of TiKV   |
//! | `split`, `mergeChunks`, `moveChunk`, ..        | regions are split, merged and moved by placement drivers   |
//! | zones                                          | placement rules of TiKV                                    |
//! | `reshardCollection`, `moveCollection`, ..      | nothing to do: the shard key has no part in the layout     |
//! | dedicated config servers, metadata, versions   | nothing to do: there is no other metadata than the store's |

use super::may;
use crate::core::command::prelude::*;

use Action as A;

const BY_STORE: &str = "the store splits, places and balances the data by itself";
const OF_STORES: &str = "the data are in the store: add or remove stores of its cluster";
const NO_LAYOUT: &str = "the shard key has no part in the layout, which is the store's";
const NO_METADATA: &str = "there are no config servers, and no metadata of chunks";

/// What a client needs for a command that names a collection first.
macro_rules! on {
    ($action:ident) => {
        Access::By(|asking, req| may(asking, req, A::$action))
    };
}

/// A row. `why` is the end of the error.
const fn row(name: &'static str, access: Access, why: &'static str) -> Command {
    Command {
        facts: Facts {
            name,
            help: why,
            admin_only: true,
            servers: Servers::Routers,
            write: true,
            ..Facts::ROW
        },
        access,
        run: refuse,
        ..Command::ROW
    }
}

pub(super) static ROWS: &[Command] = &[
    row("abortMoveCollection", on!(MoveCollection), NO_LAYOUT),
    row("abortReshardCollection", on!(ReshardCollection), NO_LAYOUT),
    row("abortRewriteCollection", on!(ReshardCollection), NO_LAYOUT),
    row("abortUnshardCollection", on!(UnshardCollection), NO_LAYOUT),
    row("addShard", Access::Cluster(&[A::AddShard]), OF_STORES),
    row("addShardToZone", Access::By(may_set_zones), BY_STORE),
    row("analyzeShardKey", on!(AnalyzeShardKey), NO_LAYOUT),
    row("checkMetadataConsistency", Access::Cluster(&[A::CheckMetadataConsistency]), NO_METADATA),
    row("cleanupReshardCollection", on!(ReshardCollection), NO_LAYOUT),
    row("clearJumboFlag", on!(ClearJumboFlag), BY_STORE),
    row("commitReshardCollection", on!(ReshardCollection), NO_LAYOUT),
    row("commitShardRemoval", Access::Cluster(&[A::RemoveShard]), OF_STORES),
    row(
        "commitTransitionToDedicatedConfigServer",
        Access::Cluster(&[A::TransitionToDedicatedConfigServer]),
        NO_METADATA,
    ),
    row("configureCollectionBalancing", on!(MoveChunk), BY_STORE),
    row("configureQueryAnalyzer", on!(ConfigureQueryAnalyzer), NO_LAYOUT),
    row("getShardVersion", on!(GetShardVersion), NO_METADATA),
    row(
        "getTransitionToDedicatedConfigServerStatus",
        Access::Cluster(&[A::TransitionToDedicatedConfigServer]),
        NO_METADATA,
    ),
    row("mergeAllChunksOnShard", on!(SplitChunk), BY_STORE),
    row("mergeChunks", on!(SplitChunk), BY_STORE),
    row("moveChunk", on!(MoveChunk), BY_STORE),
    row("moveCollection", on!(MoveCollection), BY_STORE),
    row("moveRange", on!(MoveChunk), BY_STORE),
    row("refineCollectionShardKey", on!(RefineCollectionShardKey), NO_LAYOUT),
    row("removeShard", Access::Cluster(&[A::RemoveShard]), OF_STORES),
    row("removeShardFromZone", Access::By(may_set_zones), BY_STORE),
    row("reshardCollection", on!(ReshardCollection), NO_LAYOUT),
    row("rewriteCollection", on!(ReshardCollection), NO_LAYOUT),
    row("setAllowMigrations", on!(MoveChunk), BY_STORE),
    row("shardDrainingStatus", Access::Cluster(&[A::RemoveShard]), OF_STORES),
    row("split", on!(SplitChunk), BY_STORE),
    row("startShardDraining", Access::Cluster(&[A::RemoveShard]), OF_STORES),
    row(
        "startTransitionToDedicatedConfigServer",
        Access::Cluster(&[A::TransitionToDedicatedConfigServer]),
        NO_METADATA,
    ),
    row("stopShardDraining", Access::Cluster(&[A::RemoveShard]), OF_STORES),
    row(
        "stopTransitionToDedicatedConfigServer",
        Access::Cluster(&[A::TransitionToDedicatedConfigServer]),
        NO_METADATA,
    ),
    row(
        "transitionFromDedicatedConfigServer",
        Access::Cluster(&[A::TransitionFromDedicatedConfigServer]),
        NO_METADATA,
    ),
    row(
        "transitionToDedicatedConfigServer",
        Access::Cluster(&[A::TransitionToDedicatedConfigServer]),
        NO_METADATA,
    ),
    row("updateZoneKeyRange", Access::By(may_set_zones), BY_STORE),
];

/// Zones are documents of config.shards and config.tags.
fn may_set_zones(asking: &Asking<'_>, _: &Request<'_>) -> Result<bool> {
    let may_update = |name: &str| asking.on_collection("config", name, A::Update);
    Ok(asking.on_cluster(A::EnableSharding) || (may_update("shards") && may_update("tags")))
}

/// The answer of all of them.
fn refuse(_: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    bail!(Code::ILLEGAL_OPERATION, "{} is not supported: {}", req.command.name, req.command.help)
}
