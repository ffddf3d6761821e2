//! The update operators: one row and one file each.
//!
//! A row parses the operand of one field and adds a [`Change`] to the tree. A change reports if it creates a value
//! where none exists ([`Change::viability`]), and writes the new value of its field ([`Change::apply`]).

mod add_to_set;
mod arith;
mod bit;
mod current_date;
mod extreme;
mod pop;
mod pull;
mod pull_all;
mod push;
mod push_sort;
mod rename;
mod set;
mod unset;
mod value_set;

use nagi_bson::{Doc, Element, Value, ValueBuf, ValueSlot, text};
use nagi_error::Result;

use super::{Operators, UpdateCx, check};
use crate::expr::ParseCx;
use crate::path::FieldPath;

use add_to_set::AddToSet;
use arith::Arith;
use bit::Bit;
use current_date::CurrentDate;
use extreme::Extreme;
use pull::Pull;
use pull_all::PullAll;
use push::Push;

/// One operator of the registry.
pub(super) struct UpdateOp {
    pub(super) name: &'static str,
    pub(super) parse: fn(&mut Operators, Element<'_>, &mut ParseCx<'_>) -> Result<()>,
}

/// All operators, sorted by name.
static OPERATORS: &[UpdateOp] = &[
    add_to_set::ADD_TO_SET,
    bit::BIT,
    current_date::CURRENT_DATE,
    arith::INC,
    extreme::MAX,
    extreme::MIN,
    arith::MUL,
    pop::POP,
    pull::PULL,
    pull_all::PULL_ALL,
    push::PUSH,
    rename::RENAME,
    set::SET,
    set::SET_ON_INSERT,
    unset::UNSET,
];

/// Finds an operator by its name.
pub(super) fn find(name: &str) -> Option<&'static UpdateOp> {
    OPERATORS.binary_search_by_key(&name, |row| row.name).ok().map(|at| &OPERATORS[at])
}

/// The change of an operator at the end of its path.
#[derive(Debug)]
pub(crate) enum Change {
    Set(ValueBuf),
    SetOnInsert(ValueBuf),
    Unset,
    Arith(Arith),
    Extreme(Extreme),
    /// The target of a `$rename`. The path is that of its source.
    RenameTo(FieldPath),
    /// The source of `$rename`.
    RenameFrom,
    CurrentDate(CurrentDate),
    Bit(Bit),
    Push(Push),
    AddToSet(AddToSet),
    /// `$pop`: removes the first or the last element.
    Pop {
        first: bool,
    },
    Pull(Pull),
    PullAll(PullAll),
}

/// The place where a change is applied.
#[derive(Clone, Copy)]
pub(super) struct At<'w, 'a> {
    pub(super) path: &'w str,
    /// The document before the update.
    pub(super) root: Doc<'a>,
    pub(super) cx: &'w UpdateCx<'a>,
    pub(super) inserting: bool,
}

impl At<'_, '_> {
    /// The last component of the path.
    fn field(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// The `_id` of the document, in the form of error messages.
    fn id(&self) -> String {
        match self.root.get("_id") {
            Value::Missing => "no id".to_owned(),
            id => format!("_id: {}", text::value_text(id)),
        }
    }
}

/// The effect of a change where no value exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Viability {
    Creates,
    Nothing,
}

impl Change {
    /// Determines if the change writes a value where none exists.
    ///
    /// # Errors
    /// The errors of reading the source of a `$rename`.
    pub(super) fn viability(&self, at: &At<'_, '_>) -> Result<Viability> {
        let creates = match self {
            Change::SetOnInsert(_) => at.inserting,
            Change::RenameTo(source) => rename::moves(source, at)?,
            Change::Unset
            | Change::RenameFrom
            | Change::Pop { .. }
            | Change::Pull(_)
            | Change::PullAll(_) => false,
            _ => true,
        };
        Ok(if creates { Viability::Creates } else { Viability::Nothing })
    }

    /// Returns true if a path through a scalar is an error even if the change would not create a value.
    pub(super) fn is_strict(&self) -> bool {
        matches!(self, Change::Pop { .. } | Change::Pull(_) | Change::PullAll(_))
    }

    /// Returns true if MongoDB counts this as a change of an existing value even if the value stays the same. MongoDB
    /// compares the results of `$inc` and `$mul` as numbers, so NaN always differs. It does not compare the results
    /// of `$push` and `$currentDate`.
    pub(super) fn always_counts(&self, old: Value<'_>) -> bool {
        match self {
            Change::Arith(arith) => arith.gives_nan(old),
            Change::CurrentDate(_) => true,
            Change::Push(push) => push.always_counts(),
            _ => false,
        }
    }

    /// Returns true if this change at a path of `components` could exceed the maximal nesting.
    pub(super) fn is_deep(&self, components: usize) -> bool {
        let operand = match self {
            Change::Set(value) | Change::SetOnInsert(value) => value.value().depth(),
            Change::Extreme(extreme) => extreme.operand.value().depth(),
            Change::Push(push) => push.depth(),
            Change::AddToSet(add) => add.depth(),
            Change::RenameTo(_) => return true,
            _ => 0,
        };
        components + operand > check::STORED_DEPTH_MAX
    }

    /// Writes the new value of a field. `old` is `Missing` if no value exists.
    pub(super) fn apply<'a>(
        &self,
        old: Value<'a>,
        at: &At<'_, 'a>,
        slot: ValueSlot<'_>,
    ) -> Result<()> {
        match self {
            Change::Set(value) => slot.put(value.value()),
            Change::SetOnInsert(value) if at.inserting => slot.put(value.value()),
            Change::SetOnInsert(_) => slot.put(old),
            Change::Unset | Change::RenameFrom => slot.put(Value::Missing),
            Change::Arith(arith) => return arith.apply(old, at, slot),
            Change::Extreme(extreme) => extreme.apply(old, slot),
            Change::RenameTo(source) => return rename::apply(source, old, at, slot),
            Change::CurrentDate(date) => date.apply(at, slot),
            Change::Bit(bit) => return bit.apply(old, at, slot),
            Change::Push(push) => return push.apply(old, at, slot),
            Change::AddToSet(add) => return add.apply(old, at, slot),
            Change::Pop { first } => return pop::apply(*first, old, at, slot),
            Change::Pull(pull) => return pull.apply(old, at, slot),
            Change::PullAll(values) => return pull_all::apply(values, old, slot),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn operators_are_sorted() {
        assert!(super::OPERATORS.is_sorted_by_key(|row| row.name));
    }

    #[test]
    fn rows_have_golden_cases() {
        let files = nagi_testkit::rows::Files { language: true, ..Default::default() };
        nagi_testkit::rows::check("update", super::OPERATORS.iter().map(|row| row.name), &files);
    }
}
