//! `mapReduce`: JavaScript functions map documents to key-value pairs and reduce the values of each key.

use nagi_bson::number;
use nagi_lang::collation::Asked;
use nagi_query::{Explained, Interrupt, MapReduceOut, MapReduceRequest, Take, Verbosity};
use nagi_store::Namespace;

use crate::clock;
use crate::commands::common::namespace;
use crate::core::command::prelude::*;
use crate::limits::BSON_OBJECT_BYTES_MAX;

mod counting;

use counting::Counting;

pub(in crate::commands) static MAP_REDUCE: Command = Command {
    facts: Facts {
        name: "mapReduce",
        aliases: &["mapreduce"],
        help: "Maps documents to pairs and reduces them by key, with JavaScript functions.",
        write: true,
        read_concern: true,
        on_collection: true,
        latency: LatencyKind::Command,
        operators: &[("query", Holds::Filter)],
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    explain: Some(explain),
    ..Command::ROW
};

args! { "mapReduce" => Args {
    collection: Option<Name<'a>>     = "mapReduce",
    old_name:   Option<Name<'a>>     = "mapreduce",
    map:        Value<'a>            = "map",
    reduce:     Value<'a>            = "reduce",
    out:        Value<'a>            = "out",
    query:      Option<Doc<'a>>      = "query",
    sort:       Option<Doc<'a>>      = "sort",
    limit:      Option<NonNegative>  = "limit",
    finalize:   Value<'a>            = "finalize",
    scope:      Option<Doc<'a>>      = "scope",
    js_mode:    Option<bool>         = "jsMode",
    verbose:    Option<bool>         = "verbose",
    collation:  Option<Doc<'a>>      = "collation",
    bypass:     Option<bool>         = "bypassDocumentValidation",
}}

impl<'a> Args<'a> {
    /// The collection. The command has two names, so its argument has two as well.
    pub(super) fn name(&self) -> &'a str {
        self.collection.or(self.old_name).map_or("", |name| name.0)
    }
}

/// The argument `out`: where the results go.
pub(super) enum Out {
    Inline,
    Replace(Namespace),
    Merge(Namespace),
    Reduce(Namespace),
}

impl Out {
    pub(super) fn parse(db: &str, value: Value<'_>) -> Result<Out> {
        let doc = match value {
            Value::String(name) => return Ok(Out::Replace(Namespace::new(db, name)?)),
            Value::Doc(doc) => doc,
            Value::Missing => bail!(
                Code::IDL_FAILED_TO_PARSE,
                "BSON field 'mapReduce.out' is missing but a required field"
            ),
            _ => bail!(Code::BAD_VALUE, "'out' must be either a string or an object"),
        };
        let (mut kind, mut target, mut database) = (None, "", db);
        for element in doc {
            match (element.name(), element.value()) {
                ("inline" | "replace" | "merge" | "reduce", _) if kind.is_some() => {
                    bail!(Code::BAD_VALUE, "'out' names more than one output type");
                }
                ("inline", value) if number::as_f64(value) == Some(1.0) => kind = Some("inline"),
                ("inline", _) => bail!(Code::BAD_VALUE, "'inline' takes only numeric '1'"),
                (name @ ("replace" | "merge" | "reduce"), Value::String(coll)) => {
                    (kind, target) = (Some(name), coll);
                }
                ("db", Value::String(name)) => database = name,
                // Both options are for sharded clusters and older versions; neither changes the results in this
                // server.
                ("sharded" | "nonAtomic", Value::Bool(_)) => {}
                (name @ ("replace" | "merge" | "reduce" | "db"), other) => bail!(
                    Code::BAD_VALUE,
                    "'{name}' of 'out' must be a string, not {}",
                    other.kind().name()
                ),
                (name @ ("sharded" | "nonAtomic"), other) => bail!(
                    Code::BAD_VALUE,
                    "'{name}' of 'out' must be a boolean, not {}",
                    other.kind().name()
                ),
                (name, _) => bail!(Code::BAD_VALUE, "unknown output option '{name}' in 'out'"),
            }
        }
        if doc.get("nonAtomic") == Value::Bool(true) && kind == Some("replace") {
            bail!(Code::Location(15895), "nonAtomic option cannot be used with this output type");
        }
        let place = || Namespace::new(database, target);
        Ok(match kind {
            Some("inline") => Out::Inline,
            Some("replace") => Out::Replace(place()?),
            Some("merge") => Out::Merge(place()?),
            Some(_) => Out::Reduce(place()?),
            None => bail!(
                Code::BAD_VALUE,
                "'out' needs one of 'inline', 'replace', 'merge' and 'reduce'"
            ),
        })
    }

