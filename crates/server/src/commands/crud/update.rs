//! `update`: changes the documents that match.
//!
//! A statement commits on its own: in one transaction, or with `multi` in several; statements by `_id` commit together.
//! If the write concern requires durability, the end of the command waits for the disk: the log keeps the order of the
//! commits, so all of them are durable with the last one.

use nagi_lang::collation::Asked;
use nagi_query::{
    ById, ByIdOutcome, Explained, Hint, Searched, UpdateOutcome, UpdateStatement, Verbosity,
    lone_id,
};
use nagi_store::Durability;

use super::encryption;
use super::outcome::Outcome;
use super::statement;
use super::writes::{
    Change, How, Place, Statements, check_count, check_multi, check_target, in_env, run_all,
};
use crate::commands::common::namespace;
use crate::core::command::Done;
use crate::core::command::prelude::*;
use crate::core::txn_number::{self, Codec};

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
        operators: &[("updates", Holds::Statements)],
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
    check_target(cx, &ns, "update", args.collection_uuid)?;
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    check_count(req, args.updates.count())?;
    statement::announce(cx, (&statement::UPDATE, &ns), &args.updates);
    let _writing = cx.begin_write(req.db)?;
    encryption::prepare(cx, encryption.as_ref(), &ns)?;
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
    let mut outcome = Outcome { modified: Some(0), ..Outcome::default() };
    let statements = Statements {
        ns: &ns,
        list: &statements,
        let_vars: args.let_vars,
        ordered: args.ordered,
        bypasses: (args.bypass, args.bypass_ts),
        kind: &statement::UPDATE,
        encryption: encryption.as_ref(),
    };
    run_all(cx, req, &statements, &mut outcome)?;
    let modified = outcome.modified.unwrap_or(0);
    let upserted = outcome.upserted.len() as u64;
    note_update(&mut cx.done, outcome.count - upserted, modified, upserted);
    outcome.write(cx, req, out);
    Ok(())
}

/// Notes what updates did.
pub(super) fn note_update(done: &mut Done, matched: u64, modified: u64, upserted: u64) {
    done.matched = Some(matched);
    done.modified = Some(modified);
    done.upserted = Some(upserted);
}

/// How the outcome of a statement is stored in the session's records.
pub(super) static OUTCOME: Codec<UpdateOutcome> = Codec {
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

impl Change for Statement<'_> {
    type Done = UpdateOutcome;

    fn source(&self) -> Doc<'_> {
        self.source
    }

    fn by_id(&self) -> Option<ById<'_>> {
        let plain = self.constants.is_none()
            && self.array_filters.is_none()
            && self.hint.is_missing()
            && self.upsert != Some(StrictBool(true))
            && self.upsert_given != Some(true)
            && self.collation.is_none()
            && self.sort.is_none()
            // A replacement of many documents is an error.
            && self.multi != Some(StrictBool(true));
        let id = lone_id(self.filter).filter(|_| plain)?;
        Some(ById { id, update: Some(self.update) })
    }

    fn done(outcome: ByIdOutcome) -> UpdateOutcome {
        let ByIdOutcome { matched, modified } = outcome;
        let (matched, modified) = (u64::from(matched), u64::from(modified));
        UpdateOutcome { matched, modified, upserted: None }
    }

    fn once(&self, cx: &mut Context<'_>, place: &Place<'_>, how: How) -> Result<UpdateOutcome> {
        let mut tries = 0;
        loop {
            let done = txn_number::once(cx, place.id, &OUTCOME, &mut |cx| {
                update_one(cx, place, self, how)
            });
            match done {
                // The document of the key may match now: its state was too old to see it.
                Err(error)
                    if error.code() == Code::DUPLICATE_KEY
                        && self.upsert == Some(StrictBool(true))
                        && txn_number::is_retryable(cx)
                        && tries < UPSERT_RETRIES =>
                {
                    tries += 1;
                }
                other => return other,
            }
        }
    }

    const KIND: OpKind = OpKind::Update;

    fn note(all: &mut Done, done: &UpdateOutcome) {
        note_update(all, done.matched, done.modified, u64::from(done.upserted.is_some()));
    }

    fn add(outcome: &mut Outcome, index: usize, done: UpdateOutcome) {
        outcome.count += done.matched;
        outcome.modified = outcome.modified.map(|sum| sum + done.modified);
        if let Some(id) = done.upserted {
            outcome.count += 1;
            outcome.upserted.push((index, id));
        }
    }
}

/// Runs one statement.
fn update_one(
    cx: &mut Context<'_>,
    place: &Place<'_>,
    statement: &Statement<'_>,
    how: How,
) -> Result<UpdateOutcome> {
    let filters = array_filters(statement.array_filters)?;
    with_statement(statement, place.let_vars, &filters, &mut |update| {
        let of = (place.encryption, place.ns);
        let searched = Searched::Filter(update.filter);
        let nothing = |done: &UpdateOutcome| done.matched == 0 && done.upserted.is_none();
        let update_in = &mut |cx: &mut Context<'_>, searched: Searched<'_>| {
            let update = UpdateStatement {
                filter: encryption::filter_of(searched),
                encryption: place.encryption,
                bypass_validation: how.bypass,
                keep_empty_timestamps: how.keep_empty_timestamps,
                ..*update
            };
            in_env(cx, |store, env| {
                nagi_query::update(store, place.ns, &update, Durability::Buffered, env)
            })
        };
        encryption::with_upsert(cx, (place.encryption, update.upsert), &mut |cx| {
            encryption::search(cx, of, searched, &nothing, update_in)
        })
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

/// Hands the statement over in the shape that queries take.
fn with_statement<R>(
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
    let merged = merge(let_vars, statement.constants);
    f(&UpdateStatement {
        array_filters,
        upsert,
        supplied,
        multi,
        hint: Hint::parse(statement.hint)?,
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
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    let filter = encryption::filter(cx, encryption.as_ref(), &ns, statement.filter)?;
    with_statement(&statement, let_vars, &filters, &mut |update| {
        let filter = filter.as_ref().map_or(update.filter, |filter| filter.as_doc());
        let update = UpdateStatement { filter, ..*update };
        super::explain::write(cx, req, &Explained::Update(&ns, update), verbosity, out)
    })
}
