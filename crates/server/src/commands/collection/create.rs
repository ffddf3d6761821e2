//! `create`: creates a collection or a view with its options.

use nagi_lang::filter::EncryptedFields;
use nagi_store::Namespace;

use crate::commands::common::{check_system, namespace};
use crate::core::command::prelude::*;
use crate::request::is_generic;

pub(in crate::commands) static CREATE: Command = Command {
    facts: Facts {
        name: "create",
        help: "Creates a collection or a view.",
        secret: Secret::Pipeline,
        write: true,
        api_v1: true,
        on_collection: true,
        in_transaction: true,
        operators: &[("validator", Holds::Filter)],
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

/// The upper bound of `max`, exclusive: a capped collection has fewer documents.
const COUNT_LIMIT: i64 = 1 << 31;

args! { "create" => Args {
    collection:           Name<'a>            = "create",
    capped:               Option<bool>        = "capped",
    size:                 Option<Positive>    = "size",
    max:                  Option<Below<COUNT_LIMIT>> = "max",
    auto_index_id:        Option<bool>        = "autoIndexId",
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
    encrypted_fields:     Option<Doc<'a>>     = "encryptedFields",
    temp:                 Option<bool>        = "temp",
    flags:                Option<Truncated>   = "flags",
    replicated_ids:       Option<StrictBool>           = "recordIdsReplicated",
}}

/// The privilege to insert also allows a client to create a collection, but no view. A capped collection requires
/// `convertToCapped` in addition, and a view what [`crate::commands::crud::may_define_view`] says.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let may = |action| asking.on_collection(req.db, args.collection.0, action);
    if args.capped == Some(true) && !may(Action::ConvertToCapped) {
        return Ok(false);
    }
    if let Some(source) = args.view_on {
        let pipeline = args.pipeline.unwrap_or(Array::EMPTY);
        let view = args.collection.0;
        return Ok(may(Action::CreateCollection)
            && crate::commands::crud::may_define_view(asking, req.db, view, source, pipeline)?);
    }
    Ok(may(Action::CreateCollection) || may(Action::Insert))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    if args.view_on.is_none() {
        check_creatable(&ns)?;
    }
    check_enum("create.validationLevel", args.validation_level, LEVELS)?;
    check_enum("create.validationAction", args.validation_action, ACTIONS)?;
    if ns.is_buckets() && args.timeseries.is_none() {
        bail!(
            Code::ILLEGAL_OPERATION,
            "Creation of a timeseries bucket collection without timeseries options is not allowed"
        );
    }
    if args.timeseries.is_some() {
        super::time_series::check_options(cx, &ns, (req.body, args.capped))?;
    }
    check_capped(&args)?;
    if args.temp == Some(true) {
        bail!(Code::INVALID_OPTIONS, "the 'temp' field is an invalid option");
    }
    if let Some(index) = args.id_index {
        check_id_index(index)?;
    }
    let clustered = matches!(args.clustered_index, Value::Doc(_));
    if clustered && args.auto_index_id == Some(false) {
        bail!(
            Code::Location(6_026_501),
            "The 'clusteredIndex' option does not support {{autoIndexId: false}}"
        );
    }
    if args.auto_index_id == Some(false) && req.db != "local" {
        bail!(
            Code::Location(50001),
            "autoIndexId:false is not allowed for collection {ns} because it can be replicated"
        );
    }
    check_replicated(cx, req.db, &args)?;
    check_encrypted(cx, &args)?;
    // If the collection exists, that error is reported before errors of the view's pipeline.
    if let (Some(_), Some(pipeline), None) =
        (args.view_on, args.pipeline, cx.store().collection(&ns))
    {
        nagi_query::check_view(&ns, pipeline)?;
    }
    if cx.in_transaction() && cx.store().collection(&ns).is_some() {
        bail!(Code::NAMESPACE_EXISTS, "Collection already exists. NS: {ns}");
    }
    if cx.in_transaction() && args.view_on.is_some() {
        bail!(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Cannot create a view in a multi-document transaction"
        );
    }
    let _writing = cx.begin_write(req.db)?;
    let options = DocBuf::build(|w| options(req.body, &args, w));
    if args.timeseries.is_none() {
        cx.store().refuse_beside_buckets(&ns)?;
    }
    let created = cx.store().create_collection(&ns, options.as_doc())?;
    if created.is_view() {
        cx.server.mirror_view(&ns);
    }
    if args.auto_index_id.is_some() {
        let note = "the autoIndexId option is deprecated and will be removed in a future release";
        out.put("note", note);
    }
    Ok(())
}

/// The options in their stored form, of a request that an oplog contains: it may have `temp`.
pub(in crate::commands) fn stored_options(request: Doc<'_>) -> Result<DocBuf> {
    let args = Args::parse_doc(request)?;
    Ok(DocBuf::build(|w| options(request, &args, w)))
}

/// The valid values of `validationLevel`.
pub(super) const LEVELS: &[&str] = &["off", "strict", "moderate"];

/// The valid values of `validationAction`.
pub(super) const ACTIONS: &[&str] = &["error", "warn"];

/// Refuses a value that is not one of `values` (2). `field` includes the name of the command.
pub(super) fn check_enum(field: &str, given: Option<&str>, values: &[&str]) -> Result<()> {
    match given {
        Some(given) if !values.contains(&given) => bail!(
            Code::BAD_VALUE,
            "Enumeration value '{given}' for field '{field}' is not a valid value."
        ),
        _ => Ok(()),
    }
}

/// Checks that `size` and `max` occur only with `capped`, and that `capped` has a size (72). Clustered
/// collections have error texts of their own.
fn check_capped(args: &Args<'_>) -> Result<()> {
    let capped = args.capped == Some(true);
    if capped && args.size.is_none() {
        bail!(Code::INVALID_OPTIONS, "the 'size' field is required when 'capped' is true");
    }
    let clustered = !args.clustered_index.is_nullish();
    if !capped && !clustered && (args.size.is_some() || args.max.is_some()) {
        bail!(
            Code::INVALID_OPTIONS,
            "the 'capped' field needs to be true when either the 'size' or 'max' fields are present"
        );
    }
    Ok(())
}

/// Refuses names of collections that only the server creates (73). Clients may create again those that they may
/// drop.
fn check_creatable(ns: &Namespace) -> Result<()> {
    let allowed = matches!(ns.collection(), "system.js" | "system.profile" | "system.views")
        || ns.collection().starts_with("system.buckets.")
        || check_system(ns).is_ok();
    if !allowed {
        bail!(Code::INVALID_NAMESPACE, "Invalid system namespace: {ns}");
    }
    Ok(())
}

/// Refuses options that only a replica set has, and those that this server does not support yet.
fn check_replicated(cx: &Context<'_>, db: &str, args: &Args<'_>) -> Result<()> {
    match args.pre_images {
        Some(_) if args.view_on.is_some() => bail!(
            Code::INVALID_OPTIONS,
            "option not supported on a view: changeStreamPreAndPostImages"
        ),
        Some(images) if images.get("enabled") == Value::Bool(false) => {}
        Some(images) => check_images(cx, db, images)?,
        None => {}
    }
    match () {
        () if args.replicated_ids == Some(StrictBool(true)) => {
            bail!(Code::INVALID_OPTIONS, "recordIdsReplicated is not supported by this server")
        }
        () => Ok(()),
    }
}

/// Checks the option `changeStreamPreAndPostImages`.
pub(super) fn check_images(cx: &Context<'_>, db: &str, images: Doc<'_>) -> Result<()> {
    let is_logged = match &cx.server.router {
        Some(_) => cx.store().has_change_log(),
        None => cx.server.replica.is_some(),
    };
    if !is_logged && !cx.command.applies_log {
        bail!(
            Code::INVALID_OPTIONS,
            "BSON field changeStreamPreAndPostImages is only supported on replica sets"
        );
    }
    if let Some(other) = images.iter().find(|element| element.name() != "enabled") {
        bail!(
            Code::IDL_UNKNOWN_FIELD,
            "BSON field 'changeStreamPreAndPostImages.{}' is an unknown field.",
            other.name()
        );
    }
    match images.get("enabled") {
        Value::Bool(_) => {}
        Value::Missing => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field 'changeStreamPreAndPostImages.enabled' is missing but a required field"
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'changeStreamPreAndPostImages.enabled' is the wrong type '{}', expected type \
             'bool'",
            other.kind().name()
        ),
    }
    if matches!(db, "admin" | "config" | "local") {
        bail!(
            Code::INVALID_OPTIONS,
            "Change stream pre- and post-images are not supported on the \"{db}\" database"
        );
    }
    Ok(())
}

