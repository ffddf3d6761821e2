//! Expressions: comparisons with payloads.
//!
//! Where an expression is a condition of its own, comparisons in it become conditions on tags, which an index finds.
//! Elsewhere they become tests of the value: see `$_internalFleEq` in `nagi_lang`.

use nagi_bson::{Array, ArrayWriter, Doc, DocBuf, DocWriter, Value};
use nagi_error::Result;

use super::{
    condition::{Condition, write_test},
    filter::are_queries,
    tags::{Rewriter, has_query, is_query},
};

/// What an operator of an expression does with payloads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// It compares two operands.
    Compare {
        negated: bool,
    },
    /// Its first operand is one of the elements of the second one.
    In,
    All,
    Any,
    /// It has the payload of a text query, and evaluates that itself.
    Text(&'static str),
    Literal,
}

struct Row {
    name: &'static str,
    meaning: Meaning,
}

const fn row(name: &'static str, meaning: Meaning) -> Row {
    Row { name, meaning }
}

static OPERATORS: &[Row] = &[
    row("$and", Meaning::All),
    row("$const", Meaning::Literal),
    row("$encStrContains", Meaning::Text("substring")),
    row("$encStrEndsWith", Meaning::Text("suffix")),
    row("$encStrNormalizedEq", Meaning::Text("string")),
    row("$encStrStartsWith", Meaning::Text("prefix")),
    row("$eq", Meaning::Compare { negated: false }),
    row("$gt", Meaning::Compare { negated: false }),
    row("$gte", Meaning::Compare { negated: false }),
    row("$in", Meaning::In),
    row("$literal", Meaning::Literal),
    row("$lt", Meaning::Compare { negated: false }),
    row("$lte", Meaning::Compare { negated: false }),
    row("$ne", Meaning::Compare { negated: true }),
    row("$or", Meaning::Any),
];

/// A comparison with payloads.
struct Comparison<'v> {
    field: Value<'v>,
    payloads: Vec<Value<'v>>,
    negated: bool,
}

/// The only operator of an expression, and its operand.
fn operator<'v>(expression: Value<'v>) -> Option<(Meaning, Value<'v>)> {
    let doc = expression.as_doc().filter(|doc| doc.count() == 1)?;
    let element = doc.first()?;
    let row = OPERATORS.iter().find(|row| row.name == element.name())?;
    Some((row.meaning, element.value()))
}

/// A constant payload, possibly in `$const`.
fn payload(value: Value<'_>) -> Option<Value<'_>> {
    match operator(value) {
        Some((Meaning::Literal, inner)) if is_query(inner) => Some(inner),
        _ => is_query(value).then_some(value),
    }
}

fn comparison<'v>(expression: Value<'v>) -> Option<Comparison<'v>> {
    let (meaning, operand) = operator(expression)?;
    if let Meaning::Text(name) = meaning {
        let operand = operand.as_doc()?;
        let payload = payload(operand.get(name))?;
        return Some(Comparison {
            field: operand.get("input"),
            payloads: vec![payload],
            negated: false,
        });
    }
    let operands = operand.as_array().filter(|operands| operands.count() == 2)?;
    let (first, second) = (operands.get(0), operands.get(1));
    match meaning {
        Meaning::Compare { negated } => {
            let (field, payload) = match (payload(first), payload(second)) {
                (None, Some(payload)) => (first, payload),
                (Some(payload), None) => (second, payload),
                _ => return None,
            };
            Some(Comparison { field, payloads: vec![payload], negated })
        }
        Meaning::In => {
            let list = match operator(second) {
                Some((Meaning::Literal, inner)) => inner,
                _ => second,
            };
            let list = list.as_array().filter(|list| are_queries(*list))?;
            Some(Comparison { field: first, payloads: list.iter().collect(), negated: false })
        }
        _ => None,
    }
}

/// True for the path of a field of the document: not one of a variable.
fn is_field(value: Value<'_>) -> bool {
    value.as_str().is_some_and(|path| path.starts_with('$') && !path.starts_with("$$"))
}

impl Rewriter<'_> {
    /// The condition that an expression is true.
    pub(super) fn expression_condition(&mut self, expression: Value<'_>) -> Result<Condition> {
        if has_query(expression) {
            if let Some(found) = comparison(expression)
                && is_field(found.field)
            {
                let any = self.any_of(found.payloads.into_iter(), found.field)?;
                return Ok(any.negated_if(found.negated));
            }
            match operator(expression) {
                Some((Meaning::All, Value::Array(operands))) => {
                    return Ok(Condition::All(self.conditions(operands)?));
                }
                Some((Meaning::Any, Value::Array(operands))) if !operands.is_empty() => {
                    return Ok(Condition::Any(self.conditions(operands)?));
                }
                _ => {}
            }
        }
        let mut rewritten = Vec::new();
        let mut writer = DocWriter::new(&mut rewritten);
        self.put("$expr", expression, &mut writer)?;
        writer.finish();
        Ok(Self::plain(Doc::trusted(&rewritten)))
    }

    fn conditions(&mut self, operands: Array<'_>) -> Result<Vec<Condition>> {
        operands.iter().map(|operand| self.expression_condition(operand)).collect()
    }

    /// Writes an expression, with tests of values instead of comparisons with payloads.
    pub(super) fn put(
        &mut self,
        name: &str,
        expression: Value<'_>,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        self.enter(expression)?;
        if !has_query(expression) || matches!(operator(expression), Some((Meaning::Literal, _))) {
            out.put(name, expression);
            return Ok(());
        }
        if let Some(test) = self.test(expression)? {
            out.put(name, test.as_doc());
            return Ok(());
        }
        match expression {
            Value::Doc(doc) => out.doc(name, |out| {
                doc.iter().try_for_each(|element| self.put(element.name(), element.value(), out))
            }),
            Value::Array(array) => out.array(name, |list| self.push_all(array, list)),
            other => {
                out.put(name, other);
                Ok(())
            }
        }
    }

    fn push_all(&mut self, array: Array<'_>, out: &mut ArrayWriter<'_>) -> Result<()> {
        for value in array.iter() {
            let mut one = Vec::new();
            let mut writer = DocWriter::new(&mut one);
            self.put("", value, &mut writer)?;
            writer.finish();
            out.push(Doc::trusted(&one).get(""));
        }
        Ok(())
    }

    /// The test for a comparison with payloads, if it is one. Text predicates test values themselves.
    fn test(&mut self, expression: Value<'_>) -> Result<Option<DocBuf>> {
        if matches!(operator(expression), Some((Meaning::Text(_), _))) {
            return Ok(expression.as_doc().map(|doc| doc.to_buf()));
        }
        let Some(found) = comparison(expression) else { return Ok(None) };
        let mut keys = Vec::new();
        let mut always = false;
        for payload in &found.payloads {
            if let Value::Binary(data) = payload {
                match self.zeros(data.bytes)? {
                    Some(more) => keys.extend(more),
                    None => always = true,
                }
            }
        }
        let write = |out: &mut DocWriter<'_>| match always {
            true => out.put("$const", true),
            false => write_test(found.field, &keys, out),
        };
        Ok(Some(match found.negated {
            true => DocBuf::build(|out| out.array("$not", |list| list.doc(write))),
            false => DocBuf::build(write),
        }))
    }
}
