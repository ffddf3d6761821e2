//! `drop`: removes a collection or a view. A missing one is not an error (as of MongoDB 7.0).

use crate::commands::common::{check_uuid, namespace, uuid};
use crate::core::command::prelude::*;
use crate::upkeep::views_collection;

pub(in crate::commands) static DROP: Command = Command {
    facts: Facts {
        name: "drop",
        help: "Drops a collection or a view.",
        write: true,
        api_v1: true,
        on_collection: true,
        drops: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::DropCollection]),
    run,
    ..Command::ROW
};

args! { "drop" => Args {
    collection:      Name<'a>  = "drop",
    collection_uuid: Value<'a> = "collectionUUID",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    let expected = match args.collection_uuid {
        value if value.is_nullish() => None,
        value => Some(uuid("drop.collectionUUID", value)?),
    };
    check_uuid(cx, &ns, expected)?;
    let droppable = ["system.profile", "system.views", "system.js"];
    if ns.is_system() && !droppable.contains(&ns.collection()) && !ns.is_buckets() {
        bail!(Code::ILLEGAL_OPERATION, "can't drop system collection {ns}");
    }
    if ns.collection() == "system.profile" && cx.server.settings.profile.level(req.db) != 0 {
        bail!(
            Code::ILLEGAL_OPERATION,
            "turn off profiling before dropping system.profile collection"
        );
    }
    let _writing = cx.begin_write(req.db)?;
    if ns.collection() == views_collection::NAME && cx.store().collection(&ns).is_some() {
        cx.server.drop_views(req.db)?;
    }
    // The view is dropped together with its buckets.
    let view = ns.of_buckets().filter(|view| cx.store().buckets_of(view).is_some());
    if let Some(dropped) = cx.store().drop_collection_of(&ns, expected)? {
        if dropped.is_view() {
            cx.server.mirror_view(&ns);
        } else {
            if let Some(view) = view {
                cx.server.mirror_view(&view);
            }
            cx.server.top.forget(|name| name == ns.as_str());
            out.put("nIndexesWas", dropped.indexes.len() as i32);
        }
        out.put("ns", ns.as_str());
        if !cx.server.is_quiet() {
            log::info!(target: "COMMAND", id = 518_070, namespace = ns.as_str(); "CMD: drop");
        }
    } else {
        let missing = Code::NAMESPACE_NOT_FOUND;
        cx.connection.audit("dropCollection", missing, |out| out.put("ns", ns.as_str()));
    }
    Ok(())
}
