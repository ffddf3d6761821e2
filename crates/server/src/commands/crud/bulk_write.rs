//! `bulkWrite`: inserts, updates and deletes on several collections in one command (MongoDB 8.0).
//!
//! The reply is a cursor with one document per statement. Consecutive inserts into the same collection are
//! handed to the chunks of the insert command as one batch.

use std::time::Instant;

use nagi_query::{BY_IDS_MAX, ById, Encryption};
use nagi_store::Namespace;

use super::insert::{Batch, insert_all};
use super::statement::{self, Running};
use super::together::{Group, Together};
use super::writes::{
    Change as _, How, Place, check_count, check_multi, is_ordered, make_durable,
    refuse_series_in_transaction, run_one,
};
use super::{delete, encryption, update};
use crate::clock;
use crate::commands::common::{CursorOption, check_uuid_arg, check_writable};
use crate::core::batch::{self, FirstBatch};
use crate::core::command::prelude::*;
use crate::core::producer::Producer;
use crate::core::txn_number;
use crate::statement_text::Kind;

pub(in crate::commands) static BULK_WRITE: Command = Command {
    facts: Facts {
        name: "bulkWrite",
        help: "Runs inserts, updates and deletes on several collections.",
        admin_only: true,
        encryption_in: "nsInfo",
        write: true,
        api_v1: true,
        latency: LatencyKind::Write,
        in_transaction: true,
        retryable: true,
        operators: &[("ops", Holds::Statements)],
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

args! { "bulkWrite" => Args {
    one:         Value<'a>        = "bulkWrite",
    ops:         Docs<'a>         = "ops",
    ns_info:     Docs<'a>         = "nsInfo",
    ordered:     Option<StrictBool> = "ordered",
    errors_only: Option<StrictBool> = "errorsOnly",
    bypass:      Option<bool>     = "bypassDocumentValidation",
    bypass_ts:   Option<bool>     = "bypassEmptyTsReplacement",
    let_vars:    Option<Doc<'a>>  = "let",
    cursor:      Option<Doc<'a>>  = "cursor",
}}

args! { "bulkWrite.nsInfo" => NsInfo {
    ns:         &'a str   = "ns",
    uuid:       Value<'a> = "collectionUUID",
    encryption: Value<'a> = "encryptionInformation",
}}

args! { "bulkWrite.ops" => InsertOp {
    insert:   NonNegative = "insert",
    document: Doc<'a> = "document",
}}

args! { "bulkWrite.ops" => UpdateOp {
    update:         NonNegative       = "update",
    filter:         Doc<'a>           = "filter",
    mods:           Value<'a>         = "updateMods",
    multi:          Option<StrictBool> = "multi",
    upsert:         Option<StrictBool> = "upsert",
    upsert_given:   Option<bool>      = "upsertSupplied",
    array_filters:  Option<Array<'a>> = "arrayFilters",
    collation:      Option<Doc<'a>>   = "collation",
    hint:           Value<'a>         = "hint",
    constants:      Option<Doc<'a>>   = "constants",
    sort:           Option<Doc<'a>>   = "sort",
    sample_id:      Value<'a>         = "sampleId",
}}

args! { "bulkWrite.ops" => DeleteOp {
    delete:    NonNegative     = "delete",
    filter:    Doc<'a>         = "filter",
    multi:     Option<StrictBool> = "multi",
    collation: Option<Doc<'a>> = "collation",
    hint:      Value<'a>       = "hint",
    sample_id: Value<'a>       = "sampleId",
}}

enum Op<'a> {
    Insert(Doc<'a>),
    Update(Box<update::Statement<'a>>),
    Delete(Box<delete::Statement<'a>>),
}

impl Op<'_> {
    fn kind(&self) -> OpKind {
        match self {
            Op::Insert(_) => OpKind::Insert,
            Op::Update(_) => OpKind::Update,
            Op::Delete(_) => OpKind::Delete,
        }
    }

    fn statement_kind(&self) -> &'static Kind {
        match self {
            Op::Insert(_) => &statement::BULK_INSERT,
            Op::Update(_) => &statement::BULK_UPDATE,
            Op::Delete(_) => &statement::BULK_DELETE,
        }
    }

    /// The statement if it is a change that can be executed together with others.
    fn by_id(&self) -> Option<ById<'_>> {
        match self {
            Op::Insert(_) => None,
            Op::Update(update) => update.by_id(),
            Op::Delete(delete) => delete.by_id(),
        }
    }
}

/// A statement and the position of its namespace in `nsInfo`.
struct Statement<'a> {
    ns_index: usize,
    op: Op<'a>,
    source: Doc<'a>,
}

