//! `collMod`: changes options of an index, a collection or a view.

use nagi_store::CollMod;

use super::create::{ACTIONS, LEVELS, check_enum};
use crate::commands::common::{check_uuid_arg, namespace};
use crate::core::command::prelude::*;

pub(in crate::commands) static COLL_MOD: Command = Command {
    facts: Facts {
        name: "collMod",
        help: "Changes options of a collection, a view or an index.",
        secret: Secret::Pipeline,
        write: true,
        api_v1: true,
        on_collection: true,
        operators: &[("validator", Holds::Filter)],
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

/// The largest `cappedSize`, in bytes.
const CAPPED_BYTES_MAX: i64 = 1 << 50;
/// The largest `cappedMax`, in documents.
const CAPPED_COUNT_MAX: i64 = i32::MAX as i64;

args! { "collMod" => Args {
    collection:           Name<'a>          = "collMod",
    index:                Option<Doc<'a>>   = "index",
    validator:            Option<Doc<'a>>   = "validator",
    validation_level:     Option<&'a str>   = "validationLevel",
    validation_action:    Option<&'a str>   = "validationAction",
    view_on:              Option<&'a str>   = "viewOn",
    pipeline:             Option<Array<'a>> = "pipeline",
    expire_after_seconds: Value<'a>         = "expireAfterSeconds",
    timeseries:           Option<Doc<'a>>   = "timeseries",
    capped_size:          Option<Within<1, CAPPED_BYTES_MAX>> = "cappedSize",
    capped_max:           Option<Within<{ i64::MIN }, CAPPED_COUNT_MAX>> = "cappedMax",
    pre_images:           Option<Doc<'a>>   = "changeStreamPreAndPostImages",
    dry_run:              Option<bool>      = "dryRun",
    collection_uuid:      Value<'a>         = "collectionUUID",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let reads = match (args.view_on, args.pipeline) {
        (None, None) => true,
        (source, pipeline) => crate::commands::crud::may_define_view(
            asking,
            req.db,
            args.collection.0,
            source.unwrap_or(args.collection.0),
            pipeline.unwrap_or(Array::EMPTY),
        )?,
    };
    Ok(reads && asking.on_collection(req.db, args.collection.0, Action::CollMod))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    if ns.is_buckets() {
        bail!(
            Code::INVALID_NAMESPACE,
            "collMod on a time-series collection's underlying buckets collection is not supported."
        );
    }
    let buckets = cx.store().buckets_of(&ns);
    if args.timeseries.is_some() && buckets.is_none() {
        bail!(Code::INVALID_OPTIONS, "'timeseries' is only supported on a time-series collection");
    }
    let uuid = check_uuid_arg(cx, &ns, "collMod", args.collection_uuid)?;
    check_enum("collMod.validationLevel", args.validation_level, LEVELS)?;
    check_enum("collMod.validationAction", args.validation_action, ACTIONS)?;
    let expire_after_seconds = expire_after(args.expire_after_seconds)?;
    check_dry_run(&args)?;
    if let Some(images) = args.pre_images {
        super::create::check_images(cx, req.db, images)?;
    }
    if let Some(pipeline) = args.pipeline {
        nagi_query::check_view(&ns, pipeline)?;
    }
    let check = || cx.check();
    let index = match (&buckets, args.index) {
        (Some(buckets), index) => super::time_series::check_changes(buckets, req.body, index)?,
        (None, index) => index.map(|index| index.to_buf()),
    };
    let changes = CollMod {
        uuid: uuid.filter(|_| buckets.is_none()),
        expire_after_seconds,
        timeseries: args.timeseries,
        index: index.as_ref().map(DocBuf::as_doc),
        validator: args.validator,
        validation_level: args.validation_level,
        validation_action: args.validation_action,
        view_on: args.view_on,
        pipeline: args.pipeline,
        dry_run: args.dry_run == Some(true),
        pre_images: args.pre_images,
        capped_size: args.capped_size.map(|n| n.0),
        capped_max: args.capped_max.map(|n| n.0),
        interrupt: Some(&check),
    };
    let _writing = cx.begin_write(req.db)?;
    let target = buckets.as_ref().map_or(&ns, |buckets| &buckets.namespace);
    let changed = cx.store().coll_mod(target, changes)?;
    if args.timeseries.is_some() || args.view_on.is_some() || args.pipeline.is_some() {
        cx.server.mirror_view(&ns);
    }
    out.extend(changed.as_doc());
    Ok(())
}

/// Parses `expireAfterSeconds`: a number of seconds, or "off", which removes the option.
fn expire_after(value: Value<'_>) -> Result<Option<Value<'_>>> {
    match value {
        Value::Missing | Value::Null => Ok(None),
        Value::String("off") => Ok(Some(Value::Missing)),
        value if value.is_number() => Ok(Some(value)),
        Value::String(text) => bail!(
            Code::INVALID_OPTIONS,
            "Invalid string value for the 'expireAfterSeconds' option. Got: '{text}'. Accepted \
             value is: 'off'"
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'collMod.expireAfterSeconds' is the wrong type '{}', expected types \
             '[string, decimal, double, long, int]'",
            other.kind().name()
        ),
    }
}

/// `dryRun` is only for the conversion to a unique index, the one change that may fail after a long scan (72).
fn check_dry_run(args: &Args<'_>) -> Result<()> {
    let converts = args.index.is_some_and(|index| !index.get("unique").is_missing());
    match args.dry_run {
        Some(true) if !converts => {
            bail!(
                Code::INVALID_OPTIONS,
                "dryRun mode is only valid for index conversions to unique"
            )
        }
        _ => Ok(()),
    }
}
