//! `update`: changes the documents that match.
//!
//! A statement commits on its own: in one transaction, or with `multi` in several. If the write concern requires
//! durability, only the last statement waits for the disk; the log keeps the order of the commits, so the
//! earlier ones are durable with it.

use nagi_lang::collation::Asked;
use nagi_query::{Explained, Hint, UpdateOutcome, UpdateStatement, Verbosity};
use nagi_store::{Durability, Namespace};

use super::insert::How;
use super::outcome::{Outcome, check_batch};
use super::statement::{self, Running};
use crate::commands::common::{check_uuid_arg, check_writable, namespace, refuse_encryption};
use crate::core::command::prelude::*;
use crate::core::numbered::{self, Codec};
use crate::request::concern::WriteConcern;

pub(in crate::commands) static UPDATE: Command = Command {
    facts: Facts {
        name: "update",
        help: "Changes documents of a collection.",
        write: true,
        api_v1: true,
        on_collection: true,
        counts_as: OpKind::Update,
        latency: LatencyKind::Write,
        in_transaction: true,
        retryable: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    explain: Some(explain),
    ..Command::ROW
};

args! { "update" => Args {
    collection:      StrictName<'a>        = "update",
    updates:         Docs<'a>        = "updates",
    ordered:         Option<StrictBool>    = "ordered",
    let_vars:        Option<Doc<'a>> = "let",
    bypass:          Option<bool>    = "bypassDocumentValidation",
    bypass_ts:       Option<bool>    = "bypassEmptyTsReplacement",
    encryption:      Value<'a>       = "encryptionInformation",
    collection_uuid: Value<'a>       = "collectionUUID",
}}

args! { "update.updates" => Statement {
    filter:         Doc<'a>           = "q",
    update:         Value<'a>         = "u",
    constants:      Option<Doc<'a>>   = "c",
    array_filters:  Option<Array<'a>> = "arrayFilters",
    hint:           Value<'a>         = "hint",
    multi:          Option<StrictBool>      = "multi",
    upsert:         Option<StrictBool>      = "upsert",
    upsert_given:   Option<bool>      = "upsertSupplied",
    collation:      Option<Doc<'a>>   = "collation",
    sort:           Option<Doc<'a>>   = "sort",
    sample_id:      Value<'a>         = "sampleId",
    zero_timestamp: Option<bool>      = "allowShardKeyUpdatesWithoutFullShardKeyInQuery",
}}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let may = |action| asking.on_collection(req.db, args.collection.0, action);
    let upserts = || {
        args.updates.iter().any(|doc| doc.is_ok_and(|doc| doc.get("upsert") == Value::Bool(true)))
    };
    let bypasses = args.bypass != Some(true) || may(Action::BypassDocumentValidation);
    Ok(may(Action::Update) && bypasses && (may(Action::Insert) || !upserts()))
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    check_writable(&ns)?;
    check_uuid_arg(cx, &ns, "update", args.collection_uuid)?;
    refuse_encryption(args.encryption)?;
    check_batch(args.updates.count())?;
    numbered::check_statements(req, args.updates.count())?;
    let _writing = cx.begin_write(req.db)?;
    let statements = args.updates.iter().map(|doc| Statement::parse_doc(doc?));
    let statements = statements.collect::<Result<Vec<_>>>()?;
    statements.iter().try_for_each(check_update)?;
    for statement in &statements {
        if let Value::Array(pipeline) = statement.update {
            nagi_lang::update::check_stages(pipeline)?;
        }
    }
    for statement in &statements {
        array_filters(statement.array_filters)?;
    }
    check_multi(cx, statements.iter().any(|s| s.multi == Some(StrictBool(true))), "multi=true")?;
    let concern = cx.write_concern(req);
    let ordered = args.ordered != Some(StrictBool(false)) || cx.in_transaction();
    let let_vars = args.let_vars.unwrap_or(Doc::EMPTY);
    let mut outcome = Outcome { modified: Some(0), ..Outcome::default() };
    let last = statements.len() - 1;
    for (index, statement) in statements.iter().enumerate() {
        let durability = end_durability(&concern, index == last);
        cx.server.metrics.ops.update.increment();
        let how = how(durability, args.bypass, args.bypass_ts);
        let id = numbered::statement_id(req, index);
        let running = Running::begin(cx, index);
        let done = update_once(cx, id, &ns, statement, let_vars, how);
        running.end(cx, req, (&statement::UPDATE, &ns, statement.source), &done, &|all, done| {
            all.matched = Some(done.matched);
            all.modified = Some(done.modified);
            all.upserted = Some(u64::from(done.upserted.is_some()));
        });
        match done {
            Ok(done) => add(&mut outcome, index, done),
            Err(error) if nagi_query::ends_command(&error) => return Err(error),
            Err(error) => {
                outcome.fail(index, error);
                if ordered {
                    break;
                }
            }
        }
    }
    settle(cx, &concern, &outcome)?;
    let modified = outcome.modified.unwrap_or(0);
    let upserted = outcome.upserted.len() as u64;
    cx.done.matched = Some(outcome.count - upserted);
    cx.done.modified = Some(modified);
    cx.done.upserted = Some(upserted);
    outcome.write(cx, req, out);
    Ok(())
}

