//! Parsing of a field of `$group`: `total: {$sum: "$price"}`.

use std::sync::Arc;

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

use super::{Accumulator, NewState, NewStates, Parsed, ROWS, States, states::Flat};
use crate::expr::{Args, Deps, Expr, Nulls, Operator, ParseCx};
use crate::window::{NewWindowState, WindowState};

/// An accumulator with its argument.
pub struct AccumSpec {
    name: &'static str,
    argument: Expr,
    new_state: NewState,
    new_states: NewStates,
    new_sliding: Option<NewWindowState>,
}

impl std::fmt::Debug for AccumSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{}: {:?}}}", self.name, self.argument)
    }
}

impl AccumSpec {
    /// Parses the accumulator `name` with its argument. Unknown names are 15952.
    pub fn parse(name: &str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<AccumSpec> {
        let Some(row) = ROWS.iter().find(|row| row.name == name) else {
            bail!(Code::Location(15952), "unknown group operator '{name}'");
        };
        Ok(AccumSpec::made(row.name, (row.parse)(row.name, value, cx)?))
    }

    pub(super) fn made(name: &'static str, parsed: Parsed) -> AccumSpec {
        let Parsed { argument, new_state, new_states, new_sliding } = parsed;
        AccumSpec { name, argument, new_state, new_states, new_sliding }
    }

    /// Parses it as a window function, for which an array is an expression like any other.
    pub(crate) fn parse_over_window(
        name: &str,
        value: Value<'_>,
        cx: &mut ParseCx<'_>,
    ) -> Result<AccumSpec> {
        if !matches!(value, Value::Array(_)) {
            return AccumSpec::parse(name, value, cx);
        }
        let whole = AccumSpec::parse(name, Value::Null, cx)?;
        Ok(AccumSpec { argument: Expr::parse(value, cx)?, ..whole })
    }

    /// How states are made that forget their oldest value; none if it is no window function.
    pub(crate) fn into_parts(self) -> (Expr, NewState, Option<NewWindowState>) {
        (self.argument, self.new_state, self.new_sliding)
    }

    /// Parses a whole field of `$group`; checks its name and that it is one accumulator.
    pub fn parse_field(field: &str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<AccumSpec> {
        if field.contains('.') {
            bail!(Code::Location(40235), "The field name '{field}' cannot contain '.'");
        }
        if field.starts_with('$') {
            bail!(Code::Location(40236), "The field name '{field}' cannot be an operator name");
        }
        let Value::Doc(doc) = value else {
            bail!(Code::Location(40234), "The field '{field}' must be an accumulator object");
        };
        if !doc.first().is_some_and(|first| first.name().starts_with('$')) {
            bail!(Code::Location(40234), "The field '{field}' must be an accumulator object");
        }
        let mut elements = doc.iter();
        let (Some(first), None) = (elements.next(), elements.next()) else {
            bail!(Code::Location(40238), "The field '{field}' must specify one accumulator");
        };
        AccumSpec::parse(first.name(), first.value(), cx)
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What is evaluated for each document and given to [`Accumulator::add`].
    pub fn argument(&self) -> &Expr {
        &self.argument
    }

    /// A state that has seen nothing.
    pub fn new_state(&self) -> Box<dyn Accumulator> {
        (self.new_state)()
    }

    /// A place for the states of many groups; empty.
    pub fn new_states(&self) -> Box<dyn States> {
        (self.new_states)()
    }

    pub fn deps(&self, deps: &mut Deps) {
        self.argument.deps(deps);
    }
}

/// A group key of one field has null for missing, as a key that is no document has.
static MISSING_TO_NULL: Operator = Operator {
    name: "$_internalMissingToNull",
    args: Args::Exactly(1),
    nulls: Nulls::Pass,
    pure: true,
    eval: |_, args| Ok(if args[0].is_missing() { Value::Null } else { args[0] }),
};

/// Parses the `_id` of `$group`: an expression, a document of expressions, or a constant.
///
/// An array is a constant, and a field of a document may not be a number or a boolean (17390):
/// `{_id: {a: 1}}` reads as an inclusion and means nothing.
pub fn parse_group_key(value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    match value {
        Value::Doc(doc) => {
            let operator = doc.first().is_some_and(|e| e.name().starts_with('$'));
            let inclusion = |v: Value<'_>| v.is_number() || matches!(v, Value::Bool(_));
            if !operator && doc.iter().any(|e| inclusion(e.value())) {
                bail!(Code::Location(17390), "$group does not support inclusion-style expressions");
            }
            let mut key = Expr::parse(value, cx)?;
            if let (Expr::Object(fields), 1) = (&mut key, doc.count()) {
                for (_, field) in fields.iter_mut() {
                    let inner = std::mem::replace(field, Expr::constant(Value::Null));
                    *field = Expr::Call(&MISSING_TO_NULL, Box::new([inner]));
                }
            }
            Ok(key)
        }
        Value::String(_) => Expr::parse(value, cx),
        constant => Ok(Expr::constant(constant)),
    }
}

/// Parses the argument of an accumulator that takes one expression.
pub(super) fn single<A: Accumulator + 'static>(
    name: &str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
    new: impl Fn() -> A + Send + Sync + 'static,
) -> Result<Parsed> {
    if matches!(value, Value::Array(_)) {
        bail!(Code::Location(40237), "The {name} accumulator is a unary operator");
    }
    Ok(parsed(Expr::parse(value, cx)?, new))
}

/// An argument and the maker of states.
pub(super) fn parsed<A: Accumulator + 'static>(
    argument: Expr,
    new: impl Fn() -> A + Send + Sync + 'static,
) -> Parsed {
    let new = Arc::new(new);
    let of_many = Arc::clone(&new);
    Parsed {
        argument,
        new_state: Box::new(move || Box::new(new())),
        new_states: Box::new(move || {
            let new = Arc::clone(&of_many);
            Box::new(Flat::new(move || new()))
        }),
        new_sliding: None,
    }
}

impl Parsed {
    /// The states of many groups are kept in a way of their own.
    pub(super) fn kept_as<S: States + 'static>(
        mut self,
        new: impl Fn() -> S + Send + Sync + 'static,
    ) -> Parsed {
        self.new_states = Box::new(move || Box::new(new()));
        self
    }

    /// Adds how states over a moving window are made.
    pub(super) fn sliding<S: WindowState + 'static>(
        mut self,
        new: impl Fn() -> S + Send + Sync + 'static,
    ) -> Parsed {
        self.new_sliding = Some(Box::new(move || Box::new(new())));
        self
    }
}
