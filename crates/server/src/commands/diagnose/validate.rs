//! `validate`: reads everything of a collection and compares records, index keys and counters.

use crate::command::prelude::*;
use crate::commands::common::{namespace, refuse_view};

pub(in crate::commands) static VALIDATE: Command = Command {
    name: "validate",
    help: "Checks records and indexes of a collection against each other.",
    access: Access::Collection(&[Action::Validate]),
    on_collection: true,
    run,
    ..Command::ROW
};

args! { "validate" => Args {
    collection:        Name<'a>  = "validate",
    full:              Value<'a> = "full",
    repair:            Value<'a> = "repair",
    metadata:          Value<'a> = "metadata",
    scandata:          Value<'a> = "scandata",
    background:        Value<'a> = "background",
    check_conformance: Value<'a> = "checkBSONConformance",
    enforce_fast:      Value<'a> = "enforceFastCount",
    fix_multikey:      Value<'a> = "fixMultikey",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    refuse_view(cx, &ns)?;
    if args.repair.is_truthy() {
        bail!(Code::NOT_IMPLEMENTED, "validate cannot repair yet");
    }
    let Some(collection) = cx.store().collection(&ns) else {
        bail!(Code::NAMESPACE_NOT_FOUND, "Collection '{ns}' does not exist to validate.");
    };
    let report = cx.store().validate(&collection)?;
    out.put("ns", ns.as_str());
    let bytes = &collection.uuid.0;
    out.put("uuid", Value::Binary(nagi_bson::Binary { subtype: 4, bytes }));
    out.put("nInvalidDocuments", 0_i64);
    out.put("nNonCompliantDocuments", 0_i64);
    out.put("nrecords", report.record_count);
    out.put("nIndexes", collection.indexes.len() as i32);
    out.doc("keysPerIndex", |doc| {
        for (name, count) in &report.index_keys {
            doc.put(name, *count);
        }
    });
    let valid = report.errors.is_empty();
    out.doc("indexDetails", |doc| {
        for (name, _) in &report.index_keys {
            doc.doc(name, |index| index.put("valid", valid));
        }
    });
    out.put("valid", valid);
    out.put("repaired", false);
    out.put("warnings", Array::EMPTY);
    out.array("errors", |list| report.errors.iter().for_each(|error| list.push(error)));
    for name in ["extraIndexEntries", "missingIndexEntries", "corruptRecords"] {
        out.put(name, Array::EMPTY);
    }
    Ok(())
}
