//! The rows of strict operators, and the lookup of any operator by name.

use std::collections::HashMap;
use std::sync::LazyLock;

use nagi_bson::Value;
use nagi_error::Result;

use super::forms::{self, FormRow};
use super::named::{self, Named};
use super::{Eval, ops};

/// How an operator takes its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Args {
    /// Exactly this number; a single argument may be written without an array.
    Exactly(usize),
    /// At least the first and at most the second number.
    Between(usize, usize),
    /// Any number.
    Any,
}

/// The effect of a null argument on the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    /// If any argument is null, undefined or missing, the result is null and the function is not called.
    Propagate,
    /// The function is called with the null arguments.
    Pass,
}

/// The function of a strict operator.
pub type EvalFn = for<'a> fn(&Eval<'a>, &[Value<'a>]) -> Result<Value<'a>>;

/// One strict operator: all arguments are evaluated, then `eval` is called.
#[derive(Debug)]
pub struct Operator {
    pub name: &'static str,
    pub args: Args,
    pub nulls: Nulls,
    /// True if equal arguments give equal results, so that constants can be folded.
    pub pure: bool,
    pub eval: EvalFn,
}

pub(super) enum Row {
    Strict(&'static Operator),
    Form(&'static FormRow),
    Named(&'static Named),
}

static BY_NAME: LazyLock<HashMap<&'static str, Row, foldhash::fast::RandomState>> =
    LazyLock::new(|| {
        let mut rows = HashMap::default();
        for operator in ops::FAMILIES.iter().copied().flatten() {
            rows.insert(operator.name, Row::Strict(operator));
        }
        for row in named::FAMILIES.iter().copied().flatten() {
            rows.insert(row.name, Row::Named(row));
        }
        for row in forms::FORMS {
            rows.insert(row.name, Row::Form(row));
        }
        rows
    });

/// Finds the row of an operator by its name, which includes the `$`.
pub(super) fn find(name: &str) -> Option<&'static Row> {
    BY_NAME.get(name)
}

/// Returns true if a name (with `$`) belongs to an operator.
pub(crate) fn is_operator(name: &str) -> bool {
    BY_NAME.contains_key(name)
}

/// The names of all operators, sorted.
pub fn operator_names() -> Vec<&'static str> {
    let mut names: Vec<_> = BY_NAME.keys().copied().collect();
    names.sort_unstable();
    names
}

/// The names of the arguments of an operator whose row declares them; none for others.
pub fn argument_names(operator: &str) -> impl Iterator<Item = &'static str> {
    let params: &[(&'static str, Option<i32>)] = match find(operator) {
        Some(Row::Named(row)) => row.params,
        _ => &[],
    };
    params.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_sorted_and_every_name_is_given_once() {
        let mut count = 0;
        for family in ops::FAMILIES {
            assert!(family.is_sorted_by(|a, b| a.name < b.name), "{}", family[0].name);
            count += family.len();
        }
        for family in named::FAMILIES {
            assert!(family.is_sorted_by(|a, b| a.name < b.name), "{}", family[0].name);
            count += family.len();
        }
        assert!(forms::FORMS.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(BY_NAME.len(), count + forms::FORMS.len());
    }
}
