//! `aggregate`: runs a pipeline of stages over a collection, over a view, or without a collection (`aggregate:
//! 1`).

use nagi_lang::collation::Asked;
use nagi_query::{AggregateRequest, Explained, Hint, RunsOn, Searched, Use, Verbosity};
use nagi_store::Namespace;

use super::representative::{self, refuse_own};
use super::{encryption, own_stages, pipeline_rules};
use crate::args::Field;
use crate::commands::common::{CursorOption, check_uuid_arg, namespace};
use crate::core::batch::{self, FirstBatch};
use crate::core::command::prelude::*;
use crate::core::producer::Producer;
use crate::settings::query_settings::unrejectable;

pub(in crate::commands) static AGGREGATE: Command = Command {
    facts: Facts {
        name: "aggregate",
        help: "Runs a pipeline of stages over a collection.",
        secret: Secret::Pipeline,
        write: true,
        read_concern: true,
        reads_config: true,
        snapshot_read: true,
        api_v1: true,
        on_collection: true,
        latency: LatencyKind::Read,
        in_transaction: true,
        without_ticket: |body| {
            let pipeline = body.get("pipeline").as_array().unwrap_or(Array::EMPTY);
            body.first().is_some_and(|first| first.value().is_number())
                && !nagi_query::opens_change_stream(pipeline)
        },
        query_stats: true,
        operators: &[("pipeline", Holds::Pipeline)],
        ..Facts::ROW
    },
    access: Access::By(super::pipeline_access::access),
    run,
    explain: Some(explain),
    audited: None,
    check_settings: Some(check_settings),
};

args! { "aggregate" => Args {
    collection:      Value<'a>        = "aggregate",
    pipeline:        Array<'a>        = "pipeline",
    explain:         Option<Explain>  = "explain",
    cursor:          Value<'a>        = "cursor",
    allow_disk_use:  Option<Switch>   = "allowDiskUse",
    bypass:          Option<bool>     = "bypassDocumentValidation",
    collation:       Option<Doc<'a>>  = "collation",
    hint:            Value<'a>        = "hint",
    let_vars:        Option<Doc<'a>>  = "let",
    needs_merge:     Option<Switch>     = "needsMerge",
    from_mongos:     Option<Switch>     = "fromMongos",
    collection_uuid: Value<'a>        = "collectionUUID",
    encryption:      Value<'a>        = "encryptionInformation",
    exchange:        Option<Doc<'a>>  = "exchange",
    request_token:   Option<Switch>     = "$_requestResumeToken",
    query_stats:     Option<StrictBool>     = "includeQueryStatsMetrics",
}}

/// The argument `explain`: a boolean. Null and all other types are refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) struct Explain(pub(in crate::commands) bool);

impl<'a> FromArg<'a> for Explain {
    const TAKES_NULL: bool = false;

    fn from_value(value: Value<'a>, _: Field) -> Result<Self> {
        match value {
            Value::Bool(given) => Ok(Explain(given)),
            _ => bail!(
                Code::TYPE_MISMATCH,
                "explain must be a boolean, not a {}",
                value.kind().name()
            ),
        }
    }
}

impl<'a> Args<'a> {
    /// The namespace of the request. `aggregate: 1` names no collection, so it gets a name that no collection
    /// has.
    pub(in crate::commands) fn namespace(&self, db: &str) -> Result<Namespace> {
        match self.collection {
            Value::String(_) if runs_on(self.pipeline) == RunsOn::Database => {
                let stage = first_stage(self.pipeline);
                bail!(Code::INVALID_NAMESPACE, "'{stage}' can only be run with {{aggregate: 1}}")
            }
            Value::String(name) => namespace(db, name),
            value if nagi_bson::number::as_f64(value) == Some(1.0) => {
                collectionless(db, self.pipeline)
            }
            value if value.is_number() => {
                bail!(
                    Code::FAILED_TO_PARSE,
                    "Invalid command format: the 'aggregate' field must \
                       specify a collection name or 1"
                )
            }
            other => {
                bail!(Code::BAD_VALUE, "collection name has invalid type {}", other.kind().name())
            }
        }
    }