/// Refuses statements on many documents in a retryable write (72): the record of a statement covers one
/// document.
pub(super) fn check_multi(cx: &Context<'_>, multi: bool, what: &str) -> Result<()> {
    if multi && numbered::is_retryable(cx) {
        bail!(Code::INVALID_OPTIONS, "Cannot use (or request) retryable writes with {what}");
    }
    Ok(())
}

/// How the outcome of a statement is stored in the session's records.
static OUTCOME: Codec<UpdateOutcome> = Codec {
    write: |done| {
        let changed = done.modified > 0 || done.upserted.is_some();
        changed.then(|| {
            DocBuf::build(|w| {
                w.put("n", done.matched as i64);
                w.put("nModified", done.modified as i64);
                if let Some(id) = &done.upserted {
                    w.put("upserted", id.value());
                }
            })
        })
    },
    read: |doc| {
        let number = |name| crate::number::truncate(doc.get(name)).unwrap_or(0) as u64;
        let upserted = doc.get("upserted");
        UpdateOutcome {
            matched: number("n"),
            modified: number("nModified"),
            upserted: (!upserted.is_missing()).then(|| nagi_bson::ValueBuf::new(upserted)),
        }
    },
};

/// How often a retryable upsert is retried after another client inserted a document with its key.
const UPSERT_RETRIES: u32 = 3;

/// Runs one statement. In a retryable write it takes effect once: the record of an earlier attempt answers.
pub(super) fn update_once(
    cx: &mut Context<'_>,
    id: i32,
    ns: &Namespace,
    statement: &Statement<'_>,
    let_vars: Doc<'_>,
    how: How,
) -> Result<UpdateOutcome> {
    let mut tries = 0;
    loop {
        let done = numbered::once(cx, id, how.durability, &OUTCOME, &mut |cx| {
            update_one(cx, ns, statement, let_vars, how)
        });
        match done {
            // The snapshot was too old to contain the document with that key. In a newer snapshot it may match
            // the filter.
            Err(error)
                if error.code() == Code::DUPLICATE_KEY
                    && statement.upsert == Some(StrictBool(true))
                    && numbered::is_retryable(cx)
                    && tries < UPSERT_RETRIES =>
            {
                tries += 1;
            }
            other => return other,
        }
    }
}

fn add(outcome: &mut Outcome, index: usize, done: UpdateOutcome) {
    outcome.count += done.matched;
    outcome.modified = outcome.modified.map(|sum| sum + done.modified);
    if let Some(id) = done.upserted {
        outcome.count += 1;
        outcome.upserted.push((index, id));
    }
}

pub(super) fn how(durability: Durability, bypass: Option<bool>, bypass_ts: Option<bool>) -> How {
    let (bypass, keep_empty_timestamps) = (bypass == Some(true), bypass_ts == Some(true));
    How { durability, bypass, keep_empty_timestamps }
}

/// The durability of a statement: only the last one waits for the disk, if the write concern requires that.
pub(super) fn end_durability(concern: &WriteConcern<'_>, last: bool) -> Durability {
    match last && concern.is_synced() {
        true => Durability::Synced,
        false => Durability::Buffered,
    }
}

/// Makes the batch durable if an error kept its last statement from doing so.
pub(super) fn settle(
    cx: &Context<'_>,
    concern: &WriteConcern<'_>,
    outcome: &Outcome,
) -> Result<()> {
    match concern.is_synced() && !outcome.errors.is_empty() && outcome.count > 0 {
        true => cx.store().flush(),
        false => Ok(()),
    }
}

/// Runs one statement.
pub(super) fn update_one(
    cx: &Context<'_>,
    ns: &Namespace,
    statement: &Statement<'_>,
    let_vars: Doc<'_>,
    how: How,
) -> Result<UpdateOutcome> {
    let filters = array_filters(statement.array_filters)?;
    with_statement(statement, let_vars, &filters, &mut |update| {
        let watch = cx.watch();
        let update = UpdateStatement {
            bypass_validation: how.bypass,
            keep_empty_timestamps: how.keep_empty_timestamps,
            ..*update
        };
        let env = cx.env(&watch);
        let done = nagi_query::update(cx.store(), ns, &update, how.durability, &env);
        cx.effects.note(&env);
        done
    })
}

