//! `cloneCollectionAsCapped`: copies the newest documents of a collection to a new capped one.

use nagi_store::Collection;

use super::convert_to_capped::capped_options;
use crate::commands::common::{namespace, refuse_view};
use crate::core::command::prelude::*;

pub(in crate::commands) static CLONE_COLLECTION_AS_CAPPED: Command = Command {
    facts: Facts {
        name: "cloneCollectionAsCapped",
        help: "Copies a collection into a new capped one, the newest documents that fit.",
        write: true,
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "cloneCollectionAsCapped" => Args {
    from: Name<'a>     = "cloneCollectionAsCapped",
    to:   &'a str      = "toCollection",
    size: Truncated          = "size",
    temp: Option<bool> = "temp",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let to = |action| asking.on_collection(req.db, args.to, action);
    Ok(asking.on_collection(req.db, args.from.0, Action::Find)
        && to(Action::Insert)
        && to(Action::CreateIndex)
        && to(Action::ConvertToCapped))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let (from, to) = (namespace(req.db, args.from.0)?, namespace(req.db, args.to)?);
    let mut options = capped_options(args.size.0, args.temp)?;
    refuse_view(cx, &from)?;
    let Some(source) = cx.store().collection(&from) else {
        bail!(Code::NAMESPACE_NOT_FOUND, "source collection {from} does not exist");
    };
    if cx.store().collection(&to).is_some() {
        bail!(
            Code::NAMESPACE_EXISTS,
            "cloneCollectionAsCapped failed - destination collection {to} already exists. source \
             collection: {from}"
        );
    }
    // The copy uses the compressor of the source.
    let engine = source.options.doc.get("storageEngine");
    options = DocBuf::build(|w| {
        w.extend(options.as_doc());
        w.put("storageEngine", engine);
    });
    let _writing = cx.begin_write(req.db)?;
    let target = cx.store().create_collection(&to, options.as_doc())?;
    let copied = cx.store().copy_to_capped(&source, &target, &|| cx.check());
    copied.inspect_err(|_| give_up(cx, &target))
}

/// Drops an incomplete copy, unless its name belongs to another collection by now.
fn give_up(cx: &Context<'_>, target: &Collection) {
    let newest = cx.store().collection(&target.namespace);
    if newest.is_none_or(|newest| newest.uuid != target.uuid) {
        return;
    }
    if let Err(error) = cx.store().drop_collection(&target.namespace) {
        log::warn!(target: "STORAGE", id = 9_000_056, namespace = target.namespace.as_str(),
            error = error.message(); "Cannot drop a copy that was given up");
    }
}
