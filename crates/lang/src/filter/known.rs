//! What is known of the values of documents that an `$expr` matches, once its variables have values.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Value, ValueBuf};

use super::{ExprFilter, Filter};
use crate::{
    collation::Collation,
    expr::{Expr, Logic, Relation, Vars},
};

/// The value of a path relates so to `value`, in the order of expressions. MongoDB has predicates for it
/// (`$_internalExprEq` and its like); here it only leads to bounds, and the expression itself decides.
#[derive(Debug, Clone)]
pub struct Known {
    pub path: String,
    pub relation: Relation,
    pub value: ValueBuf,
    /// How strings compare; none by their bytes.
    pub collation: Option<&'static Collation>,
}

impl Filter {
    /// The same filter, each of whose `$expr` that a plan may use says what is known where it is true.
    #[must_use]
    pub fn with_known(&self, vars: &Vars<'_>, now_ms: i64) -> Filter {
        let all =
            |parts: &[Filter]| parts.iter().map(|part| part.with_known(vars, now_ms)).collect();
        match self {
            Filter::And(parts) => Filter::And(flat(all(parts))),
            Filter::Or(parts) => Filter::Or(all(parts)),
            Filter::Expr(expr) => expr.as_filter(vars, now_ms),
            other => other.clone(),
        }
    }
}

impl ExprFilter {
    /// The filter that says the same: an `$or` by its branches, which may each have an index of their own.
    fn as_filter(&self, vars: &Vars<'_>, now_ms: i64) -> Filter {
        self.branches(vars, now_ms)
            .unwrap_or_else(|| Filter::Expr(Box::new(self.with_known(vars, now_ms))))
    }

    /// An `$or`, or an `$and` around one, by its operands; none if that leads to no bounds.
    fn branches(&self, vars: &Vars<'_>, now_ms: i64) -> Option<Filter> {
        let (logic, args) = self.expr.operands()?;
        let parts: Vec<Filter> =
            self.parts(logic, args)?.iter().map(|part| part.as_filter(vars, now_ms)).collect();
        match logic {
            // Below an `$and`: the query's own `$or` at the root is what explain calls a subplan.
            Logic::Or => parts.iter().all(has_known).then(|| Filter::And(vec![Filter::Or(parts)])),
            // Without an `$or` in it what is known of its operands is known of the whole.
            Logic::And => {
                let splits = parts.iter().any(|part| !matches!(part, Filter::Expr(_)));
                splits.then(|| Filter::And(flat(parts)))
            }
        }
    }

    /// One filter for each operand, with its own source.
    fn parts(&self, logic: Logic, args: &[Expr]) -> Option<Vec<ExprFilter>> {
        let Value::Array(sources) = self.source.value().as_doc()?.get(logic.name()) else {
            return None;
        };
        if args.is_empty() || sources.iter().count() != args.len() {
            return None;
        }
        let part = |(expr, source): (&Expr, Value<'_>)| ExprFilter {
            expr: Arc::new(expr.clone()),
            source: ValueBuf::new(source),
            known: Vec::new(),
        };
        Some(args.iter().zip(sources.iter()).map(part).collect())
    }

    fn with_known(&self, vars: &Vars<'_>, now_ms: i64) -> ExprFilter {
        let arena = Bump::new();
        let mut known = Vec::new();
        self.expr.comparisons(None, &mut |comparison| {
            if let Some(value) = comparison.value(vars, now_ms, &arena) {
                known.push(Known {
                    path: comparison.path.dotted(),
                    relation: comparison.relation,
                    value: ValueBuf::new(value),
                    collation: comparison.collation,
                });
            }
        });
        ExprFilter { known, ..self.clone() }
    }
}

/// Whether it may lead to bounds.
fn has_known(filter: &Filter) -> bool {
    match filter {
        Filter::Expr(expr) => !expr.known.is_empty(),
        Filter::And(parts) => parts.iter().any(has_known),
        Filter::Or(parts) => parts.iter().all(has_known),
        _ => false,
    }
}

/// The conjuncts, also those of conjunctions among them: a plan looks for an `$or` among the former only.
fn flat(parts: Vec<Filter>) -> Vec<Filter> {
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Filter::And(inner) => out.extend(inner),
            part => out.push(part),
        }
    }
    out
}
