//! Families of strict operators. To add an operator, add a row to a family and a golden case.

mod arith;
mod array;
mod bits;
mod compare;
mod fold;
mod misc;
mod object;
mod prelude;
mod round;
mod sets;
mod string;
mod substring;
mod trig;

use super::Operator;

pub(super) use sets::prepare_subset;

/// All families.
pub(super) static FAMILIES: &[&[Operator]] = &[
    arith::OPS,
    array::OPS,
    bits::OPS,
    compare::OPS,
    fold::OPS,
    misc::OPS,
    object::OPS,
    round::OPS,
    sets::OPS,
    string::OPS,
    substring::OPS,
    trig::OPS,
];