/// Checks the type of `u`.
fn check_update(statement: &Statement<'_>) -> Result<()> {
    match statement.update {
        Value::Doc(_) | Value::Array(_) => Ok(()),
        Value::Missing => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field 'update.updates.u' is missing but a required field"
        ),
        _ => bail!(Code::FAILED_TO_PARSE, "Update argument must be either an object or an array"),
    }
}

/// Converts the statement to the form that `nagi_query` takes, and calls `f` with it.
pub(super) fn with_statement<R>(
    statement: &Statement<'_>,
    let_vars: Doc<'_>,
    array_filters: &[Doc<'_>],
    f: &mut dyn FnMut(&UpdateStatement<'_>) -> Result<R>,
) -> Result<R> {
    let multi = statement.multi == Some(StrictBool(true));
    if multi && statement.sort.is_some_and(|sort| !sort.is_empty()) {
        bail!(Code::FAILED_TO_PARSE, "Cannot specify sort with multi=true");
    }
    let upsert = statement.upsert == Some(StrictBool(true));
    let supplied = supplied(statement, upsert)?;
    let is_pipeline = matches!(statement.update, Value::Array(_));
    if statement.constants.is_some() && !is_pipeline {
        bail!(Code::Location(51198), "Constant values may only be specified for pipeline updates");
    }
    if is_pipeline && !array_filters.is_empty() {
        bail!(
            Code::FAILED_TO_PARSE,
            "arrayFilters may not be specified for pipeline-style updates"
        );
    }
    let hint = if statement.hint.is_nullish() { Value::Missing } else { statement.hint };
    let merged = merge(let_vars, statement.constants);
    f(&UpdateStatement {
        array_filters,
        upsert,
        supplied,
        multi,
        hint: Hint::parse(hint)?,
        collation: Asked::parse(statement.collation)?,
        sort: statement.sort.unwrap_or(Doc::EMPTY),
        let_vars: merged.as_ref().map_or(let_vars, |doc| doc.as_doc()),
        ..UpdateStatement::new(statement.filter, statement.update)
    })
}

/// The document `c.new`, which an upsert inserts if `upsertSupplied` is set.
fn supplied<'a>(statement: &Statement<'a>, upsert: bool) -> Result<Option<Doc<'a>>> {
    if statement.upsert_given != Some(true) {
        return Ok(None);
    }
    if !upsert {
        bail!(
            Code::FAILED_TO_PARSE,
            "cannot specify 'upsertSupplied: true' for a non-upsert operation"
        );
    }
    match statement.constants.map(|constants| constants.get("new")) {
        Some(Value::Doc(doc)) => Ok(Some(doc)),
        _ => bail!(
            Code::FAILED_TO_PARSE,
            "the parameter 'upsertSupplied' is set to 'true', but no document was supplied"
        ),
    }
}

/// Merges the variables of the command with the constants of the statement. The constants take precedence.
fn merge(let_vars: Doc<'_>, constants: Option<Doc<'_>>) -> Option<DocBuf> {
    let constants = constants.filter(|doc| !doc.is_empty())?;
    Some(DocBuf::build(|w| {
        w.extend(constants);
        for element in let_vars {
            if constants.element(element.name()).is_none() {
                w.put(element.name(), element.value());
            }
        }
    }))
}

/// The documents of `arrayFilters`.
pub(super) fn array_filters(filters: Option<Array<'_>>) -> Result<Vec<Doc<'_>>> {
    let Some(filters) = filters else { return Ok(Vec::new()) };
    let not_doc = |index: usize, value: Value<'_>| {
        err!(
            Code::TYPE_MISMATCH,
            "BSON field 'update.updates.arrayFilters.{index}' is the wrong type '{}', expected \
             type 'object'",
            value.kind().name()
        )
    };
    let filters = filters.iter().enumerate();
    filters.map(|(at, value)| value.as_doc().ok_or_else(|| not_doc(at, value))).collect()
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
    let statement = Statement::parse_doc(super::explain::only(args.updates)?)?;
    let filters = array_filters(statement.array_filters)?;
    let let_vars = args.let_vars.unwrap_or(Doc::EMPTY);
    with_statement(&statement, let_vars, &filters, &mut |update| {
        super::explain::write(cx, req, &Explained::Update(&ns, *update), verbosity, out)
    })
}
