//! `$min` and `$max`: set a field to the smaller or greater of its value and the operand, in BSON order.

use std::cmp::Ordering;

use nagi_bson::{Element, Value, ValueBuf, ValueSlot};
use nagi_error::Result;

use super::{Change, UpdateOp};
use crate::collation::{self, Collation};
use crate::expr::ParseCx;
use crate::path::FieldPath;
use crate::update::Operators;

pub(super) const MAX: UpdateOp = UpdateOp {
    name: "$max",
    parse: |update, field, cx| parse(update, field, Ordering::Greater, cx),
};

pub(super) const MIN: UpdateOp =
    UpdateOp { name: "$min", parse: |update, field, cx| parse(update, field, Ordering::Less, cx) };

/// The operand replaces the field if it compares to it as `wins` says.
#[derive(Debug)]
pub(crate) struct Extreme {
    wins: Ordering,
    collation: Option<&'static Collation>,
    pub(super) operand: ValueBuf,
}

fn parse(
    update: &mut Operators,
    field: Element<'_>,
    wins: Ordering,
    cx: &ParseCx<'_>,
) -> Result<()> {
    let extreme =
        Extreme { wins, collation: cx.collation(), operand: ValueBuf::new(field.value()) };
    update.add(&FieldPath::new(field.name()), Change::Extreme(extreme))
}

impl Extreme {
    pub(super) fn apply(&self, old: Value<'_>, slot: ValueSlot<'_>) {
        let operand = self.operand.value();
        let wins = old.is_missing() || collation::values(operand, old, self.collation) == self.wins;
        slot.put(if wins { operand } else { old });
    }
}
