//! Explains why a document does not match a validator: the field `errInfo.details` of the error.
//!
//! It splits the source of the validator into clauses and evaluates each clause separately. This is slow and only
//! done for a document that has already failed.

use std::collections::BTreeSet;

use bumpalo::Bump;
use nagi_bson::{Doc, DocBuf, DocWriter, Value};

use super::{Filter, MatchCx, why_schema};
use crate::expr::{ParseCx, Vars};

/// Larger values (in bytes) are not included in an explanation.
const SHOWN_BYTES_MAX: usize = 16 << 10;
/// The maximal number of entries of any list in an explanation.
pub(super) const LISTED_COUNT_MAX: usize = 1000;

/// Writes the fields of `details`: the reasons why `doc` does not match `validator`.
pub fn why_not(validator: Doc<'_>, doc: Doc<'_>, now_ms: i64, out: &mut DocWriter<'_>) {
    Why { doc, now_ms }.all(&clauses(validator), false, out);
}

/// One condition of a filter: `{path: {operator: operand}}`, or `{$operator: operand}`.
struct Clause {
    name: String,
    doc: DocBuf,
}

/// Splits a filter document into its conditions.
fn clauses(filter: Doc<'_>) -> Vec<Clause> {
    let mut all = Vec::new();
    for element in filter {
        let (path, value) = (element.name(), element.value());
        let whole = || DocBuf::build(|w| w.put(path, value));
        match value {
            _ if path == "$comment" => {}
            _ if path.starts_with('$') => {
                all.push(Clause { name: path.to_owned(), doc: whole() });
            }
            Value::Doc(operators)
                if operators.first().is_some_and(|first| first.name().starts_with('$')) =>
            {
                for operator in operators.iter().filter(|o| o.name() != "$options") {
                    let doc = DocBuf::build(|w| {
                        w.doc(path, |w| {
                            w.put(operator.name(), operator.value());
                            if operator.name() == "$regex" {
                                w.put("$options", operators.get("$options"));
                            }
                        });
                    });
                    all.push(Clause { name: operator.name().to_owned(), doc });
                }
            }
            Value::Regex(_) => all.push(Clause { name: "$regex".to_owned(), doc: whole() }),
            _ => all.push(Clause { name: "$eq".to_owned(), doc: whole() }),
        }
    }
    all
}

/// Returns true if a document matches a filter. A filter whose evaluation fails does not match.
pub(super) fn matches(filter: Doc<'_>, doc: Doc<'_>, now_ms: i64) -> bool {
    let Ok(filter) = Filter::parse(filter, &mut ParseCx::new()) else { return false };
    let arena = Bump::new();
    let vars = Vars::EMPTY;
    filter.matches(doc, &MatchCx::new(&vars, &arena, now_ms)).unwrap_or(false)
}

/// Writes the value, unless it is too large.
pub(super) fn put_considered(value: Value<'_>, out: &mut DocWriter<'_>) {
    let bytes = DocBuf::build(|w| w.put("v", value));
    if bytes.as_bytes().len() <= SHOWN_BYTES_MAX {
        out.put("consideredValue", value);
    }
}

struct Why<'d> {
    doc: Doc<'d>,
    now_ms: i64,
}

impl Why<'_> {
    fn holds(&self, clause: &Clause) -> bool {
        matches(clause.doc.as_doc(), self.doc, self.now_ms)
    }

    /// Explains clauses that all had to be true (or false, if `inverted`). A single clause is explained without an
    /// `$and`.
    fn all(&self, clauses: &[Clause], inverted: bool, out: &mut DocWriter<'_>) {
        if let [one] = clauses {
            return self.clause(one, inverted, out);
        }
        out.put("operatorName", "$and");
        self.list(clauses, inverted, out);
    }

    /// Lists the clauses that did not have the required result.
    fn list(&self, clauses: &[Clause], inverted: bool, out: &mut DocWriter<'_>) {
        let name = if inverted { "clausesSatisfied" } else { "clausesNotSatisfied" };
        out.array(name, |list| {
            let wrong = clauses.iter().enumerate().filter(|(_, c)| self.holds(c) == inverted);
            for (index, clause) in wrong.take(LISTED_COUNT_MAX) {
                list.doc(|entry| {
                    entry.put("index", index as i32);
                    entry.doc("details", |details| self.clause(clause, inverted, details));
                });
            }
        });
    }

    fn clause(&self, clause: &Clause, inverted: bool, out: &mut DocWriter<'_>) {
        let operand = clause.doc.as_doc().first().map_or(Value::Missing, |first| first.value());
        match (&*clause.name, operand) {
            ("$and" | "$or" | "$nor", Value::Array(filters)) => {
                let parts: Vec<Clause> = filters.iter().filter_map(joined).collect();
                out.put("operatorName", &*clause.name);
                self.list(&parts, inverted != (clause.name == "$nor"), out);
            }
            ("$jsonSchema", Value::Doc(schema)) => {
                out.put("operatorName", "$jsonSchema");
                match inverted {
                    true => out.put("reason", "schema matched"),
                    false => why_schema::explain(schema, self.doc, self.now_ms, out),
                }
            }
            ("$expr", _) => {
                out.put("operatorName", "$expr");
                out.put("specifiedAs", &clause.doc);
                let reason = ["expression did not match", "expression did match"];
                out.put("reason", reason[usize::from(inverted)]);
                out.put("expressionResult", inverted);
            }
            ("$not", _) => {
                let path = clause.doc.as_doc().first().map_or("", |first| first.name());
                let inner = operand.as_doc().map_or(Value::Missing, |not| not.get("$not"));
                let inner = DocBuf::build(|w| w.put(path, inner));
                out.put("operatorName", "$not");
                out.doc("details", |details| {
                    self.all(&clauses(inner.as_doc()), !inverted, details);
                });
            }
            _ => self.leaf(clause, inverted, out),
        }
    }

    fn leaf(&self, clause: &Clause, inverted: bool, out: &mut DocWriter<'_>) {
        let path = clause.doc.as_doc().first().map_or("", |first| first.name());
        out.put("operatorName", &*clause.name);
        out.put("specifiedAs", &clause.doc);
        let mut values = Vec::new();
        values_at(Value::Doc(self.doc), path, &mut values);
        if clause.name == "$exists" {
            let there = !values.is_empty();
            out.put("reason", if there { "path does exist" } else { "path does not exist" });
            return;
        }
        if values.is_empty() {
            out.put("reason", "field was missing");
            return;
        }
        // Operators on whole arrays report the array as the considered value; all others report its elements.
        if !matches!(&*clause.name, "$size" | "$all" | "$elemMatch") {
            values = values.iter().flat_map(|value| elements(*value)).collect();
        }
        let mistyped = !inverted
            && !values.is_empty()
            && !values.iter().any(|value| fits(&clause.name, *value));
        out.put(
            "reason",
            if mistyped { "type did not match" } else { reason(&clause.name, inverted) },
        );
        match values[..] {
            [value] => put_considered(value, out),
            _ => put_all_considered(&values, out),
        }
        if mistyped || clause.name == "$type" {
            put_types(&values, out);
        }
    }
}

