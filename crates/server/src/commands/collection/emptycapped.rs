//! `emptycapped`: removes all documents of a capped collection. For tests.

use crate::commands::common::{namespace, refuse_view};
use crate::core::command::prelude::*;

pub(in crate::commands) static EMPTYCAPPED: Command = Command {
    facts: Facts {
        name: "emptycapped",
        help: "Empties a capped collection (for tests).",
        write: true,
        test_only: true,
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::Emptycapped]),
    run,
    ..Command::ROW
};

args! { "emptycapped" => Args {
    collection: Name<'a> = "emptycapped",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let collection = capped(cx, req.db, args.collection.0, "emptycapped")?;
    let _writing = cx.begin_write(req.db)?;
    cx.store().truncate_capped_after(&collection, None, &|| cx.check())
}

/// The capped collection of this name (26 if it does not exist, 166 for a view, 20 if it is not capped).
pub(super) fn capped(
    cx: &Context<'_>,
    db: &str,
    name: &str,
    command: &str,
) -> Result<std::sync::Arc<nagi_store::Collection>> {
    let ns = namespace(db, name)?;
    refuse_view(cx, &ns)?;
    let Some(collection) = cx.store().collection(&ns) else {
        bail!(Code::NAMESPACE_NOT_FOUND, "{command}: the collection {ns} does not exist");
    };
    if !collection.options.capped {
        bail!(Code::ILLEGAL_OPERATION, "Command {command} needs a capped collection");
    }
    Ok(collection)
}