#[derive(Default)]
struct Totals {
    errors: i32,
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
}

/// The documents of the reply and their sums.
struct Report {
    rows: Vec<DocBuf>,
    totals: Totals,
    errors_only: bool,
    /// Code and text of the last statement that failed.
    last_error: Option<(Code, String)>,
}

fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let namespaces = args.ns_info.iter().map(|doc| Namespace::parse(NsInfo::parse_doc(doc?)?.ns));
    let namespaces = namespaces.collect::<Result<Vec<_>>>()?;
    let bypass = args.bypass == Some(true);
    for doc in args.ops.iter() {
        let statement = parse(doc?)?;
        // `run` refuses an invalid position.
        let Some(ns) = namespaces.get(statement.ns_index) else { continue };
        let may = |action| asking.on_collection(ns.database(), ns.collection(), action);
        let allowed = match &statement.op {
            Op::Insert(_) => may(Action::Insert),
            Op::Update(update) => {
                may(Action::Update)
                    && (update.upsert != Some(StrictBool(true)) || may(Action::Insert))
            }
            Op::Delete(_) => may(Action::Remove),
        };
        if !allowed || (bypass && !may(Action::BypassDocumentValidation)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let cursor = CursorOption::parse("bulkWrite", args.cursor)?;
    let namespaces = args.ns_info.iter().map(|doc| {
        let info = NsInfo::parse_doc(doc?)?;
        let ns = Namespace::parse(info.ns)?;
        check_uuid_arg(cx, &ns, "bulkWrite.nsInfo", info.uuid)?;
        check_writable(cx, &ns)?;
        let encryption = encryption::parse(cx, &ns, info.encryption)?;
        Ok((ns, encryption))
    });
    let targets = namespaces.collect::<Result<Vec<_>>>()?;
    let (namespaces, encryptions): (Vec<_>, Vec<_>) = targets.into_iter().unzip();
    check_count(req, args.ops.count())?;
    let statements = args.ops.iter().enumerate().map(|(at, doc)| {
        let statement = parse(doc?)?;
        if statement.ns_index >= namespaces.len() {
            bail!(Code::BAD_VALUE, "BulkWrite ops entry {at} has an invalid nsInfo index.");
        }
        Ok(statement)
    });
    let statements = statements.collect::<Result<Vec<_>>>()?;
    announce(cx, &namespaces, &statements);
    let _writing = cx.begin_write(req.db)?;
    namespaces.iter().try_for_each(|ns| cx.check_write_block(ns.database()))?;
    for (ns, encryption) in namespaces.iter().zip(&encryptions) {
        encryption::prepare(cx, encryption.as_ref(), ns)?;
    }
    let is_multi = |s: &Statement<'_>| match &s.op {
        Op::Insert(_) => false,
        Op::Update(update) => update.multi == Some(StrictBool(true)),
        Op::Delete(delete) => delete.limit.0,
    };
    check_multi(cx, statements.iter().any(is_multi), "multi=true")?;
    let concern = cx.write_concern(req);
    let mut report = Report {
        rows: Vec::new(),
        totals: Totals::default(),
        errors_only: args.errors_only == Some(StrictBool(true)),
        last_error: None,
    };
    // Entries go to the profiles of the databases that are written.
    let profile = &cx.server.settings.profile;
    cx.op.set_profiled(namespaces.iter().any(|ns| profile.level(ns.database()) > 0));
    let targets = (&*namespaces, &*encryptions);
    let done = run_all(cx, req, &args, targets, &statements, &mut report);
    if namespaces.iter().any(|ns| ns.database() == "admin" && ns.is_system()) {
        cx.server.auth.changed();
    }
    let totals = &report.totals;
    cx.done.inserted = Some(totals.inserted);
    cx.done.matched = Some(totals.matched);
    cx.done.modified = Some(totals.modified);
    cx.done.upserted = Some(totals.upserted);
    cx.done.deleted = Some(totals.deleted);
    cx.done.write_error = report.last_error.take();
    done?;
    cx.failed = report.totals.errors > 0;
    make_durable(cx, &concern)?;
    let totals = report.totals;
    let how =
        FirstBatch { count: Some(cursor.batch_size.unwrap_or(i64::MAX)), ..FirstBatch::DEFAULT };
    batch::reply_first(cx, req, Producer::list(report.rows), "admin.$cmd.bulkWrite", how, out)?;
    out.put("nErrors", totals.errors);
    out.put("nInserted", totals.inserted as i32);
    out.put("nMatched", totals.matched as i32);
    out.put("nModified", totals.modified as i32);
    out.put("nUpserted", totals.upserted as i32);
    out.put("nDeleted", totals.deleted as i32);
    txn_number::write_retried(cx, out);
    Ok(())
}

