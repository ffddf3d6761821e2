//! `explain`: shows the plan of a command, and with higher verbosity the figures of its execution.
//!
//! With `hypotheticalIndexes`, an argument that MongoDB does not have, the command is explained as if these indexes
//! existed: see `hypothetical` in the crate `query`, and decision 087.

use nagi_query::{Explained, Interrupt, Side, Verbosity};

use super::{aggregate, encryption};
use crate::clock;
use crate::commands::{self, index};
use crate::core::access;
use crate::core::command::prelude::*;
use crate::core::command::{OnTrial, Sampled};
use crate::limits::COMPATIBLE_VERSION;
use crate::request::Generic;
use crate::settings::query_settings::ShapeHash;

pub(in crate::commands) static EXPLAIN: Command = Command {
    facts: Facts {
        name: "explain",
        help: "Explains how a command is run.",
        read_concern: true,
        reads_config: true,
        secret: Secret::Carried("explain", secret_of),
        encryption_in: "explain",
        api_v1: true,
        operators: &[("explain", Holds::Command)],
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "explain" => Args {
    explained:    Doc<'a>          = "explain",
    verbosity:    Value<'a>        = "verbosity",
    hypothetical: Option<Docs<'a>> = "hypotheticalIndexes",
}}

fn secret_of(name: &str) -> Secret {
    commands::find(name).map_or(Secret::No, |command| command.secret)
}

/// The privileges that a command requires also allow a client to explain it. With hypothetical indexes the caller must
/// also be allowed to read the collection: its documents are read whatever the command needs, and an error of a
/// unique index has values of them.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let explained = args.explained.first().and_then(|first| commands::find(first.name()));
    // `run` refuses unknown commands.
    let Some(command) = explained else { return Ok(true) };
    let inner = inner(req, &args, command)?;
    let reads = match (args.hypothetical, access::collection(&inner)) {
        (Some(_), Some(name)) => asking.on_collection(req.db, name, Action::Find),
        _ => true,
    };
    Ok(reads && access::permits(asking, &command.access, &inner)?)
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
    if let Some(specs) = args.hypothetical {
        cx.on_trial = Some(OnTrial::Specs(specifications(specs)?));
    }
    match command.explain {
        Some(explain) => explain(cx, &inner, verbosity, out),
        None => bail!(Code::ILLEGAL_OPERATION, "Cannot explain cmd: {}", command.name),
    }
}

/// The specifications of hypothetical indexes.
fn specifications(specs: Docs<'_>) -> Result<Vec<DocBuf>> {
    let most = nagi_query::HYPOTHETICAL_INDEXES_MAX;
    let read = |spec: Result<Doc<'_>>| {
        let spec = spec?;
        index::check_once(spec)?;
        Ok(spec.to_buf())
    };
    // One more than is allowed, which is refused later.
    specs.iter().take(most + 1).map(read).collect()
}

/// Explains `command` on the sample of `trial`, without the advised index and with it. `None` if the caller may not
/// run the command.
///
/// # Errors
/// Those of explaining the command.
pub(in crate::commands) fn try_on_sample(
    cx: &mut Context<'_>,
    (req, db): (&Request<'_>, &str),
    command: Doc<'_>,
    trial: Sampled,
) -> Result<Option<(Side, Side)>> {
    let name = command.first().map_or("", |first| first.name());
    let Some(row) = commands::find(name) else { return Ok(None) };
    let Some(explain) = row.explain else { return Ok(None) };
    let inner = Request {
        command: &row.facts,
        name,
        db,
        body: command,
        sequences: &[],
        generic: Generic::parse(row, command)?,
        protocol: req.protocol,
        exhaust_allowed: false,
    };
    if !access::permits(&cx.asking(), &row.access, &inner)? {
        return Ok(None);
    }
    cx.on_trial = Some(OnTrial::Sampled(Box::new(trial)));
    let mut unused = Vec::new();
    let explained =
        explain(cx, &inner, Verbosity::ExecutionStats, &mut DocWriter::new(&mut unused));
    let trial = cx.on_trial.take();
    explained?;
    Ok(match trial {
        Some(OnTrial::Sampled(trial)) => trial.sides,
        _ => None,
    })
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
    write_watched(cx, req, explained, (verbosity, &watch), out)
}

/// Writes the reply as [`write`] does; `watch` has the scripts.
pub(super) fn write_watched(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    explained: &Explained<'_>,
    (verbosity, watch): (Verbosity, &dyn Interrupt),
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let env = cx.env(watch).with_settings(cx.server.settings.query_settings.of(req));
    let started = cx.started;
    let clock_ms = || (clock::micros_since(started) / 1000) as i64;
    match cx.on_trial.take() {
        None => nagi_query::explain(cx.store(), explained, verbosity, &env, &clock_ms, out)?,
        Some(OnTrial::Specs(specs)) => {
            // The sample may be scanned whatever `notablescan` says: it is small.
            let env = env.with_scans_refused(false);
            let specs: Vec<Doc<'_>> = specs.iter().map(DocBuf::as_doc).collect();
            let with = (&env, &clock_ms as &dyn Fn() -> i64);
            nagi_query::explain_hypothetical(cx.store(), explained, &specs, verbosity, with, out)?;
        }
        Some(OnTrial::Sampled(mut trial)) => {
            let env = env.with_scans_refused(false);
            let side = |is_shown: &dyn Fn(&str) -> bool| {
                trial.hypothesis.side(explained, is_shown, &env, &clock_ms)
            };
            let on_trial = |name: &str| trial.indexes.iter().any(|own| own == name);
            let sides = (side(&|_| false)?, side(&on_trial)?);
            trial.sides = Some(sides);
            cx.on_trial = Some(OnTrial::Sampled(trial));
            return Ok(());
        }
    }
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
