//! `delete`: one statement of the command.

use bumpalo::Bump;
use nagi_bson::Doc;
use nagi_error::Result;
use nagi_lang::{
    collation::{Asked, Collation},
    expr::Vars,
};
use nagi_store::{Durability, Namespace, Store};

use super::{How, Selection, Tally, collation_of, in_chunks, ordered, target, with_txn};
use crate::{
    plan::Hint,
    source::{Env, document, renew},
};

/// One element of `deletes`.
#[derive(Debug, Clone, Copy)]
pub struct DeleteStatement<'a> {
    pub filter: Doc<'a>,
    /// True: all that match (`limit: 0`); false: the first.
    pub multi: bool,
    pub hint: Option<Hint<'a>>,
    /// The command's `let`.
    pub let_vars: Doc<'a>,
    pub collation: Asked,
}

impl<'a> DeleteStatement<'a> {
    pub fn new(filter: Doc<'a>, multi: bool) -> DeleteStatement<'a> {
        DeleteStatement {
            filter,
            multi,
            hint: None,
            let_vars: Doc::EMPTY,
            collation: Asked::Inherited,
        }
    }
}

pub(crate) fn prepare<'a>(
    statement: &DeleteStatement<'a>,
    collation: Option<&'static Collation>,
    env: &Env<'_>,
) -> Result<Selection<'a>> {
    let (hint, lets) = (statement.hint, statement.let_vars);
    Selection::parse(statement.filter, Doc::EMPTY, hint, lets, collation, env)
}

/// Runs one delete statement. Returns the number of deleted documents.
pub fn delete(
    store: &Store,
    namespace: &Namespace,
    statement: &DeleteStatement<'_>,
    durability: Durability,
    env: &Env<'_>,
) -> Result<u64> {
    ordered(env, !statement.multi, || delete_in(store, namespace, statement, durability, env))
}

fn delete_in(
    store: &Store,
    namespace: &Namespace,
    statement: &DeleteStatement<'_>,
    durability: Durability,
    env: &Env<'_>,
) -> Result<u64> {
    let collation = collation_of(store, namespace, statement.collation);
    let selection = prepare(statement, collation, env)?;
    let Some(collection) = target(store, namespace)? else { return Ok(0) };
    let values = selection.lets.values();
    let vars = Vars::with_system(&values, env.system()).with_scripts(env.scripts()).with_pace(env);
    let how = How { durability, bypass_validation: true, keep_empty_timestamps: true };
    if !statement.multi {
        let mut old = Vec::new();
        let deleted = with_txn(store, how, env, &mut |txn| {
            let found = selection.first(&collection, txn, &vars, env, &mut old)?;
            let Some(id) = found else { return Ok(0) };
            txn.delete(&collection, id.key(), document(&old))?;
            Ok(1)
        })?;
        env.top_stages("DELETE", &[("nWouldDelete", deleted)]);
        return Ok(deleted);
    }
    let before = env.work().stats.docs_examined;
    let ids = selection.all(store, &collection, &vars, env)?;
    let mut arena = Bump::new();
    let tally = in_chunks(store, &collection, (&ids, before), how, env, &mut |txn, id, doc| {
        renew(&mut arena);
        if selection.matching(doc, &vars, &arena, env)?.is_none() {
            return Ok(Tally::default());
        }
        txn.delete(&collection, id, doc)?;
        Ok(Tally { matched: 1, modified: 1 })
    })?;
    env.top_stages("DELETE", &[("nWouldDelete", tally.modified)]);
    Ok(tally.modified)
}
