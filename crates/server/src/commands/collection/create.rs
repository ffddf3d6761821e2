//! `create`: a collection or a view, with its options.

use crate::command::prelude::*;
use crate::commands::common::namespace;
use crate::request::is_generic;

pub(in crate::commands) static CREATE: Command = Command {
    name: "create",
    help: "Creates a collection or a view.",
    write: true,
    api_v1: true,
    on_collection: true,
    run,
    ..Command::ROW
};

args! { "create" => Args {
    collection:           Name<'a>            = "create",
    capped:               Option<bool>        = "capped",
    size:                 Option<i64>         = "size",
    max:                  Option<i64>         = "max",
    auto_index_id:        Value<'a>           = "autoIndexId",
    id_index:             Option<Doc<'a>>     = "idIndex",
    storage_engine:       Option<Doc<'a>>     = "storageEngine",
    index_defaults:       Option<Doc<'a>>     = "indexOptionDefaults",
    validator:            Option<Doc<'a>>     = "validator",
    validation_level:     Option<&'a str>     = "validationLevel",
    validation_action:    Option<&'a str>     = "validationAction",
    view_on:              Option<&'a str>     = "viewOn",
    pipeline:             Option<Array<'a>>   = "pipeline",
    collation:            Option<Doc<'a>>     = "collation",
    timeseries:           Option<Doc<'a>>     = "timeseries",
    expire_after_seconds: Value<'a>           = "expireAfterSeconds",
    clustered_index:      Value<'a>           = "clusteredIndex",
    pre_images:           Option<Doc<'a>>     = "changeStreamPreAndPostImages",
    record_pre_images:    Option<bool>        = "recordPreImages",
    encrypted_fields:     Option<Doc<'a>>     = "encryptedFields",
    temp:                 Option<bool>        = "temp",
    flags:                Value<'a>           = "flags",
    replicated_ids:       Value<'a>           = "recordIdsReplicated",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    cx.server.fsync.wait(&|| cx.check())?;
    let options = DocBuf::build(|w| {
        for element in req.body.iter().skip(1).filter(|e| !is_generic(e.name())) {
            // What old clients send and no release since has looked at.
            if !matches!(element.name(), "autoIndexId" | "flags" | "idIndex") {
                w.put(element.name(), element.value());
            }
        }
    });
    cx.store().create_collection(&ns, options.as_doc())?;
    Ok(())
}
