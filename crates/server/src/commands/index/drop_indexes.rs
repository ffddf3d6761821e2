//! `dropIndexes` (old name `deleteIndexes`): drops indexes of a collection.

use nagi_store::IndexSelector;

use crate::commands::common::{namespace, refuse_view};
use crate::core::command::prelude::*;

pub(in crate::commands) static DROP_INDEXES: Command = Command {
    facts: Facts {
        name: "dropIndexes",
        aliases: &["deleteIndexes"],
        help: "Drops indexes of a collection.",
        write: true,
        api_v1: true,
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::DropIndex]),
    run,
    ..Command::ROW
};

args! { "dropIndexes" => Args {
    collection: Option<Name<'a>> = "dropIndexes",
    old_name:   Option<Name<'a>> = "deleteIndexes",
    index:      Value<'a>        = "index",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let name = args.collection.or(args.old_name).map_or("", |name| name.0);
    let ns = namespace(req.db, name)?;
    let which = match args.index {
        Value::String("*") => IndexSelector::All,
        Value::String(name) => IndexSelector::Name(name),
        Value::Doc(key) => IndexSelector::Key(key),
        Value::Array(names) => {
            let text = |value: Value<'_>| {
                err!(
                    Code::TYPE_MISMATCH,
                    "BSON field 'dropIndexes.index' is the wrong type '{}', expected type 'string'",
                    value.kind().name()
                )
            };
            let names = names.iter().map(|v| v.as_str().ok_or_else(|| text(v)));
            IndexSelector::Names(names.collect::<Result<_>>()?)
        }
        Value::Missing | Value::Null | Value::Undefined => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field 'dropIndexes.index' is missing but a required field"
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'dropIndexes.index' is the wrong type '{}', expected types '[string, array, \
             object]'",
            other.kind().name()
        ),
    };
    let buckets = cx.store().buckets_of(&ns);
    let series = buckets.as_ref().and_then(|buckets| buckets.options.timeseries.clone());
    let key = match (&series, &which) {
        (Some(series), IndexSelector::Key(key)) => Some(series.key_of_buckets(*key)?),
        _ => None,
    };
    let which = key.as_ref().map_or(which, |key| IndexSelector::Key(key.as_doc()));
    let ns = match buckets {
        Some(buckets) => buckets.namespace.clone(),
        None => {
            refuse_view(cx, &ns)?;
            ns
        }
    };
    let _writing = cx.begin_write(req.db)?;
    let all = matches!(which, IndexSelector::All);
    let before = cx.store().drop_indexes(&ns, which)?;
    out.put("nIndexesWas", before as i32);
    if all {
        out.put("msg", "non-_id indexes dropped for collection");
    }
    Ok(())
}
