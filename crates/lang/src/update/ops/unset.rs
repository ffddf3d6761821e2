//! `$unset`: removes a field; an array element becomes null. The operand does not matter.

use super::{Change, UpdateOp};
use crate::path::FieldPath;

pub(super) const UNSET: UpdateOp = UpdateOp {
    name: "$unset",
    parse: |update, field, _| update.add(&FieldPath::new(field.name()), Change::Unset),
};