/// The elements of an array, or the value itself.
fn elements(value: Value<'_>) -> Vec<Value<'_>> {
    match value {
        Value::Array(items) => items.iter().collect(),
        other => vec![other],
    }
}

fn put_all_considered(values: &[Value<'_>], out: &mut DocWriter<'_>) {
    let all = DocBuf::build(|w| {
        w.array("consideredValues", |list| {
            values.iter().take(LISTED_COUNT_MAX).for_each(|value| list.push(*value));
        });
    });
    if all.as_bytes().len() <= SHOWN_BYTES_MAX {
        out.extend(all.as_doc());
    }
}

fn put_types(values: &[Value<'_>], out: &mut DocWriter<'_>) {
    let names: BTreeSet<&str> = values.iter().map(|value| value.kind().name()).collect();
    match names.len() {
        0 => {}
        1 => names.iter().for_each(|name| out.put("consideredType", *name)),
        _ => out.array("consideredTypes", |list| names.iter().for_each(|name| list.push(*name))),
    }
}

/// An element of `$and`, `$or` or `$nor`, as one clause.
fn joined(filter: Value<'_>) -> Option<Clause> {
    let filter = filter.as_doc()?;
    let mut own = clauses(filter);
    if own.len() == 1 {
        return own.pop();
    }
    // A document with several conditions is explained as a nested `$and`.
    let doc = DocBuf::build(|w| {
        w.array("$and", |list| own.iter().for_each(|clause| list.push(&clause.doc)));
    });
    Some(Clause { name: "$and".to_owned(), doc })
}

/// The values at a path. Arrays on the path are traversed.
fn values_at<'d>(value: Value<'d>, path: &str, out: &mut Vec<Value<'d>>) {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    match value {
        Value::Doc(doc) => match (doc.get(head), rest) {
            (Value::Missing, _) => {}
            (found, Some(rest)) => values_at(found, rest, out),
            (found, None) => out.push(found),
        },
        Value::Array(items) => items.iter().for_each(|item| values_at(item, path, out)),
        _ => {}
    }
}

/// Returns true if the operator applies to values of this type.
fn fits(operator: &str, value: Value<'_>) -> bool {
    match operator {
        "$regex" => matches!(value, Value::String(_) | Value::Symbol(_) | Value::Regex(_)),
        "$mod" => value.is_number(),
        "$size" | "$elemMatch" => matches!(value, Value::Array(_)),
        "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => {
            value.is_number() || matches!(value, Value::Binary(_))
        }
        _ => true,
    }
}

/// The reason that is reported for an operator that failed, or that was true where it had to be false.
fn reason(operator: &str, inverted: bool) -> &'static str {
    let (failed, held) = match operator {
        "$in" => ("no matching value found in array", "matching value found in array"),
        "$nin" => ("matching value found in array", "no matching value found in array"),
        "$ne" => ("comparison succeeded", "comparison failed"),
        "$regex" => ("regular expression did not match", "regular expression did match"),
        "$type" => ("type did not match", "type did match"),
        "$mod" => (
            "$mod did not evaluate to expected remainder",
            "$mod did evaluate to expected remainder",
        ),
        "$size" => {
            ("array length was not equal to given size", "array length was equal to given size")
        }
        "$all" => {
            ("array did not contain all specified values", "array did contain all specified values")
        }
        "$elemMatch" => {
            ("array did not satisfy the child predicate", "array did satisfy the child predicate")
        }
        "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => {
            ("bitwise operator failed to match", "bitwise operator matched successfully")
        }
        _ => ("comparison failed", "comparison succeeded"),
    };
    if inverted { held } else { failed }
}
