//! `count`: the number of documents that match a filter. Without a filter it is the collection's own counter.

use nagi_bson::number::{self, NotInteger};
use nagi_lang::collation::Asked;
use nagi_query::{CountRequest, Explained, Hint, Searched, Verbosity};
use nagi_store::Namespace;

use super::encryption;
use crate::args::Field;
use crate::commands::common::{check_uuid_arg, namespace};
use crate::core::command::prelude::*;

pub(in crate::commands) static COUNT: Command = Command {
    facts: Facts {
        name: "count",
        help: "Counts the documents of a collection that match a filter.",
        read_concern: true,
        reads_config: true,
        api_v1: true,
        on_collection: true,
        latency: LatencyKind::Read,
        transaction_advice: " Please see http://dochub.mongodb.org/core/transaction-count for a recommended \
             alternative.",
        query_stats: true,
        operators: &[("query", Holds::Filter)],
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::Find]),
    run,
    explain: Some(explain),
    ..Command::ROW
};

args! { "count" => Args {
    collection:      Name<'a>            = "count",
    query:           Option<Doc<'a>>     = "query",
    limit:           Option<Limit>       = "limit",
    skip:            Option<Skip>        = "skip",
    hint:            Value<'a>           = "hint",
    collation:       Option<Doc<'a>>     = "collation",
    fields:          Value<'a>           = "fields",
    collection_uuid: Value<'a>           = "collectionUUID",
    encryption:      Value<'a>           = "encryptionInformation",
}}

/// The argument `limit`: the largest result; 0 means no limit. A negative limit stands for its absolute value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit(u64);

impl<'a> FromArg<'a> for Limit {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match whole(value, field, number::integer)? {
            i64::MIN => bail!(Code::BAD_VALUE, "limit value for count cannot be min long"),
            limit => Ok(Limit(limit.unsigned_abs())),
        }
    }
}

/// The argument `skip`: how many matching documents are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Skip(u64);

impl<'a> FromArg<'a> for Skip {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        whole(value, field, number::non_negative_integer).map(|skip| Skip(skip.unsigned_abs()))
    }
}

/// Reads a number without rounding it, because a rounded fraction would change the count (2, 9).
fn whole(
    value: Value<'_>,
    field: Field,
    read: fn(Value<'_>) -> std::result::Result<i64, NotInteger>,
) -> Result<i64> {
    read(value).map_err(|reason| match reason {
        NotInteger::NotNumber => {
            err!(Code::BAD_VALUE, "{} value is not a valid number", field.name)
        }
        reason => err!(Code::FAILED_TO_PARSE, "{}", reason.describe(field.name, value)),
    })
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    check_uuid_arg(cx, &ns, "count", args.collection_uuid)?;
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    let mut request = to_request(&args, &ns)?;
    request.options = cx.server.query_options(None);
    let of = (encryption.as_ref(), &ns);
    let searched = Searched::Filter(request.filter);
    let counted = encryption::search(cx, of, searched, &|_| true, &mut |cx, searched| {
        let request = CountRequest { filter: encryption::filter_of(searched), ..request };
        let watch = cx.watch();
        let env = cx.env(&watch);
        let counted = nagi_query::count(cx.store(), &request, &env);
        cx.effects.note(&env);
        counted
    })?;
    cx.op.set_plan_summary(&counted.plan_summary);
    cx.done.note(&counted.stats);
    cx.done.found_values = 1;
    match i32::try_from(counted.count) {
        Ok(count) => out.put("n", count),
        Err(_) => out.put("n", counted.count),
    }
    Ok(())
}

pub(super) fn to_request<'a>(args: &Args<'a>, ns: &'a Namespace) -> Result<CountRequest<'a>> {
    Ok(CountRequest {
        filter: args.query.unwrap_or(Doc::EMPTY),
        skip: args.skip.map_or(0, |n| n.0),
        limit: args.limit.map(|n| n.0).filter(|n| *n > 0),
        hint: Hint::parse(args.hint)?,
        collation: Asked::parse(args.collation)?,
        ..CountRequest::new(ns)
    })
}

/// Writes the `explain` reply.
fn explain(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    verbosity: Verbosity,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    let filter =
        encryption::filter(cx, encryption.as_ref(), &ns, args.query.unwrap_or(Doc::EMPTY))?;
    let mut request = to_request(&args, &ns)?;
    request.filter = filter.as_ref().map_or(request.filter, |filter| filter.as_doc());
    super::explain::write(cx, req, &Explained::Count(request), verbosity, out)
}
