//! `explain`: shows the plan of a command, and with higher verbosity the figures of its execution.

use nagi_query::{Explained, Verbosity};

use super::{aggregate, encryption};
use crate::clock;
use crate::commands::{self, COMPATIBLE_VERSION};
use crate::core::command::prelude::*;
use crate::request::Generic;
use crate::settings::query_settings::ShapeHash;

pub(in crate::commands) static EXPLAIN: Command = Command {
    facts: Facts {
        name: "explain",
        help: "Explains how a command is run.",
        read_concern: true,
        secret: Secret::Carried("explain", secret_of),
        encryption_in: "explain",
        api_v1: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "explain" => Args {
    explained: Doc<'a>   = "explain",
    verbosity: Value<'a> = "verbosity",
}}

fn secret_of(name: &str) -> Secret {
    commands::find(name).map_or(Secret::No, |command| command.secret)
}

/// The privileges that a command requires also allow a client to explain it.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let explained = args.explained.first().and_then(|first| commands::find(first.name()));
    // `run` refuses unknown commands.
    let Some(command) = explained else { return Ok(true) };
    crate::core::access::permits(asking, &command.access, &inner(req, &args, command)?)
}

/// The explained command as a request of its own.
fn inner<'a>(req: &Request<'a>, args: &Args<'a>, command: &'static Command) -> Result<Request<'a>> {
    Ok(Request {
        command: &command.facts,
        name: args.explained.first().map_or("", |first| first.name()),
        db: req.db,
        body: args.explained,
        sequences: req.sequences,
        generic: Generic::parse(command, args.explained)?,
        protocol: req.protocol,
        exhaust_allowed: false,
    })
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    cx.end_with_client();
    let verbosity = Verbosity::parse(args.verbosity)?;
    let Some(first) = args.explained.first() else {
        bail!(Code::COMMAND_NOT_FOUND, "Explain failed due to unknown command: ");
    };
    if let Value::String(db) = args.explained.get("$db")
        && db != req.db
    {
        bail!(
            Code::INVALID_NAMESPACE,
            "Mismatched $db in explain command. Expected {} but got {db}",
            req.db
        );
    }
    let Some(command) = commands::find(first.name()) else {
        bail!(Code::COMMAND_NOT_FOUND, "Explain failed due to unknown command: {}", first.name());
    };
    let inner = inner(req, &args, command)?;
    match command.explain {
        Some(explain) => explain(cx, &inner, verbosity, out),
        None => bail!(Code::ILLEGAL_OPERATION, "Cannot explain cmd: {}", command.name),
    }
}

/// `aggregate` with `explain: true`: shows the plan only.
pub(super) fn explain_aggregate(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    args: &aggregate::Args<'_>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    if req.generic.write_concern.is_some() {
        bail!(
            Code::FAILED_TO_PARSE,
            "Aggregation explain does not support the writeConcern option"
        );
    }
    let ns = args.namespace(req.db)?;
    let encryption = encryption::parse_joined(cx, args.encryption)?;
    let rewritten = encryption::pipeline(cx, encryption.as_ref(), &ns, args.pipeline)?;
    let mut request = args.request(&ns)?;
    if let Some(pipeline) = &rewritten {
        request.pipeline = pipeline.as_array();
    }
    request.options = cx.server.query_options(args.allow_disk_use.map(|on| on.0));
    write(cx, req, &Explained::Aggregate(request), Verbosity::QueryPlanner, out)
}

/// The one statement of an explained write batch; a batch of another size is refused.
pub(super) fn only(statements: Docs<'_>) -> Result<Doc<'_>> {
    let mut iter = statements.iter();
    match (iter.next(), iter.next()) {
        (Some(statement), None) => statement,
        _ => bail!(Code::INVALID_LENGTH, "explained write batches must be of size 1"),
    }
}

/// Writes the reply: the plan and its figures, then the explained command and the server.
pub(super) fn write(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    explained: &Explained<'_>,
    verbosity: Verbosity,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let watch = cx.watch();
    let env = cx.env(&watch).with_settings(cx.server.settings.query_settings.of(req));
    let started = cx.started;
    let clock_ms = || (clock::micros_since(started) / 1000) as i64;
    nagi_query::explain(cx.store(), explained, verbosity, &env, &clock_ms, out)?;
    if let Some(hash) = ShapeHash::of(req.db, req.body) {
        out.put("queryShapeHash", hash.hex().as_str());
    }
    out.doc("command", |doc| {
        doc.extend(req.body);
        if req.body.element("$db").is_none() {
            doc.put("$db", req.db);
        }
    });
    out.doc("serverInfo", |doc| {
        doc.put("host", cx.server.config.host.as_str());
        doc.put("port", i32::from(cx.server.config.port));
        doc.put("version", COMPATIBLE_VERSION);
        doc.put("gitVersion", cx.server.config.git_version);
    });
    out.doc("serverParameters", |doc| {
        for name in [
            "internalQueryFacetBufferSizeBytes",
            "internalLookupStageIntermediateDocumentMaxSizeBytes",
            "internalDocumentSourceGroupMaxMemoryBytes",
            "internalQueryMaxBlockingSortMemoryUsageBytes",
            "internalDocumentSourceSetWindowFieldsMaxMemoryBytes",
            "internalQueryFrameworkControl",
        ] {
            cx.server.settings.params.show(cx.server, name, doc);
        }
    });
    Ok(())
}
