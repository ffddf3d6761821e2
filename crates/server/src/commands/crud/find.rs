//! `find`: the documents that match a filter.
//!
//! A filter on `_id` alone is answered without planning (`point_read`): one read, and no allocation once the
//! buffers of the connection are warm. The test `allocations` checks this. All other requests go through
//! `nagi_query::find`.

use nagi_lang::collation::Asked;
use nagi_query::{Explained, FindRequest, Hint, Searched, Verbosity};
use nagi_store::{Namespace, RecordKey, Store};

use super::encryption;
use super::representative::{self, refuse_own};
use crate::commands::common::{check_uuid_arg, namespace, refuse_term};
use crate::core::batch::{self, FirstBatch};
use crate::core::command::prelude::*;
use crate::core::producer::Producer;

pub(in crate::commands) static FIND: Command = Command {
    facts: Facts {
        name: "find",
        help: "Returns the documents of a collection that match a filter.",
        read_concern: true,
        reads_config: true,
        snapshot_read: true,
        api_v1: true,
        on_collection: true,
        counts_as: OpKind::Query,
        latency: LatencyKind::Read,
        in_transaction: true,
        query_stats: true,
        operators: &[("filter", Holds::Filter), ("projection", Holds::Projection)],
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    explain: Some(explain),
    audited: None,
    check_settings: Some(check_settings),
};

args! { "find" => Args {
    collection:       Value<'a>           = "find",
    filter:           Option<Doc<'a>>     = "filter",
    projection:       Option<Doc<'a>>     = "projection",
    sort:             Option<Doc<'a>>     = "sort",
    hint:             Value<'a>           = "hint",
    skip:             Option<NonNegative> = "skip",
    limit:            Option<NonNegative> = "limit",
    batch_size:       Option<NonNegative> = "batchSize",
    ntoreturn:        Option<NonNegative> = "ntoreturn",
    single_batch:     Option<Switch>      = "singleBatch",
    max:              Option<Doc<'a>>     = "max",
    min:              Option<Doc<'a>>     = "min",
    return_key:       Option<Switch>      = "returnKey",
    show_record_id:   Option<Switch>      = "showRecordId",
    tailable:         Option<Switch>      = "tailable",
    await_data:       Option<Switch>      = "awaitData",
    no_timeout:       Option<Switch>      = "noCursorTimeout",
    partial_results:  Option<Switch>      = "allowPartialResults",
    oplog_replay:     Option<Switch>      = "oplogReplay",
    collation:        Option<Doc<'a>>     = "collation",
    allow_disk_use:   Option<Switch>      = "allowDiskUse",
    let_vars:         Option<Doc<'a>>     = "let",
    request_token:    Option<Switch>        = "$_requestResumeToken",
    resume_after:     Option<Doc<'a>>     = "$_resumeAfter",
    query_stats:      Option<StrictBool>        = "includeQueryStatsMetrics",
    term:             Option<Long>        = "term",
    read_once:        Option<Switch>        = "readOnce",
    collection_uuid:  Value<'a>           = "collectionUUID",
    encryption:       Value<'a>           = "encryptionInformation",
}}

/// A client that names the collection by UUID also needs the privilege `useUUID`.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    if let Some(collection) = crate::core::access::collection(req) {
        return Ok(asking.on_collection(req.db, collection, Action::Find));
    }
    // Before it is looked up: whether it exists is not for others.
    if !asking.on_cluster(Action::UseUUID) {
        return Ok(false);
    }
    let value = req.body.first().map_or(Value::Missing, |e| e.value());
    let ns = by_uuid(&asking.server.store, value)?;
    Ok(asking.on_collection(ns.database(), ns.collection(), Action::Find))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if !matches!(args.collection, Value::String(_)) {
        let ns = by_uuid(cx.store(), args.collection)?;
        return run_on(cx, req, &args, &ns, out);
    }
    let name = args.collection.as_str().unwrap_or("");
    let ns = cx.connection.namespace(req.db, name)?;
    let result = run_on(cx, req, &args, &ns, out);
    cx.connection.keep_namespace(ns);
    result
}