/// Checks that the collection may have encrypted fields, and checks their description.
fn check_encrypted(cx: &Context<'_>, args: &Args<'_>) -> Result<()> {
    let Some(config) = args.encrypted_fields else { return Ok(()) };
    if args.capped == Some(true) {
        bail!(Code::Location(6_367_301), "Encrypted fields cannot be used with capped collections");
    }
    // As by an index: documents that expire leave their tags in the state collections.
    if args.timeseries.is_none() && !args.expire_after_seconds.is_nullish() {
        bail!(Code::Location(6_346_501), "TTL indexes are not allowed on encrypted collections");
    }
    if args.view_on.is_some() || args.timeseries.is_some() {
        bail!(
            Code::Location(6_346_401),
            "Encrypted fields cannot be used with views or timeseries collections"
        );
    }
    if !cx.server.is_replicated() {
        bail!(Code::Location(6_346_402), "Encrypted collections are not supported on standalone");
    }
    EncryptedFields::check(config, args.collection.0)
}

/// Writes the options in their stored form: without those that have no meaning for this kind of collection.
fn options(body: Doc<'_>, args: &Args<'_>, out: &mut DocWriter<'_>) {
    let capped = args.capped == Some(true);
    let is_view = args.view_on.is_some();
    let clustered = matches!(args.clustered_index, Value::Doc(_));
    for element in body.iter().skip(1).filter(|e| !is_generic(e.name())) {
        let value = element.value();
        match element.name() {
            // Every collection has its `_id` index. The flags belonged to the engine MMAPv1.
            "autoIndexId" | "flags" => {}
            // A clustered collection refuses these options.
            "capped" | "size" | "max" if (!capped && !clustered) || is_view => {}
            "capped" => out.put("capped", true),
            // A disabled option is the same as an absent one.
            "changeStreamPreAndPostImages"
                if !value.as_doc().is_some_and(|doc| doc.get("enabled") == Value::Bool(true)) => {}
            "indexOptionDefaults" | "storageEngine" if is_view => {}
            "indexOptionDefaults" if value.as_doc().is_some_and(|doc| doc.is_empty()) => {}
            name => out.put(name, value),
        }
    }
    if is_view && args.pipeline.is_none() {
        out.put("pipeline", Array::EMPTY);
    }
}

fn check_id_index(index: Doc<'_>) -> Result<()> {
    let key = index.get("key").as_doc().unwrap_or(Doc::EMPTY);
    let is_id = key.count() == 1 && crate::number::truncate(key.get("_id")) == Some(1);
    if !is_id {
        bail!(
            Code::BAD_VALUE,
            "The field 'key' for an _id index must be {{_id: 1}}, but got {key}"
        );
    }
    Ok(())
}
