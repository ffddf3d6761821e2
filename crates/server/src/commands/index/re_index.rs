//! `reIndex`: rebuilds all indexes of a collection.

use nagi_store::BuildOptions;

use crate::commands::common::namespace;
use crate::core::command::prelude::*;
use crate::upkeep::pace::Pace;

pub(in crate::commands) static RE_INDEX: Command = Command {
    facts: Facts {
        name: "reIndex",
        help: "Rebuilds the indexes of a collection.",
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::ReIndex]),
    run,
    ..Command::ROW
};

args! { "reIndex" => Args {
    collection: Name<'a> = "reIndex",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    if cx.server.is_replicated() {
        bail!(
            Code::ILLEGAL_OPERATION,
            "reIndex is only allowed on a standalone mongod instance. Cannot reIndex '{ns}' while \
             replication is active"
        );
    }
    let _writing = cx.begin_write(req.db)?;
    let pace = Pace::new(&cx.server.metrics);
    let check = || {
        pace.rest();
        cx.pause_write()?;
        cx.check()
    };
    let progress = |phase: &'static str, done: i64, total: i64| {
        cx.op.set_progress(phase, done, total);
    };
    let options = BuildOptions {
        interrupt: Some(&check),
        progress: Some(&progress),
        memory_bytes: Some(super::build_memory(cx.server)),
        ..BuildOptions::default()
    };
    let count = cx.store().reindex(&ns, options)?;
    out.put("nIndexesWas", count as i32);
    out.put("nIndexes", count as i32);
    let collection = cx.store().collection(&ns);
    out.array("indexes", |list| {
        for index in collection.iter().flat_map(|c| c.ready_indexes()) {
            list.push_doc(index.spec.doc.as_doc());
        }
    });
    Ok(())
}