/// As [`statement::announce`].
fn announce(cx: &Context<'_>, namespaces: &[Namespace], statements: &[Statement<'_>]) {
    if let Some(first) = statements.first() {
        cx.op.set_statement(first.op.statement_kind(), &namespaces[first.ns_index], first.source);
    }
}

fn parse(doc: Doc<'_>) -> Result<Statement<'_>> {
    let index = |n: NonNegative| usize::try_from(n.0).unwrap_or(usize::MAX);
    match doc.first().map_or("", |e| e.name()) {
        "insert" => {
            let op = InsertOp::parse_doc(doc)?;
            Ok(Statement { ns_index: index(op.insert), op: Op::Insert(op.document), source: doc })
        }
        "update" => {
            let op = UpdateOp::parse_doc(doc)?;
            let statement = update::Statement {
                filter: op.filter,
                update: op.mods,
                constants: op.constants,
                array_filters: op.array_filters,
                hint: op.hint,
                multi: op.multi,
                upsert: op.upsert,
                upsert_given: op.upsert_given,
                collation: op.collation,
                sort: op.sort,
                sample_id: op.sample_id,
                zero_timestamp: None,
                source: doc,
            };
            Ok(Statement {
                ns_index: index(op.update),
                op: Op::Update(Box::new(statement)),
                source: doc,
            })
        }
        "delete" => {
            let op = DeleteOp::parse_doc(doc)?;
            let statement = delete::Statement {
                filter: op.filter,
                limit: delete::Multi(op.multi == Some(StrictBool(true))),
                collation: op.collation,
                hint: op.hint,
                sample_id: op.sample_id,
                source: doc,
            };
            Ok(Statement {
                ns_index: index(op.delete),
                op: Op::Delete(Box::new(statement)),
                source: doc,
            })
        }
        other => bail!(
            Code::FAILED_TO_PARSE,
            "BulkWriteCRUDOp: unrecognized operation '{other}', expected insert, update or delete"
        ),
    }
}

fn run_all(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    args: &Args<'_>,
    (namespaces, encryptions): (&[Namespace], &[Option<Encryption>]),
    statements: &[Statement<'_>],
    report: &mut Report,
) -> Result<()> {
    let ordered = is_ordered(cx, args.ordered);
    let let_vars = args.let_vars.unwrap_or(Doc::EMPTY);
    let mut at = 0;
    let mut together = Together::default();
    while at < statements.len() && !(ordered && report.totals.errors > 0) {
        let ns = &namespaces[statements[at].ns_index];
        let encryption = encryptions[statements[at].ns_index].as_ref();
        let (began, scans) = (clock::now(), cx.effects.collection_scans());
        refuse_series_in_transaction(cx, ns)?;
        if encryption.is_none() && together.may(cx, ns, let_vars, at) {
            let how = How::new(args.bypass, args.bypass_ts);
            let count = run_together(cx, req, (statements, ns, at), (&mut together, how), report)?;
            if count > 0 {
                let kinds = statements[at..at + count].iter().map(|statement| statement.op.kind());
                record(cx, ns, kinds.collect::<Vec<_>>().as_slice(), (began, scans));
                at += count;
                continue;
            }
        }
        let run_len = insert_run(&statements[at..]);
        if run_len > 0 {
            let how = How::new(args.bypass, args.bypass_ts);
            let docs = statements[at..at + run_len].iter().filter_map(|s| match s.op {
                Op::Insert(doc) => Some(doc),
                _ => None,
            });
            let docs = docs.collect::<Vec<_>>();
            let batch = Batch { docs: &docs, first: at, ordered, encryption };
            let done = run_inserts(cx, req, ns, (batch, statements[at].source), how, report);
            record(cx, ns, &[OpKind::Insert], (began, scans));
            done?;
            at += run_len;
            continue;
        }
        let how = How::new(args.bypass, args.bypass_ts);
        let place = (ns, at, let_vars, encryption);
        let done = run_change(cx, req, &statements[at].op, place, how, report);
        record(cx, ns, &[statements[at].op.kind()], (began, scans));
        done?;
        at += 1;
    }
    Ok(())
}

/// Counts statements, or a batch of inserts, for their collection in `top` and in its latencies. `before`: when they
/// began, and the scans of the request before them.
fn record(cx: &Context<'_>, ns: &Namespace, kinds: &[OpKind], (began, scans): (Instant, u64)) {
    let micros = clock::micros_since(began) / kinds.len().max(1) as u64;
    let mut scans = cx.effects.collection_scans().saturating_sub(scans);
    for kind in kinds {
        let name = (ns.database(), ns.collection());
        cx.server.top.record_statement(name, *kind, micros, scans);
        scans = 0;
    }
}

/// The number of consecutive inserts into one collection at the beginning of `statements`.
fn insert_run(statements: &[Statement<'_>]) -> usize {
    let ns_index = statements[0].ns_index;
    let same = |s: &&Statement<'_>| matches!(s.op, Op::Insert(_)) && s.ns_index == ns_index;
    statements.iter().take_while(same).count()
}

/// Executes the changes by `_id` from `at` on together, as far as possible; returns how many these were.
fn run_together(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    (statements, ns, at): (&[Statement<'_>], &Namespace, usize),
    (together, how): (&mut Together, How),
    report: &mut Report,
) -> Result<usize> {
    let ns_index = statements[at].ns_index;
    let rest = statements[at..].iter().take(BY_IDS_MAX);
    let same = rest.take_while(|statement| statement.ns_index == ns_index);
    let by_ids: Vec<ById<'_>> = same.map_while(|statement| statement.op.by_id()).collect();
    let shown = &|at: usize| {
        let statement = &statements[at];
        (statement.op.statement_kind(), statement.source)
    };
    let group = Group { ns, statements: by_ids, at, shown };
    let done = together.run(cx, req, &group, how)?;
    for (index, one) in done.iter().enumerate() {
        let (matched, modified) = (u64::from(one.matched), u64::from(one.modified));
        if group.statements[index].update.is_some() {
            report.totals.matched += matched;
            report.totals.modified += modified;
            report.succeed(at + index, matched, Some(modified), None);
            cx.count_tried(OpKind::Update, 1);
        } else {
            report.totals.deleted += matched;
            report.succeed(at + index, matched, None, None);
            cx.count_tried(OpKind::Delete, 1);
        }
    }
    Ok(done.len())
}

fn run_inserts(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    ns: &Namespace,
    (batch, source): (Batch<'_, '_>, Doc<'_>),
    how: How,
    report: &mut Report,
) -> Result<()> {
    let (at, ordered) = (batch.first, batch.ordered);
    let of = (&statement::BULK_INSERT, ns, source);
    let running = Running::begin(cx, at, of);
    let outcome = insert_all(cx, req, ns, batch, how);
    running.end(cx, req, of, &outcome, &|all, outcome| {
        all.inserted = Some(outcome.count);
        all.write_error =
            outcome.errors.last().map(|(_, error)| (error.code(), error.message().to_owned()));
    });
    let outcome = outcome?;
    report.totals.inserted += outcome.count;
    let mut errors = outcome.errors.iter().peekable();
    for index in 0..batch.docs.len() {
        match errors.next_if(|(failed, _)| *failed == index) {
            Some((_, error)) => {
                report.fail(at + index, error, false);
                if ordered {
                    break;
                }
            }
            None => report.succeed(at + index, 1, None, None),
        }
    }
    Ok(())
}

fn run_change(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    op: &Op<'_>,
    (ns, at, let_vars, encryption): (&Namespace, usize, Doc<'_>, Option<&Encryption>),
    how: How,
    report: &mut Report,
) -> Result<()> {
    let id = txn_number::statement_id(req, at);
    let place = |kind| Place { ns, at, id, let_vars, kind, encryption };
    // A statement counts when it is tried; one that an earlier attempt executed is not tried again.
    if !txn_number::any_executed(cx, &[id]) {
        match op {
            Op::Insert(_) => {}
            Op::Update(_) => cx.count_tried(OpKind::Update, 1),
            Op::Delete(_) => cx.count_tried(OpKind::Delete, 1),
        }
    }
    let result = match op {
        Op::Insert(_) => return Ok(()),
        Op::Update(update) => {
            let done = run_one(cx, req, &**update, &place(&statement::BULK_UPDATE), how);
            done.map(|done| {
                let upserted = u64::from(done.upserted.is_some());
                report.totals.matched += done.matched;
                report.totals.modified += done.modified;
                report.totals.upserted += upserted;
                let new = done.upserted.as_ref().map(|id| id.value());
                report.succeed(at, done.matched + upserted, Some(done.modified), new);
            })
        }
        Op::Delete(delete) => {
            let done = run_one(cx, req, &**delete, &place(&statement::BULK_DELETE), how);
            done.map(|count| {
                report.totals.deleted += count;
                report.succeed(at, count, None, None);
            })
        }
    };
    match result {
        Ok(()) => Ok(()),
        Err(error) if nagi_query::ends_command(&error) => Err(error),
        Err(error) => {
            report.fail(at, &error, matches!(op, Op::Update(_)));
            Ok(())
        }
    }
}

impl Report {
    fn succeed(&mut self, at: usize, n: u64, modified: Option<u64>, upserted: Option<Value<'_>>) {
        if self.errors_only {
            return;
        }
        self.rows.push(DocBuf::build(|row| {
            row.put("ok", 1.0);
            row.put("idx", at as i32);
            row.put("n", n as i32);
            if let Some(modified) = modified {
                row.put("nModified", modified as i32);
            }
            if let Some(id) = upserted {
                row.doc("upserted", |doc| doc.put("_id", id));
            }
        }));
    }

    fn fail(&mut self, at: usize, error: &Error, is_update: bool) {
        self.totals.errors += 1;
        self.last_error = Some((error.code(), error.message().to_owned()));
        self.rows.push(DocBuf::build(|row| {
            row.put("ok", 0.0);
            row.put("idx", at as i32);
            row.put("code", error.code().0);
            row.put("errmsg", error.message());
            if let Some(info) = error.info() {
                row.extend(info.as_doc());
            }
            row.put("n", 0);
            if is_update {
                row.put("nModified", 0);
            }
        }));
    }
}
