//! `delete`: removes the documents that match.

use nagi_lang::collation::Asked;
use nagi_query::{DeleteStatement, Explained, Hint, Verbosity};
use nagi_store::{Durability, Namespace};

use super::outcome::{Outcome, check_batch};
use super::statement::{self, Running};
use super::update::{check_multi, end_durability, settle};
use crate::args::Field;
use crate::commands::common::{check_uuid_arg, check_writable, namespace, refuse_encryption};
use crate::core::command::prelude::*;
use crate::core::numbered::{self, Codec};

pub(in crate::commands) static DELETE: Command = Command {
    facts: Facts {
        name: "delete",
        help: "Removes documents from a collection.",
        write: true,
        api_v1: true,
        on_collection: true,
        counts_as: OpKind::Delete,
        latency: LatencyKind::Write,
        in_transaction: true,
        retryable: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::Remove]),
    run,
    explain: Some(explain),
    ..Command::ROW
};

args! { "delete" => Args {
    collection:      StrictName<'a>        = "delete",
    deletes:         Docs<'a>        = "deletes",
    ordered:         Option<StrictBool>    = "ordered",
    let_vars:        Option<Doc<'a>> = "let",
    bypass:          Option<bool>    = "bypassDocumentValidation",
    encryption:      Value<'a>       = "encryptionInformation",
    collection_uuid: Value<'a>       = "collectionUUID",
}}

args! { "delete.deletes" => Statement {
    filter:    Doc<'a>         = "q",
    limit:     Multi           = "limit",
    collation: Option<Doc<'a>> = "collation",
    hint:      Value<'a>       = "hint",
    sample_id: Value<'a>       = "sampleId",
}}

/// The `limit` of a statement: 0 deletes all documents that match, 1 deletes the first. Other numbers are
/// refused rather than rounded: 0.5 must not delete all documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Multi(pub(super) bool);

impl<'a> FromArg<'a> for Multi {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        let limit = f64::from_value(value, field)?;
        if limit != 0.0 && limit != 1.0 {
            bail!(
                Code::FAILED_TO_PARSE,
                "The limit field in delete objects must be 0 or 1. Got {}",
                nagi_bson::text::value_text(Value::Double(limit)).trim_end_matches(".0")
            );
        }
        Ok(Multi(limit == 0.0))
    }
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    check_writable(&ns)?;
    check_uuid_arg(cx, &ns, "delete", args.collection_uuid)?;
    refuse_encryption(args.encryption)?;
    check_batch(args.deletes.count())?;
    numbered::check_statements(req, args.deletes.count())?;
    let _writing = cx.begin_write(req.db)?;
    let statements = args.deletes.iter().map(|doc| Statement::parse_doc(doc?));
    let statements = statements.collect::<Result<Vec<_>>>()?;
    check_multi(cx, statements.iter().any(|s| s.limit.0), "limit=0")?;
    let concern = cx.write_concern(req);
    let ordered = args.ordered != Some(StrictBool(false)) || cx.in_transaction();
    let let_vars = args.let_vars.unwrap_or(Doc::EMPTY);
    let mut outcome = Outcome::default();
    let last = statements.len() - 1;
    for (index, statement) in statements.iter().enumerate() {
        let durability = end_durability(&concern, index == last);
        cx.server.metrics.ops.delete.increment();
        let id = numbered::statement_id(req, index);
        let running = Running::begin(cx, index);
        let done = delete_once(cx, id, &ns, statement, let_vars, durability);
        running.end(cx, req, (&statement::DELETE, &ns, statement.source), &done, &|all, count| {
            all.deleted = Some(*count);
        });
        match done {
            Ok(count) => outcome.count += count,
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
    cx.done.deleted = Some(outcome.count);
    outcome.write(cx, req, out);
    Ok(())
}

/// How the deleted count of a statement is stored in the session's records.
static DELETED: Codec<u64> = Codec {
    write: |count| (*count > 0).then(|| nagi_bson::doc! { "n": (*count as i64) }),
    read: |doc| crate::number::truncate(doc.get("n")).unwrap_or(0) as u64,
};

/// Runs one statement. In a retryable write it takes effect once: the record of an earlier attempt answers.
pub(super) fn delete_once(
    cx: &mut Context<'_>,
    id: i32,
    ns: &Namespace,
    statement: &Statement<'_>,
    let_vars: Doc<'_>,
    durability: Durability,
) -> Result<u64> {
    numbered::once(cx, id, durability, &DELETED, &mut |cx| {
        delete_one(cx, ns, statement, let_vars, durability)
    })
}

fn delete_one(
    cx: &Context<'_>,
    ns: &Namespace,
    statement: &Statement<'_>,
    let_vars: Doc<'_>,
    durability: Durability,
) -> Result<u64> {
    let watch = cx.watch();
    let delete = to_statement(statement, let_vars)?;
    let env = cx.env(&watch);
    let done = nagi_query::delete(cx.store(), ns, &delete, durability, &env);
    cx.effects.note(&env);
    done
}

/// Converts the statement to the form that `nagi_query` takes.
pub(super) fn to_statement<'a>(
    statement: &Statement<'a>,
    let_vars: Doc<'a>,
) -> Result<DeleteStatement<'a>> {
    let hint = if statement.hint.is_nullish() { Value::Missing } else { statement.hint };
    Ok(DeleteStatement {
        hint: Hint::parse(hint)?,
        collation: Asked::parse(statement.collation)?,
        let_vars,
        ..DeleteStatement::new(statement.filter, statement.limit.0)
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
    let statement = Statement::parse_doc(super::explain::only(args.deletes)?)?;
    let delete = to_statement(&statement, args.let_vars.unwrap_or(Doc::EMPTY))?;
    super::explain::write(cx, req, &Explained::Delete(&ns, delete), verbosity, out)
}
