//! `delete`: removes the documents that match.

use nagi_lang::collation::Asked;
use nagi_query::{
    ById, ByIdOutcome, DeleteStatement, Explained, Hint, Searched, Verbosity, lone_id,
};
use nagi_store::Durability;

use super::encryption;
use super::outcome::Outcome;
use super::statement;
use super::writes::{
    Change, How, Place, Statements, check_count, check_multi, check_target, in_env, run_all,
};
use crate::args::Field;
use crate::commands::common::namespace;
use crate::core::command::Done;
use crate::core::command::prelude::*;
use crate::core::txn_number::{self, Codec};

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
        operators: &[("deletes", Holds::Statements)],
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
    check_target(cx, &ns, "delete", args.collection_uuid)?;
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    check_count(req, args.deletes.count())?;
    statement::announce(cx, (&statement::DELETE, &ns), &args.deletes);
    let _writing = cx.begin_write(req.db)?;
    let statements = args.deletes.iter().map(|doc| Statement::parse_doc(doc?));
    let statements = statements.collect::<Result<Vec<_>>>()?;
    check_multi(cx, statements.iter().any(|s| s.limit.0), "limit=0")?;
    let mut outcome = Outcome::default();
    let statements = Statements {
        ns: &ns,
        list: &statements,
        let_vars: args.let_vars,
        ordered: args.ordered,
        bypasses: (None, None),
        kind: &statement::DELETE,
        encryption: encryption.as_ref(),
    };
    run_all(cx, req, &statements, &mut outcome)?;
    cx.done.deleted = Some(outcome.count);
    outcome.write(cx, req, out);
    Ok(())
}

/// How the deleted count of a statement is stored in the session's records.
pub(super) static DELETED: Codec<u64> = Codec {
    write: |count| (*count > 0).then(|| nagi_bson::doc! { "n": (*count as i64) }),
    read: |doc| crate::number::truncate(doc.get("n")).unwrap_or(0) as u64,
};

impl Change for Statement<'_> {
    type Done = u64;

    fn source(&self) -> Doc<'_> {
        self.source
    }

    fn by_id(&self) -> Option<ById<'_>> {
        let plain = self.collation.is_none() && self.hint.is_missing();
        Some(ById { id: lone_id(self.filter).filter(|_| plain)?, update: None })
    }

    fn done(outcome: ByIdOutcome) -> u64 {
        u64::from(outcome.matched)
    }

    fn once(&self, cx: &mut Context<'_>, place: &Place<'_>, _: How) -> Result<u64> {
        txn_number::once(cx, place.id, &DELETED, &mut |cx| {
            let delete = to_statement(self, place.let_vars)?;
            let of = (place.encryption, place.ns);
            let searched = Searched::Filter(delete.filter);
            encryption::search(cx, of, searched, &|count| *count == 0, &mut |cx, searched| {
                let filter = encryption::filter_of(searched);
                let delete = DeleteStatement { filter, ..delete };
                in_env(cx, |store, env| {
                    nagi_query::delete(store, place.ns, &delete, Durability::Buffered, env)
                })
            })
        })
    }

    const KIND: OpKind = OpKind::Delete;

    fn note(all: &mut Done, count: &u64) {
        all.deleted = Some(*count);
    }

    fn add(outcome: &mut Outcome, _: usize, count: u64) {
        outcome.count += count;
    }
}

/// The statement in the shape that queries take.
fn to_statement<'a>(statement: &Statement<'a>, let_vars: Doc<'a>) -> Result<DeleteStatement<'a>> {
    Ok(DeleteStatement {
        hint: Hint::parse(statement.hint)?,
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
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    let filter = encryption::filter(cx, encryption.as_ref(), &ns, statement.filter)?;
    let mut delete = to_statement(&statement, args.let_vars.unwrap_or(Doc::EMPTY))?;
    delete.filter = filter.as_ref().map_or(delete.filter, |filter| filter.as_doc());
    super::explain::write(cx, req, &Explained::Delete(&ns, delete), verbosity, out)
}