    fn target(&self) -> Option<&Namespace> {
        match self {
            Out::Inline => None,
            Out::Replace(ns) | Out::Merge(ns) | Out::Reduce(ns) => Some(ns),
        }
    }
}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.name())?;
    let out = Out::parse(req.db, args.out)?;
    let needs: &[Action] = match out {
        Out::Inline => &[],
        Out::Replace(_) => &[Action::Insert, Action::Remove],
        Out::Merge(_) | Out::Reduce(_) => &[Action::Insert, Action::Update],
    };
    let may = |ns: &Namespace, action| asking.on_collection(ns.database(), ns.collection(), action);
    let writes = out.target().is_none_or(|target| {
        let bypasses = args.bypass != Some(true) || may(target, Action::BypassDocumentValidation);
        bypasses && needs.iter().all(|action| may(target, *action))
    });
    Ok(may(&ns, Action::Find) && writes)
}

/// The text of a function given as a string or as code. Returns `None` for null. The variables of code with
/// scope are added to `scope`; the last variable of a name wins.
fn function<'a>(name: &str, value: Value<'a>, scope: &mut DocBuf) -> Result<Option<&'a str>> {
    match value {
        Value::Missing | Value::Null | Value::Undefined => Ok(None),
        Value::String(text) | Value::Code(text) => Ok(Some(text)),
        Value::CodeWithScope(code) => {
            let before = std::mem::take(scope);
            *scope = DocBuf::build(|out| {
                out.extend(before.as_doc());
                out.extend(code.scope());
            });
            Ok(Some(code.code()))
        }
        _ => bail!(Code::BAD_VALUE, "'{name}' must be of string or code type"),
    }
}

fn needed<'a>(name: &str, value: Value<'a>, scope: &mut DocBuf) -> Result<&'a str> {
    function(name, value, scope)?.ok_or_else(|| {
        err!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field 'mapReduce.{name}' is missing but a required field"
        )
    })
}

/// Converts the arguments to a request, and collects the global variables of its functions.
pub(super) fn to_request<'a>(
    cx: &Context<'_>,
    args: &Args<'a>,
    ns: &'a Namespace,
    target: &'a Out,
) -> Result<(MapReduceRequest<'a>, DocBuf)> {
    let mut scope = args.scope.unwrap_or(Doc::EMPTY).to_buf();
    let request = MapReduceRequest {
        collation: Asked::parse(args.collation)?,
        namespace: ns,
        map: needed("map", args.map, &mut scope)?,
        reduce: needed("reduce", args.reduce, &mut scope)?,
        finalize: function("finalize", args.finalize, &mut scope)?,
        filter: args.query.unwrap_or(Doc::EMPTY),
        sort: args.sort.unwrap_or(Doc::EMPTY),
        limit: args.limit.map(|limit| limit.0 as u64).filter(|limit| *limit > 0),
        out: match target {
            Out::Inline => MapReduceOut::Inline,
            Out::Replace(ns) => MapReduceOut::Replace(ns),
            Out::Merge(ns) => MapReduceOut::Merge(ns),
            Out::Reduce(ns) => MapReduceOut::Reduce(ns),
        },
        bypass_validation: args.bypass == Some(true),
        options: cx.server.query_options(None),
    };
    Ok((request, scope))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.name())?;
    let target = Out::parse(req.db, args.out)?;
    let (request, scope) = to_request(cx, &args, &ns, &target)?;
    if cx.server.engines.is_none() {
        bail!(
            Code::Location(31264),
            "Cannot run server-side javascript without the javascript engine enabled"
        );
    }
    match target.target() {
        Some(_) => cx.wait_for_lock()?,
        None => cx.end_with_client(),
    }
    execute(cx, &request, scope.as_doc(), &args, out).map_err(|error| match error.code() {
        Code::COMMAND_NOT_SUPPORTED_ON_VIEW => error,
        _ => error.context("MapReduce internal error :: caused by :: "),
    })
}

