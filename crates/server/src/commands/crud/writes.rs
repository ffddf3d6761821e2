//! What the commands that write documents share: the checks before, how their statements commit, and the statements
//! of `update` and `delete`, which `bulkWrite` has too.

use nagi_query::{BY_IDS_MAX, ById, ByIdOutcome, Encryption, Env};
use nagi_store::{Namespace, Store};

use super::outcome::{Outcome, check_batch};
use super::statement::Running;
use super::together::{Group, Together};
use crate::commands::common::{check_uuid_arg, check_writable};
use crate::core::command::Done;
use crate::core::command::prelude::*;
use crate::core::txn_number;
use crate::request::concern::WriteConcern;
use crate::statement_text::Kind;

/// How a statement commits.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// `bypassDocumentValidation`.
    pub(super) bypass: bool,
    /// `bypassEmptyTsReplacement`.
    pub(super) keep_empty_timestamps: bool,
}

impl How {
    pub(super) fn new(bypass: Option<bool>, bypass_ts: Option<bool>) -> How {
        let (bypass, keep_empty_timestamps) = (bypass == Some(true), bypass_ts == Some(true));
        How { bypass, keep_empty_timestamps }
    }
}

/// The end of a command that writes: makes durable what it reports, if its write concern requires that. Statements do
/// not wait for the disk themselves: the log keeps the order of commits, so one wait is enough. And what is reported
/// may have been committed by an earlier attempt.
pub(super) fn make_durable(cx: &Context<'_>, concern: &WriteConcern<'_>) -> Result<()> {
    if concern.is_synced() { cx.store().sync() } else { Ok(()) }
}

/// Refuses targets that `command` may not write.
pub(super) fn check_target(
    cx: &Context<'_>,
    ns: &Namespace,
    command: &str,
    uuid: Value<'_>,
) -> Result<()> {
    // Buckets are restored, and repaired, like ordinary documents.
    if !(ns.is_buckets() && is_series(cx, ns)) {
        check_writable(cx, ns)?;
    }
    refuse_series_in_transaction(cx, ns)?;
    check_uuid_arg(cx, ns, command, uuid).map(drop)
}

/// True for a collection of buckets.
fn is_series(cx: &Context<'_>, ns: &Namespace) -> bool {
    cx.store().collection(ns).is_some_and(|found| found.options.timeseries.is_some())
}

/// Refuses writes to a time series collection in a transaction (263).
pub(super) fn refuse_series_in_transaction(cx: &Context<'_>, ns: &Namespace) -> Result<()> {
    if cx.in_transaction() && cx.store().written_buckets_of(ns).is_some() {
        bail!(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Cannot write to a time-series collection in a multi-document transaction: {ns}"
        );
    }
    Ok(())
}

/// Refuses a count of statements that is zero or too large, or differs from the number of statement ids.
pub(super) fn check_count(req: &Request<'_>, count: usize) -> Result<()> {
    check_batch(count)?;
    txn_number::check_statements(req, count)
}

/// Refuses a retryable command with a statement that may change many documents (72).
pub(super) fn check_multi(cx: &Context<'_>, multi: bool, what: &str) -> Result<()> {
    if multi && txn_number::is_retryable(cx) {
        bail!(Code::INVALID_OPTIONS, "Cannot use (or request) retryable writes with {what}");
    }
    Ok(())
}

/// Whether a command ends at the first statement that fails.
pub(super) fn is_ordered(cx: &Context<'_>, ordered: Option<StrictBool>) -> bool {
    ordered != Some(StrictBool(false)) || cx.in_transaction()
}

