//! Families of strict operators. A new operator is a row in a family and a golden case.

mod compare;
mod prelude;

use super::Operator;

/// All families.
pub(super) static FAMILIES: &[&[Operator]] = &[compare::OPS];
