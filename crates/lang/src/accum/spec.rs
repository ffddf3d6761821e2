//! The parser of a field of `$group`: `total: {$sum: "$price"}`.

use std::sync::Arc;

use nagi_bson::Value;
use nagi_error::{Code, Result, bail};

use super::{Accumulator, NewState, NewStates, Parsed, ROWS, States, states::Flat};
use crate::expr::{Args, Deps, Expr, Nulls, Operator, ParseCx};
use crate::window::{NewWindowState, WindowState};

/// A parsed accumulator with its argument.
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
    /// Parses the accumulator `name` with its argument.
    ///
    /// # Errors
    /// 15952 for an unknown name, and the errors of each accumulator.
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

    /// Parses an accumulator as a window function, where an array is a normal expression.
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

    /// The argument, the constructor of states, and the constructor of states for moving windows; the latter is none
    /// if the accumulator is not a window function.
    pub(crate) fn into_parts(self) -> (Expr, NewState, Option<NewWindowState>) {
        (self.argument, self.new_state, self.new_sliding)
    }

    /// Parses a field of `$group`, and checks its name and that it has exactly one accumulator.
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

    /// The expression that is evaluated for each document and passed to [`Accumulator::add`].
    pub fn argument(&self) -> &Expr {
        &self.argument
    }

    /// An empty state.
    pub fn new_state(&self) -> Box<dyn Accumulator> {
        (self.new_state)()
    }

    /// An empty container for the states of many groups.
    pub fn new_states(&self) -> Box<dyn States> {
        (self.new_states)()
    }

    pub fn deps(&self, deps: &mut Deps) {
        self.argument.deps(deps);
    }
}

/// Replaces missing by null in a group key with one field, as it is done for a key that is not a document.
static MISSING_TO_NULL: Operator = Operator {
    name: "$_internalMissingToNull",
    args: Args::Exactly(1),
    nulls: Nulls::Pass,
    pure: true,
    eval: |_, args| Ok(if args[0].is_missing() { Value::Null } else { args[0] }),
};

/// Parses the `_id` of `$group`: an expression, a document of expressions, or a constant.
///
/// An array is a constant. A field of a document may not be a number or a boolean (17390), because `{_id: {a: 1}}`
/// looks like an inclusion.
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

/// Parses the argument of an accumulator with one expression.
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

/// Combines an argument with the constructors of states.
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
    /// Sets a specialized container for the states of many groups.
    pub(super) fn kept_as<S: States + 'static>(
        mut self,
        new: impl Fn() -> S + Send + Sync + 'static,
    ) -> Parsed {
        self.new_states = Box::new(move || Box::new(new()));
        self
    }

    /// Sets the constructor of states for moving windows.
    pub(super) fn sliding<S: WindowState + 'static>(
        mut self,
        new: impl Fn() -> S + Send + Sync + 'static,
    ) -> Parsed {
        self.new_sliding = Some(Box::new(move || Box::new(new())));
        self
    }
}