/// The namespace of a collection that is named by its UUID.
fn by_uuid(store: &Store, value: Value<'_>) -> Result<Namespace> {
    if !matches!(value, Value::Binary(binary) if binary.subtype == 4) {
        bail!(Code::INVALID_NAMESPACE, "collection name has invalid type {}", value.kind().name());
    }
    let uuid = crate::commands::common::uuid("find.find", value)?;
    match store.catalog().by_uuid(uuid) {
        Some(collection) => Ok(collection.namespace.clone()),
        None => bail!(Code::NAMESPACE_NOT_FOUND, "No collection found with UUID {uuid}"),
    }
}

/// Answers a lookup by `_id` alone. Returns false if the request has to be planned instead.
fn point_read(
    cx: &mut Context<'_>,
    ns: &Namespace,
    id: Value<'_>,
    out: &mut DocWriter<'_>,
) -> Result<bool> {
    let mut buffer = std::mem::take(&mut cx.connection.record);
    let Some(found) = cx.store().point_read(ns, id, &mut buffer)? else {
        cx.connection.record = buffer;
        return point_read_bound(cx, ns, id, out);
    };
    batch::reply_point(cx, found, ns.as_str(), out)?;
    cx.connection.record = buffer;
    Ok(true)
}

/// The same for a lookup within a transaction.
fn point_read_bound(
    cx: &mut Context<'_>,
    ns: &Namespace,
    id: Value<'_>,
    out: &mut DocWriter<'_>,
) -> Result<bool> {
    let Some(collection) = cx.store().collection(ns).filter(|found| !found.is_view()) else {
        return Ok(false);
    };
    let mut buffer = std::mem::take(&mut cx.connection.record);
    let found = cx.store().find_by_id(&collection, id, &mut buffer)?;
    batch::reply_point(cx, found, ns.as_str(), out)?;
    cx.connection.record = buffer;
    Ok(true)
}

fn run_on(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    args: &Args<'_>,
    ns: &Namespace,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    check(args)?;
    check_uuid_arg(cx, ns, "find", args.collection_uuid)?;
    let encryption = encryption::parse(cx, ns, args.encryption)?;
    let mut request = to_request(args, ns)?;
    if args.batch_size != Some(Within(0))
        && args.query_stats != Some(StrictBool(true))
        && let Some(id) = request.point()
        && point_read(cx, ns, id, out)?
    {
        return Ok(());
    }
    request.options = cx.server.query_options(args.allow_disk_use.map(|on| on.0));
    let settings = cx.server.settings.query_settings.of_running(req)?;
    let of = (encryption.as_ref(), ns);
    let searched = Searched::Filter(request.filter);
    let mut execution = encryption::search(cx, of, searched, &|_| true, &mut |cx, searched| {
        let request = FindRequest { filter: encryption::filter_of(searched), ..request };
        let watch = cx.watch();
        let env = cx.env(&watch).with_settings(settings.clone());
        nagi_query::find(cx.store(), &request, &env)
    })?;
    if req.generic.read_concern.is_of_durable() {
        execution.show_durable_log();
    }
    let how = FirstBatch {
        count: args.batch_size.or(args.ntoreturn).map(|n| n.0),
        single: args.single_batch == Some(Switch(true)),
        no_timeout: args.no_timeout == Some(Switch(true)),
        tailable: args.tailable == Some(Switch(true)),
        await_data: args.await_data == Some(Switch(true)),
        metrics: args.query_stats == Some(StrictBool(true)),
    };
    let producer = Producer::Query(Box::new(execution));
    batch::reply_first(cx, req, producer, ns.as_str(), how, out)
}

/// Refuses combinations of arguments that exclude each other.
fn check(args: &Args<'_>) -> Result<()> {
    let set = |flag: Option<Switch>| flag == Some(Switch(true));
    if set(args.await_data) && !set(args.tailable) {
        bail!(Code::FAILED_TO_PARSE, "Cannot set 'awaitData' without also setting 'tailable'");
    }
    if set(args.tailable) && set(args.single_batch) {
        bail!(Code::BAD_VALUE, "cannot use tailable option with the 'singleBatch' option");
    }
    let sorted = args.sort.is_some_and(|sort| !sort.is_empty() && !is_natural(Value::Doc(sort)));
    if set(args.tailable) && sorted {
        bail!(Code::BAD_VALUE, "cannot use tailable option with a sort other than {{$natural: 1}}");
    }
    refuse_term(args.term.is_some())?;
    check_token(args, sorted)
}

