//! The parts of the parser that only the projection of `find` has: a positional path, `$slice` and `$elemMatch`.

use nagi_bson::{Doc, Value, number};
use nagi_error::{Code, Result, bail};

use super::find::{Action, Slice};
use super::parser::{Parser, check_path};
use crate::filter::{Allowed, Filter};
use crate::path::FieldPath;

impl Parser<'_, '_, '_> {
    /// Parses `a.b.$`, where `base` is "a.b". The element is determined when a document matches.
    pub(super) fn positional(&mut self, base: &str, value: Value<'_>) -> Result<()> {
        match value {
            Value::Doc(_) => bail!(
                Code::Location(31271),
                "positional projection cannot be used with an expression or sub object"
            ),
            value if !value.is_number() && !matches!(value, Value::Bool(_)) => {
                bail!(Code::Location(31308), "positional projection cannot be used with a literal")
            }
            _ => {}
        }
        if !value.is_truthy() || self.seen.excludes == Some(true) {
            bail!(Code::Location(31395), "positional projection cannot be used with exclusion");
        }
        if self.seen.positional.is_some() {
            bail!(
                Code::Location(31276),
                "Cannot specify more than one positional projection per query."
            );
        }
        if self.seen.elem_match {
            bail!(Code::Location(31256), "Cannot specify positional operator and $elemMatch.");
        }
        if self.filter.is_none() {
            bail!(
                Code::Location(51050),
                "Projections with a positional operator require a matcher"
            );
        }
        if base.is_empty() {
            bail!(Code::Location(5_392_900), "Projection on field .$ is invalid");
        }
        check_path(base)?;
        self.seen.excludes = Some(false);
        self.put(base, Action::Positional)?;
        self.seen.positional = Some(FieldPath::new(base));
        Ok(())
    }

    /// Parses `$slice` in the form of `find`, otherwise as an expression.
    pub(super) fn slice(&mut self, path: &str, doc: Doc<'_>) -> Result<()> {
        let argument = doc.get("$slice");
        if let Some(slice) = parse_slice(argument)? {
            self.seen.slice = true;
            return self.put(path, Action::Slice(slice));
        }
        self.operator(path, doc).map_err(|error| {
            error.context(&format!(
                "Invalid $slice syntax. The given syntax {doc} did not match the find() syntax \
                 because :: {} :: The given syntax did not match the expression $slice syntax. :: \
                 caused by :: ",
                no_slice(argument)
            ))
        })
    }

    pub(super) fn elem_match(&mut self, path: &str, condition: Value<'_>) -> Result<()> {
        let Value::Doc(condition) = condition else {
            bail!(
                Code::Location(31274),
                "elemMatch: Invalid argument, object required, but got {}",
                condition.kind().name()
            );
        };
        if self.seen.positional.is_some() {
            bail!(Code::Location(31255), "Cannot specify positional operator and $elemMatch.");
        }
        if path.contains('.') {
            bail!(Code::Location(31275), "Cannot use $elemMatch projection on a nested field.");
        }
        let filter = Filter::parse_elem_match(condition, self.cx, Allowed::ALL)?;
        self.seen.elem_match = true;
        self.put(path, Action::ElemMatch(Box::new(filter)))
    }
}

/// Parses `n` or `[skip, limit]`; `None` for other arguments, which are parsed as an expression.
fn parse_slice(argument: Value<'_>) -> Result<Option<Slice>> {
    let whole = |value: Value<'_>| {
        let n = number::truncate_to_i64(value).unwrap_or(0);
        n.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
    };
    if argument.is_number() {
        return Ok(Some(Slice { skip: None, limit: whole(argument) }));
    }
    let Value::Array(arguments) = argument else { return Ok(None) };
    let (skip, limit) = (arguments.get(0), arguments.get(1));
    if arguments.count() != 2 || !skip.is_number() || !limit.is_number() {
        return Ok(None);
    }
    if whole(limit) <= 0 {
        // It cannot be the expression either, whose first argument is an array.
        bail!(
            Code::Location(28724),
            "First argument to $slice must be an array, but is of type: {}",
            skip.kind().name()
        );
    }
    Ok(Some(Slice { skip: Some(whole(skip)), limit: whole(limit) }))
}

/// The reason why an argument of `$slice` does not have the form of `find`.
fn no_slice(argument: Value<'_>) -> &'static str {
    match argument {
        Value::Array(items) if items.count() == 2 && items.get(0).is_number() => {
            "Location31258: $slice expects the limit argument to be a number"
        }
        Value::Array(items) if items.count() == 2 => {
            "Location31257: $slice expects the skip argument to be a number"
        }
        Value::Array(_) => "Location31272: $slice array argument should be of form [skip, limit]",
        _ => "Location31273: $slice only supports numbers and [skip, limit] arrays",
    }
}
