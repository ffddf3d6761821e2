//! Entries of the profile and of the slow-query log for each statement of an `update`, `delete` or `bulkWrite`.
//!
//! A batch has one entry per statement instead of one for the command. [`Running`] measures a statement: it
//! sets the work of the earlier statements apart, so that an entry shows the work of its own statement only.

use std::time::Instant;

use nagi_query::Work;
use nagi_store::Namespace;

use crate::clock;
use crate::core::command::Done;
use crate::core::command::prelude::*;
use crate::observe::slow::{self, Finished};
use crate::printable::{printable, without_users_secrets};
use crate::statement_text::{Kind, Shown, describe};

pub(super) static UPDATE: Kind = Kind { op: "update", fields: &UPDATE_FIELDS };

pub(super) static DELETE: Kind = Kind { op: "remove", fields: &DELETE_FIELDS };

/// An insert of a `bulkWrite`. The two kinds below are its updates and deletes.
pub(super) static BULK_INSERT: Kind = Kind { op: "insert", fields: &[("insert", None)] };

pub(super) static BULK_UPDATE: Kind = Kind { op: "update", fields: &BULK_UPDATE_FIELDS };

pub(super) static BULK_DELETE: Kind = Kind { op: "remove", fields: &BULK_DELETE_FIELDS };

static BULK_UPDATE_FIELDS: [Shown; 10] = [
    ("update", None),
    ("filter", None),
    ("updateMods", None),
    ("constants", None),
    ("arrayFilters", None),
    ("hint", None),
    ("multi", Some(Value::Bool(false))),
    ("upsert", Some(Value::Bool(false))),
    ("collation", None),
    ("sort", None),
];

static BULK_DELETE_FIELDS: [Shown; 5] = [
    ("delete", None),
    ("filter", None),
    ("hint", None),
    ("multi", Some(Value::Bool(false))),
    ("collation", None),
];

static UPDATE_FIELDS: [Shown; 10] = [
    ("q", None),
    ("u", None),
    ("c", None),
    ("arrayFilters", None),
    ("hint", None),
    ("multi", Some(Value::Bool(false))),
    ("upsert", Some(Value::Bool(false))),
    ("upsertSupplied", None),
    ("collation", None),
    ("sort", None),
];

static DELETE_FIELDS: [Shown; 4] =
    [("q", None), ("limit", None), ("hint", None), ("collation", None)];

/// The kind of a statement, its collection, and the statement as it was sent.
pub(super) type Of<'a> = (&'static Kind, &'a Namespace, Doc<'a>);

/// A statement in progress: when it began, and the work of the request before it.
pub(super) struct Running {
    started: Instant,
    before: Work,
}

/// Shows the first of the statements as the running one: the request may have to wait before it begins.
pub(super) fn announce(
    cx: &Context<'_>,
    (kind, ns): (&'static Kind, &Namespace),
    statements: &Docs<'_>,
) {
    if let Some(Ok(first)) = statements.iter().next() {
        cx.op.set_statement(kind, ns, first);
    }
}

impl Running {
    /// Begins the statement `source` of a kind.
    pub(super) fn begin(cx: &Context<'_>, index: usize, (kind, ns, source): Of<'_>) -> Running {
        if index > 0 {
            // The summary belongs to the statement before.
            cx.op.set_plan_summary("");
        }
        cx.op.set_statement(kind, ns, source);
        Running { started: clock::now(), before: cx.effects.begin_statement() }
    }

    /// The statement is executed in another way: what was done so far counts for the request only.
    pub(super) fn give_up(self, cx: &Context<'_>) {
        cx.effects.end_statement(self.before);
    }

    /// Writes the entry of this statement on `ns`. `count` adds its document counts to `done`.
    pub(super) fn end<T>(
        self,
        cx: &mut Context<'_>,
        req: &Request<'_>,
        (kind, ns, source): Of<'_>,
        done: &Result<T>,
        count: &dyn Fn(&mut Done, &T),
    ) {
        let micros = clock::micros_since(self.started);
        let work = cx.effects.end_statement(self.before);
        cx.done.statements = true;
        if !slow::may_tell(cx.server, ns.database(), micros) {
            return;
        }
        let mut all = Done { stages: cx.effects.take_stages(), ..Done::default() };
        all.note_work(&work);
        all.locks.collection_count = work.transactions;
        if let Ok(done) = done {
            count(&mut all, done);
        }
        let statement = describe(kind.fields, source, req.body.get("comment"));
        let hidden = match ns.database() {
            "admin" => without_users_secrets(statement.as_doc()),
            _ => None,
        };
        let statement = hidden.unwrap_or_else(|| printable(statement.as_doc(), Secret::No));
        let finished = Finished {
            op: cx.op,
            request: req,
            statement: Some(slow::Statement { shown: &statement, op: kind.op, ns }),
            error: done.as_ref().err(),
            done: &all,
            micros,
            reply_bytes: 0,
        };
        slow::observe(cx.server, &finished);
    }
}
