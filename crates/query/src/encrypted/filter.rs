//! Filters: predicates over payloads become conditions on tags.
//!
//! ```text
//!   {ssn: <payload>, age: {$gte: <range payload>, $lte: <stub>}}
//!     -> {$and: [{__safeContent__: {$in: [...]}}, {__safeContent__: {$in: [...]}}]}
//! ```

use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value};
use nagi_error::Result;

use super::{
    condition::Condition,
    tags::{Rewriter, has_query, is_query},
};

/// What an operator of a filter does with payloads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Its operands are filters.
    Filters,
    /// Its operand is an expression.
    Expression,
    /// Its operand is a payload that a field matches, or does not match.
    Payload { negated: bool },
    /// Its operand is an array of payloads, of which a field matches one, or none.
    Payloads { negated: bool },
    /// Its operand has operators that must not match together.
    Not,
}

struct Row {
    name: &'static str,
    meaning: Meaning,
}

const fn row(name: &'static str, meaning: Meaning) -> Row {
    Row { name, meaning }
}

static OPERATORS: &[Row] = &[
    row("$and", Meaning::Filters),
    row("$eq", Meaning::Payload { negated: false }),
    row("$expr", Meaning::Expression),
    row("$gt", Meaning::Payload { negated: false }),
    row("$gte", Meaning::Payload { negated: false }),
    row("$in", Meaning::Payloads { negated: false }),
    row("$lt", Meaning::Payload { negated: false }),
    row("$lte", Meaning::Payload { negated: false }),
    row("$ne", Meaning::Payload { negated: true }),
    row("$nin", Meaning::Payloads { negated: true }),
    row("$nor", Meaning::Filters),
    row("$not", Meaning::Not),
    row("$or", Meaning::Filters),
];

fn meaning(name: &str) -> Option<Meaning> {
    OPERATORS.iter().find(|row| row.name == name).map(|row| row.meaning)
}

/// True if the values of an array are payloads.
pub(super) fn are_queries(array: Array<'_>) -> bool {
    !array.is_empty() && array.iter().all(is_query)
}

impl Rewriter<'_> {
    /// The filter without payloads. The recursion is as deep as the document.
    pub(super) fn filter(&mut self, filter: Doc<'_>) -> Result<DocBuf> {
        Ok(self.condition(filter)?.to_filter())
    }

    fn condition(&mut self, filter: Doc<'_>) -> Result<Condition> {
        self.enter(Value::Doc(filter))?;
        if !has_query(Value::Doc(filter)) {
            return Ok(Self::plain(filter));
        }
        let mut rest = Vec::new();
        let mut writer = DocWriter::new(&mut rest);
        let mut all = Vec::new();
        for element in filter {
            let (name, value) = (element.name(), element.value());
            match (meaning(name), value) {
                _ if !has_query(value) => writer.put(name, value),
                (Some(Meaning::Filters), Value::Array(filters)) => {
                    let filters = filters.iter().map(|filter| match filter {
                        Value::Doc(filter) => self.filter(filter).map(|doc| doc.into_bytes()),
                        // The parser refuses it.
                        _ => Ok(Doc::EMPTY.to_buf().into_bytes()),
                    });
                    let filters = filters.collect::<Result<Vec<_>>>()?;
                    writer.array(name, |list| {
                        filters.iter().for_each(|bytes| list.push_doc(Doc::trusted(bytes)));
                    });
                }
                (Some(Meaning::Expression), expr) => all.push(self.expression_condition(expr)?),
                (_, Value::Doc(operators)) if !name.starts_with('$') => {
                    self.field(name, operators, &mut writer, &mut all)?;
                }
                (_, payload) if is_query(payload) && !name.starts_with('$') => {
                    let field = format!("${name}");
                    let one = std::iter::once(payload);
                    all.push(self.any_of(one, Value::String(&field))?);
                }
                _ => writer.put(name, value),
            }
        }
        writer.finish();
        let rest = Doc::trusted(&rest);
        if !rest.is_empty() {
            all.insert(0, Self::plain(rest));
        }
        Ok(match all.len() {
            1 => all.pop().unwrap_or(Condition::All(Vec::new())),
            _ => Condition::All(all),
        })
    }

    /// The operators of a field: those with payloads become conditions in `all`, the others are written to `out`.
    fn field(
        &mut self,
        path: &str,
        operators: Doc<'_>,
        out: &mut DocWriter<'_>,
        all: &mut Vec<Condition>,
    ) -> Result<()> {
        let field = format!("${path}");
        let field = Value::String(&field);
        let mut kept = Vec::new();
        let mut writer = DocWriter::new(&mut kept);
        for element in operators {
            let (name, value) = (element.name(), element.value());
            match (meaning(name), value) {
                (Some(Meaning::Payload { negated }), payload) if is_query(payload) => {
                    let one = self.any_of(std::iter::once(payload), field)?;
                    all.push(one.negated_if(negated));
                }
                (Some(Meaning::Payloads { negated }), Value::Array(array))
                    if are_queries(array) =>
                {
                    all.push(self.any_of(array.iter(), field)?.negated_if(negated));
                }
                (Some(Meaning::Not), Value::Doc(inner)) if has_query(value) => {
                    let inner = DocBuf::build(|out| out.put(path, inner));
                    all.push(self.condition(inner.as_doc())?.negated_if(true));
                }
                _ => writer.put(name, value),
            }
        }
        writer.finish();
        let kept = Doc::trusted(&kept);
        if !kept.is_empty() {
            out.put(path, kept);
        }
        Ok(())
    }
}