/// Runs a query in the environment of the request, and notes the work it did.
pub(super) fn in_env<T>(
    cx: &Context<'_>,
    query: impl FnOnce(&Store, &Env<'_>) -> Result<T>,
) -> Result<T> {
    let watch = cx.watch();
    let env = cx.env(&watch);
    let done = query(cx.store(), &env);
    cx.effects.note(&env);
    done
}

/// A statement of `update` or `delete`.
pub(super) trait Change {
    /// What it did.
    type Done;

    /// The statement as the client sent it.
    fn source(&self) -> Doc<'_>;

    /// The statement if it can be executed together with others: its filter is only an `_id`, and it has no options.
    fn by_id(&self) -> Option<ById<'_>>;

    /// What such a statement did.
    fn done(outcome: ByIdOutcome) -> Self::Done;

    /// Runs it. If it is retryable and an earlier attempt ran it, gives back what that did.
    fn once(&self, cx: &mut Context<'_>, place: &Place<'_>, how: How) -> Result<Self::Done>;

    /// The counter that such statements belong to.
    const KIND: OpKind;

    /// Adds what the statement did to its entry of the profile.
    fn note(all: &mut Done, done: &Self::Done);

    /// Adds what the statement at `index` did to the command's reply.
    fn add(outcome: &mut Outcome, index: usize, done: Self::Done);
}

/// What a statement gets from its command.
pub(super) struct Place<'p> {
    pub(super) ns: &'p Namespace,
    /// Its position in the command.
    pub(super) at: usize,
    /// Its statement id in the session.
    pub(super) id: i32,
    /// The command's `let`.
    pub(super) let_vars: Doc<'p>,
    pub(super) kind: &'static Kind,
    /// For encrypted values, which are stored and searched in another form.
    pub(super) encryption: Option<&'p Encryption>,
}

/// Runs a statement and writes its entry of the profile.
pub(super) fn run_one<S: Change>(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    statement: &S,
    place: &Place<'_>,
    how: How,
) -> Result<S::Done> {
    let of = (place.kind, place.ns, statement.source());
    let running = Running::begin(cx, place.at, of);
    let done = statement.once(cx, place, how);
    running.end(cx, req, of, &done, &S::note);
    done
}

/// The statements of one command.
pub(super) struct Statements<'s, S> {
    pub(super) ns: &'s Namespace,
    pub(super) list: &'s [S],
    /// The command's `let`.
    pub(super) let_vars: Option<Doc<'s>>,
    pub(super) ordered: Option<StrictBool>,
    /// `bypassDocumentValidation` and `bypassEmptyTsReplacement`.
    pub(super) bypasses: (Option<bool>, Option<bool>),
    pub(super) kind: &'static Kind,
    pub(super) encryption: Option<&'s Encryption>,
}

/// Runs the statements one after another, and adds what they did to `outcome`.
///
/// # Errors
/// Those that end a command; those of statements are in the outcome.
pub(super) fn run_all<S: Change>(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    statements: &Statements<'_, S>,
    outcome: &mut Outcome,
) -> Result<()> {
    let Statements { ns, list, bypasses: (bypass, bypass_ts), kind, encryption, .. } = *statements;
    let ordered = is_ordered(cx, statements.ordered);
    let let_vars = statements.let_vars.unwrap_or(Doc::EMPTY);
    let concern = cx.write_concern(req);
    let mut together = Together::default();
    let mut at = 0;
    while let Some(statement) = list.get(at) {
        let how = How::new(bypass, bypass_ts);
        if encryption.is_none() && together.may(cx, ns, let_vars, at) {
            let by_ids = list[at..].iter().take(BY_IDS_MAX).map_while(S::by_id).collect::<Vec<_>>();
            let shown = &|at: usize| (kind, list[at].source());
            let group = Group { ns, statements: by_ids, at, shown };
            let done = together.run(cx, req, &group, how)?;
            cx.count_tried(S::KIND, done.len() as u64);
            for one in &done {
                S::add(outcome, at, S::done(*one));
                at += 1;
            }
            if !done.is_empty() {
                continue;
            }
        }
        let id = txn_number::statement_id(req, at);
        if !txn_number::any_executed(cx, &[id]) {
            cx.count_tried(S::KIND, 1);
        }
        let place = Place { ns, at, id, let_vars, kind, encryption };
        match run_one(cx, req, statement, &place, how) {
            Ok(done) => S::add(outcome, at, done),
            Err(error) if nagi_query::ends_command(&error) => return Err(error),
            Err(error) => {
                outcome.fail(at, error);
                if ordered {
                    break;
                }
            }
        }
        at += 1;
    }
    make_durable(cx, &concern)
}