    pub(in crate::commands) fn request<'r>(&self, ns: &'r Namespace) -> Result<AggregateRequest<'r>>
    where
        'a: 'r,
    {
        Ok(AggregateRequest {
            let_vars: self.let_vars.unwrap_or(Doc::EMPTY),
            hint: Hint::parse(self.hint)?,
            collation: Asked::parse(self.collation)?,
            bypass_validation: self.bypass == Some(true),
            ..AggregateRequest::new(ns, self.pipeline)
        })
    }
}

/// The name of the first stage; empty if the pipeline is empty.
fn first_stage(pipeline: Array<'_>) -> &str {
    let first = pipeline.iter().next().and_then(|stage| stage.as_doc()?.first());
    first.map_or("", |stage| stage.name())
}

/// True for an `aggregate` that opens a change stream.
pub(crate) fn opens_change_stream(req: &Request<'_>) -> bool {
    let pipeline = req.body.get("pipeline").as_array().unwrap_or(Array::EMPTY);
    req.command.name == AGGREGATE.facts.name && nagi_query::opens_change_stream(pipeline)
}

fn runs_on(pipeline: Array<'_>) -> RunsOn {
    nagi_query::stage_facts(first_stage(pipeline)).runs_on
}

/// The namespace of a pipeline without a collection. Its first stage must produce documents itself.
fn collectionless(db: &str, pipeline: Array<'_>) -> Result<Namespace> {
    if pipeline.is_empty() {
        bail!(Code::INVALID_NAMESPACE, "{{aggregate: 1}} is not valid for an empty pipeline.");
    }
    let first = pipeline.iter().next().and_then(|v| v.as_doc()).and_then(|d| d.first());
    if let Some(stage) = first
        && nagi_query::stage_facts(stage.name()).runs_on == RunsOn::Collection
        && nagi_query::stage_names().any(|name| name == stage.name())
    {
        bail!(
            Code::INVALID_NAMESPACE,
            "{{aggregate: 1}} is not valid for '{}'; a collection is required.",
            stage.name()
        );
    }
    nowhere(db)
}

/// A namespace that no collection has.
fn nowhere(db: &str) -> Result<Namespace> {
    Namespace::new(db, nagi_query::COLLECTIONLESS)
}