/// Returns true for `{$natural: 1}`.
fn is_natural(order: Value<'_>) -> bool {
    let order = order.as_doc().unwrap_or(Doc::EMPTY);
    order.count() == 1 && crate::number::truncate(order.get("$natural")) == Some(1)
}

/// Checks the preconditions of `$_requestResumeToken` and `$_resumeAfter`.
fn check_token(args: &Args<'_>, sorted: bool) -> Result<()> {
    let after = args.resume_after.filter(|token| !token.is_empty());
    if args.request_token != Some(Switch(true)) {
        if after.is_some() {
            bail!(
                Code::BAD_VALUE,
                "'requestResumeToken' must be true if 'resumeAfter' is specified"
            );
        }
        return Ok(());
    }
    if !is_natural(args.hint) {
        bail!(Code::BAD_VALUE, "hint must be {{$natural:1}} if 'requestResumeToken' is enabled");
    }
    if sorted {
        bail!(
            Code::BAD_VALUE,
            "sort must be unset or {{$natural:1}} if 'requestResumeToken' is enabled"
        );
    }
    if after.is_some_and(|token| !is_token(token)) {
        bail!(
            Code::BAD_VALUE,
            "Malformed resume token: the '_resumeAfter' object must contain exactly one field named \
             '$recordId', of type NumberLong, BinData or jstNULL."
        );
    }
    Ok(())
}

/// Returns true if the token has the form `{$recordId: <long, binary or null>}`.
fn is_token(token: Doc<'_>) -> bool {
    let id = token.get("$recordId");
    token.count() == 1 && matches!(id, Value::Int64(_) | Value::Binary(_) | Value::Null)
}

/// The record after which the scan continues. Null, the token of an empty collection, starts at the beginning.
fn token_record(token: Doc<'_>) -> Option<RecordKey<'_>> {
    RecordKey::of_value(token.get("$recordId"))
}

pub(in crate::commands) fn to_request<'a>(
    args: &Args<'a>,
    ns: &'a Namespace,
) -> Result<FindRequest<'a>> {
    Ok(FindRequest {
        filter: args.filter.unwrap_or(Doc::EMPTY),
        projection: args.projection.unwrap_or(Doc::EMPTY),
        sort: args.sort.unwrap_or(Doc::EMPTY),
        hint: Hint::parse(args.hint)?,
        skip: args.skip.map_or(0, |n| n.0 as u64),
        limit: args.limit.map(|n| n.0 as u64).filter(|n| *n > 0),
        min: args.min.unwrap_or(Doc::EMPTY),
        max: args.max.unwrap_or(Doc::EMPTY),
        return_key: args.return_key == Some(Switch(true)),
        show_record_id: args.show_record_id == Some(Switch(true)),
        let_vars: args.let_vars.unwrap_or(Doc::EMPTY),
        tailable: args.tailable == Some(Switch(true)),
        request_token: args.request_token == Some(Switch(true)),
        resume_after: args.resume_after.and_then(token_record),
        collation: Asked::parse(args.collation)?,
        ..FindRequest::new(ns)
    })
}

/// What `explain` shows of it.
fn explain(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    verbosity: Verbosity,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.as_str().unwrap_or(""))?;
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    let filter =
        encryption::filter(cx, encryption.as_ref(), &ns, args.filter.unwrap_or(Doc::EMPTY))?;
    let mut request = to_request(&args, &ns)?;
    request.filter = filter.as_ref().map_or(request.filter, |filter| filter.as_doc());
    request.options = cx.server.query_options(args.allow_disk_use.map(|on| on.0));
    super::explain::write(cx, req, &Explained::Find(request), verbosity, out)
}

/// Checks a query by which query settings are set: see [`super::representative`].
fn check_settings(cx: &Context<'_>, req: &Request<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.as_str().unwrap_or(""))?;
    refuse_own(ns.database(), ns.collection())?;
    let request = to_request(&args, &ns)?;
    if request.point().is_some() {
        bail!(
            Code::Location(7_746_606),
            "setQuerySettings command cannot be used on find queries eligible for IDHACK"
        );
    }
    representative::check(cx, &Explained::Find(request))
}
