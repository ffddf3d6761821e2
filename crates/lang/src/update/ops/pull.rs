//! `$pull`: removes the elements that match a condition.
//!
//! The operand is a value to compare with, operators on the element, a pattern, or a filter on elements that are
//! documents.

use nagi_bson::{Doc, DocBuf, DocWriter, Element, Value, ValueBuf, ValueSlot};
use nagi_error::{Code, Result, bail};

use super::{At, Change, UpdateOp};
use crate::collation::{self, Collation};
use crate::expr::ParseCx;
use crate::filter::{Allowed, Filter, MatchCx};
use crate::path::FieldPath;
use crate::update::Operators;

pub(super) const PULL: UpdateOp = UpdateOp { name: "$pull", parse };

/// The condition of the elements to remove.
#[derive(Debug)]
pub(crate) enum Pull {
    Equal(ValueBuf, Option<&'static Collation>),
    /// A filter on the element, which gets the field name "".
    Element(Filter),
    /// A filter on elements that are documents.
    Object(Filter),
}

fn parse(update: &mut Operators, field: Element<'_>, cx: &mut ParseCx<'_>) -> Result<()> {
    let pull = match field.value() {
        value @ Value::Regex(_) => Pull::Element(wrapped(value, cx)?),
        Value::Doc(doc) if is_condition(doc) => Pull::Element(wrapped(Value::Doc(doc), cx)?),
        Value::Doc(doc) => Pull::Object(Filter::parse_with(doc, cx, Allowed::PLAIN)?),
        value => Pull::Equal(ValueBuf::new(value), cx.collation()),
    };
    update.add(&FieldPath::new(field.name()), Change::Pull(pull))
}

/// Returns true if the first name is an operator of a field. `$eq`, `$not` and logical operators do not count: an
/// operand that begins with one of them is parsed as a filter and then rejected.
fn is_condition(doc: Doc<'_>) -> bool {
    let operator = |name: &str| !matches!(name, "$eq" | "$not") && Filter::is_field_operator(name);
    doc.first().is_some_and(|e| operator(e.name()))
}

fn wrapped(condition: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Filter> {
    let doc = DocBuf::build(|out| out.put("", condition));
    Filter::parse_with(doc.as_doc(), cx, Allowed::PLAIN)
}

impl Pull {
    fn matches(&self, element: Value<'_>, cx: &MatchCx<'_>, scratch: &mut Vec<u8>) -> Result<bool> {
        match self {
            Pull::Equal(value, own) => Ok(collation::equal(value.value(), element, *own)),
            Pull::Object(filter) => match element {
                Value::Doc(doc) => filter.matches(doc, cx),
                _ => Ok(false),
            },
            Pull::Element(filter) => {
                scratch.clear();
                let mut wrapped = DocWriter::new(scratch);
                wrapped.put("", element);
                wrapped.finish();
                filter.matches(Doc::trusted(scratch), cx)
            }
        }
    }

    pub(super) fn apply(&self, old: Value<'_>, at: &At<'_, '_>, slot: ValueSlot<'_>) -> Result<()> {
        let array = match old {
            Value::Missing => return Ok(()),
            Value::Array(array) => array,
            _ => bail!(Code::BAD_VALUE, "Cannot apply $pull to a non-array value"),
        };
        let cx = at.cx.matching();
        let mut scratch = Vec::new();
        slot.array(|out| {
            for element in array.iter() {
                if !self.matches(element, &cx, &mut scratch)? {
                    out.push(element);
                }
            }
            Ok(())
        })
    }
}
