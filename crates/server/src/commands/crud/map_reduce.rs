//! `mapReduce`: documents to pairs, pairs reduced by key, by functions in JavaScript.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nagi_lang::script::Function;
use nagi_query::{MapReduceOut, MapReduceRequest, Take};
use nagi_store::Namespace;

use crate::clock;
use crate::command::prelude::*;
use crate::commands::common::namespace;
use crate::limits::BSON_OBJECT_BYTES_MAX;

pub(in crate::commands) static MAP_REDUCE: Command = Command {
    name: "mapReduce",
    aliases: &["mapreduce"],
    help: "Maps documents to pairs and reduces them by key, with JavaScript functions.",
    access: Access::By(access),
    write: true,
    read_concern: true,
    on_collection: true,
    latency: LatencyKind::Command,
    run,
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
    /// The collection, under either name of the command.
    fn name(&self) -> &'a str {
        self.collection.or(self.old_name).map_or("", |name| name.0)
    }
}

/// What `out` says.
enum Out {
    Inline,
    Replace(Namespace),
    Merge(Namespace),
    Reduce(Namespace),
}

impl Out {
    fn parse(db: &str, value: Value<'_>) -> Result<Out> {
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
                ("inline", value) if value.is_truthy() => kind = Some("inline"),
                ("inline", _) => bail!(Code::BAD_VALUE, "'inline' takes only numeric '1'"),
                (name @ ("replace" | "merge" | "reduce"), Value::String(coll)) => {
                    (kind, target) = (Some(name), coll);
                }
                ("db", Value::String(name)) => database = name,
                // Both are for sharded clusters and older versions; neither changes the results here.
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

/// A function that may be given as text or code; none for null where it may be left out.
fn function(name: &str, value: Value<'_>, scope: Doc<'_>) -> Result<Option<Arc<Function>>> {
    match value {
        Value::Missing | Value::Null | Value::Undefined => Ok(None),
        Value::String(text) | Value::Code(text) => Ok(Some(Function::with_scope(text, scope))),
        Value::CodeWithScope(code) => {
            // Its own variables come before those of the command.
            let both = DocBuf::build(|out| {
                out.extend(code.scope());
                for element in scope.iter().filter(|e| code.scope().get(e.name()).is_missing()) {
                    out.put_element(element);
                }
            });
            Ok(Some(Function::with_scope(code.code(), both.as_doc())))
        }
        _ => bail!(Code::BAD_VALUE, "'{name}' must be of string or code type"),
    }
}

fn needed(name: &str, value: Value<'_>, scope: Doc<'_>) -> Result<Arc<Function>> {
    function(name, value, scope)?.ok_or_else(|| {
        err!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field 'mapReduce.{name}' is missing but a required field"
        )
    })
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.name())?;
    let target = Out::parse(req.db, args.out)?;
    let scope = args.scope.unwrap_or(Doc::EMPTY);
    let request = MapReduceRequest {
        collation: nagi_lang::collation::Asked::parse(args.collation)?,
        namespace: &ns,
        map: needed("map", args.map, scope)?,
        reduce: needed("reduce", args.reduce, scope)?,
        finalize: function("finalize", args.finalize, scope)?,
        filter: args.query.unwrap_or(Doc::EMPTY),
        sort: args.sort.unwrap_or(Doc::EMPTY),
        limit: args.limit.map(|limit| limit.0 as u64).filter(|limit| *limit > 0),
        out: match &target {
            Out::Inline => MapReduceOut::Inline,
            Out::Replace(ns) => MapReduceOut::Replace(ns),
            Out::Merge(ns) => MapReduceOut::Merge(ns),
            Out::Reduce(ns) => MapReduceOut::Reduce(ns),
        },
        bypass_validation: args.bypass == Some(true),
        memory_bytes_max: cx.server.stage_memory(),
    };
    if cx.server.engines.is_none() {
        bail!(
            Code::Location(31264),
            "Cannot run server-side javascript without the javascript engine enabled"
        );
    }
    if target.target().is_some() {
        cx.op.watch_peer(false, cx.started);
        cx.server.fsync.wait(&|| cx.check())?;
    }
    execute(cx, &request, &target, &args, out).map_err(|error| match error.code() {
        Code::COMMAND_NOT_SUPPORTED_ON_VIEW => error,
        _ => error.context("MapReduce internal error :: caused by :: "),
    })
}

/// Runs it and writes the reply.
fn execute(
    cx: &mut Context<'_>,
    request: &MapReduceRequest<'_>,
    target: &Out,
    args: &Args<'_>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let started = clock::now();
    let watch = cx.watch();
    let (mut execution, counts) = nagi_query::map_reduce(cx.store(), request, &cx.env(&watch))?;
    cx.op.set_plan_summary(execution.plan_summary());
    let mut output = 0;
    match target.target() {
        None => out.array("results", |results| -> Result<()> {
            execution.batch(&watch, &mut |doc| {
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
            execution.batch(&watch, &mut |_| Ok(Take::More))?;
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
        out.put("input", number(counts.input.load(Relaxed)));
        out.put("emit", number(counts.emit.load(Relaxed)));
        out.put("reduce", number(counts.reduce.load(Relaxed)));
        out.put("output", number(output as u64));
    });
    Ok(())
}