/// Runs the request and writes the reply.
fn execute(
    cx: &mut Context<'_>,
    request: &MapReduceRequest<'_>,
    scope: Doc<'_>,
    args: &Args<'_>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let started = clock::now();
    let _writing = written(request.out).map(|ns| cx.begin_write(ns.database())).transpose()?;
    let watch = cx.watch();
    let counting = Counting::new(&watch, scope);
    let mut execution = nagi_query::map_reduce(cx.store(), request, &cx.env(&counting))?;
    cx.op.set_plan_summary(execution.plan_summary());
    let mut output = 0;
    match written(request.out) {
        None => out.array("results", |results| -> Result<()> {
            execution.batch(&counting, &mut |doc| {
                if results.len() + doc.len() > BSON_OBJECT_BYTES_MAX {
                    bail!(
                        Code::BSON_OBJECT_TOO_LARGE,
                        "the results of mapReduce exceed {BSON_OBJECT_BYTES_MAX} bytes: use an \
                         output collection"
                    );
                }
                results.push_doc(doc);
                output += 1;
                Ok(Take::More)
            })?;
            Ok(())
        })?,
        Some(ns) => {
            execution.batch(&counting, &mut |_| Ok(Take::More))?;
            match ns.database() == request.namespace.database() {
                true => out.put("result", ns.collection()),
                false => out.doc("result", |out| {
                    out.put("db", ns.database());
                    out.put("collection", ns.collection());
                }),
            }
            output = cx.store().collection(ns).map_or(0, |collection| collection.count());
        }
    }
    let stats = execution.stats();
    cx.done.note(&stats);
    cx.done.stages = execution.stages();
    let millis = started.elapsed().as_millis() as i64;
    out.put("timeMillis", millis as i32);
    if args.verbose == Some(true) {
        out.doc("timing", |out| {
            out.put("mode", if args.js_mode == Some(true) { "js" } else { "mixed" });
            out.put("total", millis);
        });
    }
    out.doc("counts", |out| {
        let number = |n: u64| i32::try_from(n).map_or(Value::Int64(n as i64), Value::Int32);
        let [input, emit, reduce] = counting.counts();
        out.put("input", number(input));
        out.put("emit", number(emit));
        out.put("reduce", number(reduce));
        out.put("output", number(output as u64));
    });
    Ok(())
}

/// The collection that receives the results; `None` if the reply holds them.
fn written(out: MapReduceOut<'_>) -> Option<&Namespace> {
    match out {
        MapReduceOut::Inline => None,
        MapReduceOut::Replace(ns) | MapReduceOut::Merge(ns) | MapReduceOut::Reduce(ns) => Some(ns),
    }
}

/// Writes the `explain` reply. The functions run with their scope, but nothing is written.
fn explain(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    verbosity: Verbosity,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.name())?;
    let target = Out::parse(req.db, args.out)?;
    let (request, scope) = to_request(cx, &args, &ns, &target)?;
    let watch = cx.watch();
    let counting = Counting::new(&watch, scope.as_doc());
    let how = (verbosity, &counting as &dyn Interrupt);
    super::explain::write_watched(cx, req, &Explained::MapReduce(request), how, out)
}