/// Refuses the arguments that routers of a sharded cluster send to shards, and a resume token, which only the
/// oplog and change streams have.
fn check_internal(args: &Args<'_>) -> Result<()> {
    if args.needs_merge == Some(Switch(true)) && args.from_mongos != Some(Switch(true)) {
        bail!(
            Code::FAILED_TO_PARSE,
            "Cannot specify 'needsMerge' without also specifying 'fromMongos'"
        );
    }
    if args.needs_merge == Some(Switch(true)) || args.exchange.is_some() {
        bail!(Code::ILLEGAL_OPERATION, "'needsMerge' and 'exchange' are for shards of a cluster");
    }
    if args.request_token == Some(Switch(true)) {
        bail!(
            Code::FAILED_TO_PARSE,
            "$_requestResumeToken is only supported on the oplog or a change stream"
        );
    }
    Ok(())
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    cx.done.change_stream = nagi_query::opens_change_stream(args.pipeline);
    own_stages::check(cx, req, &args)?;
    if args.explain == Some(Explain(true)) {
        return super::explain::explain_aggregate(cx, req, &args, out);
    }
    let cursor = match args.cursor {
        Value::Doc(doc) => CursorOption::parse("aggregate", Some(doc))?,
        value if value.is_nullish() => bail!(
            Code::FAILED_TO_PARSE,
            "The 'cursor' option is required, except for aggregate with the explain argument"
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'aggregate.cursor' is the wrong type '{}', expected type 'object'",
            other.kind().name()
        ),
    };
    let ns = args.namespace(req.db)?;
    check_internal(&args)?;
    pipeline_rules::check_concern(req, args.pipeline)?;
    pipeline_rules::check_api(req, args.pipeline)?;
    check_uuid_arg(cx, &ns, "aggregate", args.collection_uuid)?;
    let own = own_stages::replace(cx, req, &args)?;
    let encryption = encryption::parse_joined(cx, args.encryption)?;
    let mut _writing = None;
    let mut targets = Vec::new();
    let writes = nagi_query::writes(args.pipeline);
    if writes {
        cx.op.watch_peer(false, cx.started);
        _writing = Some(cx.begin_write("admin")?);
        let pipeline = own.as_ref().map_or(args.pipeline, |own| own.pipeline.as_array());
        let request = AggregateRequest { pipeline, ..args.request(&ns)? };
        for touch in nagi_query::touches(&request)? {
            if matches!(touch.usage, Use::Insert | Use::Update | Use::Remove) {
                cx.check_write_block(touch.namespace.database())?;
                targets.push(touch.namespace);
            }
        }
    }
    let settings = cx.server.settings.query_settings.of_running(req)?;
    let of = (encryption.as_ref(), &ns);
    let pipeline = own.as_ref().map_or(args.pipeline, |own| own.pipeline.as_array());
    let searched = Searched::Pipeline(pipeline);
    let mut execution = encryption::search(cx, of, searched, &|_| !writes, &mut |cx, searched| {
        // The server produces these documents itself, so the request reads no collection. `ns` could be a view,
        // whose pipeline would run first.
        let nowhere = nowhere(req.db)?;
        let mut request = args.request(if own.is_some() { &nowhere } else { &ns })?;
        let host = cx.server.host_and_port();
        request.host = &host;
        request.options = cx.server.query_options(args.allow_disk_use.map(|on| on.0));
        request.pipeline = encryption::pipeline_of(searched);
        request.given = own.as_ref().and_then(|own| own.given.as_ref());
        let watch = cx.watch();
        let env = cx.env(&watch).with_settings(settings.clone());
        nagi_query::aggregate(cx.store(), &request, &env)
    })?;
    cx.server.metrics.stages.count(args.pipeline);
    if req.generic.read_concern.is_of_durable() {
        execution.show_durable_log();
    }
    let shown = shown(&args, &ns, req.db);
    let metrics = args.query_stats == Some(StrictBool(true));
    // A change stream waits for events as a tailable cursor of a capped collection does.
    let waits = execution.is_change_stream();
    let (count, tailable, await_data) = (cursor.batch_size, waits, waits);
    let how = FirstBatch { count, metrics, tailable, await_data, ..FirstBatch::DEFAULT };
    batch::reply_first(cx, req, Producer::Query(Box::new(execution)), &shown, how, out)?;
    // A time series collection that was created is a view, too.
    let series = targets.iter().find(|target| cx.store().buckets_of(target).is_some());
    series.into_iter().for_each(|series| cx.server.mirror_view(series));
    Ok(())
}

/// The namespace of the cursor.
fn shown(args: &Args<'_>, ns: &Namespace, db: &str) -> String {
    match args.collection {
        Value::String(_) => ns.as_str().to_owned(),
        _ => format!("{db}.$cmd.aggregate"),
    }
}

/// Writes the `explain` reply.
fn explain(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    verbosity: Verbosity,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let args = Args::parse(req)?;
    own_stages::check(cx, req, &args)?;
    let ns = args.namespace(req.db)?;
    let encryption = encryption::parse_joined(cx, args.encryption)?;
    let rewritten = encryption::pipeline(cx, encryption.as_ref(), &ns, args.pipeline)?;
    let mut request = args.request(&ns)?;
    if let Some(pipeline) = &rewritten {
        request.pipeline = pipeline.as_array();
    }
    request.options = cx.server.query_options(args.allow_disk_use.map(|on| on.0));
    super::explain::write(cx, req, &Explained::Aggregate(request), verbosity, out)
}

/// Checks a query by which query settings are set: see [`super::representative`].
fn check_settings(cx: &Context<'_>, req: &Request<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = args.namespace(req.db)?;
    let on_collection = matches!(args.collection, Value::String(_));
    refuse_own(ns.database(), if on_collection { ns.collection() } else { "" })?;
    match unrejectable(req.body) {
        // The server produces the documents of some of these pipelines itself.
        Some(_) => Ok(()),
        None => representative::check(cx, &Explained::Aggregate(args.request(&ns)?)),
    }
}
