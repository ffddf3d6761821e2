//! Derives index conditions from the `$expr` parts of a filter, after the variables have got their values.

use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Value, ValueBuf};

use super::{ExprFilter, Filter};
use crate::{
    collation::Collation,
    expr::{Expr, Logic, Relation, Vars},
};

/// A condition on the value of a path, in the order of expressions. MongoDB has predicates for such conditions
/// (`$_internalExprEq` and others). Here they are only used for index bounds; the expression itself still decides.
#[derive(Debug, Clone)]
pub struct Known {
    pub path: String,
    pub relation: Relation,
    pub value: ValueBuf,
    /// The collation of strings; without one, they compare by their bytes.
    pub collation: Option<&'static Collation>,
}

impl Filter {
    /// The same filter, with the derived conditions in each `$expr` that a plan may use.
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
    /// An equivalent filter. An `$or` is split into its branches, because each branch may use a different index.
    fn as_filter(&self, vars: &Vars<'_>, now_ms: i64) -> Filter {
        self.branches(vars, now_ms)
            .unwrap_or_else(|| Filter::Expr(Box::new(self.with_known(vars, now_ms))))
    }

    /// Splits an `$or`, or an `$and` that contains one, into its operands; none if that gives no index bounds.
    fn branches(&self, vars: &Vars<'_>, now_ms: i64) -> Option<Filter> {
        let (logic, args) = self.expr.operands()?;
        let parts: Vec<Filter> =
            self.parts(logic, args)?.iter().map(|part| part.as_filter(vars, now_ms)).collect();
        match logic {
            // Placed below an `$and`, because explain reports an `$or` at the root as a subplan, which is the query's
            // own.
            Logic::Or => parts.iter().all(has_known).then(|| Filter::And(vec![Filter::Or(parts)])),
            // Without an `$or` among the operands, the conditions of the operands apply to the whole; a split gains
            // nothing.
            Logic::And => {
                let splits = parts.iter().any(|part| !matches!(part, Filter::Expr(_)));
                splits.then(|| Filter::And(flat(parts)))
            }
        }
    }

    /// One filter for each operand, with the operand's source.
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

/// Returns true if the filter may give index bounds.
fn has_known(filter: &Filter) -> bool {
    match filter {
        Filter::Expr(expr) => !expr.known.is_empty(),
        Filter::And(parts) => parts.iter().any(has_known),
        Filter::Or(parts) => parts.iter().all(has_known),
        _ => false,
    }
}

/// Flattens nested conjunctions, because a plan looks for an `$or` only among the direct conjuncts.
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
