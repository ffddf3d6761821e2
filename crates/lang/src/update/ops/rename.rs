//! `$rename`: moves a field. Both paths may lead only through documents.
//!
//! In the tree it consists of two changes: one removes the source, the other writes the source's old value to the
//! target.

use nagi_bson::{Element, Value, ValueSlot, text};
use nagi_error::{Code, Result, bail};

use super::{At, Change, UpdateOp};
use crate::path::FieldPath;
use crate::update::{Operators, tree};

pub(super) const RENAME: UpdateOp =
    UpdateOp { name: "$rename", parse: |u, field, _| parse(u, field) };

fn parse(update: &mut Operators, field: Element<'_>) -> Result<()> {
    let name = field.name();
    let Value::String(target) = field.value() else {
        bail!(
            Code::BAD_VALUE,
            "The 'to' field for $rename must be a string: {name}: {}",
            text::value_text(field.value())
        );
    };
    if target.contains('\0') {
        bail!(Code::BAD_VALUE, "The 'to' field for $rename cannot contain an embedded null byte");
    }
    let (from, to) = (FieldPath::new(name), FieldPath::new(target));
    update.check_path(&from)?;
    update.check_path(&to)?;
    if from == to {
        bail!(
            Code::BAD_VALUE,
            "The source and target field for $rename must differ: {name}: \"{target}\""
        );
    }
    if from.is_prefix_of(&to) || to.is_prefix_of(&from) {
        bail!(
            Code::BAD_VALUE,
            "The source and target field for $rename must not be on the same path: {name}: \
             \"{target}\""
        );
    }
    if tree::is_dynamic(&from) {
        bail!(Code::BAD_VALUE, "The source field for $rename may not be dynamic: {name}");
    }
    if tree::is_dynamic(&to) {
        bail!(Code::BAD_VALUE, "The destination field for $rename may not be dynamic: {target}");
    }
    update.add(&from, Change::RenameFrom)?;
    update.add(&to, Change::RenameTo(from))
}

/// The value of the source, or `Missing`.
///
/// # Errors
/// 2 if the path leads to an array element, 28 if it leads through a value without fields.
fn source<'a>(path: &FieldPath, at: &At<'_, 'a>) -> Result<Value<'a>> {
    let mut value = Value::Doc(at.root);
    for component in 0..path.len() {
        value = match value {
            Value::Doc(doc) => doc.get(path.part(component)),
            Value::Missing => return Ok(Value::Missing),
            Value::Array(_) if path.index(component).is_some() => {
                return Err(in_array("source", path.as_str(), at, component));
            }
            scalar => {
                let field = path.part(component - 1);
                bail!(
                    Code::PATH_NOT_VIABLE,
                    "cannot use the part ({field} of {path}) to traverse the element ({{{field}: \
                     {}}})",
                    text::value_text(scalar)
                )
            }
        };
    }
    Ok(value)
}

fn in_array(which: &str, path: &str, at: &At<'_, '_>, component: usize) -> nagi_error::Error {
    let field = path.split('.').nth(component - 1).unwrap_or(path);
    nagi_error::err!(
        Code::BAD_VALUE,
        "The {which} field cannot be an array element, '{path}' in doc with {} has an array field \
         called '{field}'",
        at.id()
    )
}

/// Writes the value of the source at the target.
pub(super) fn apply<'a>(
    from: &FieldPath,
    old: Value<'a>,
    at: &At<'_, 'a>,
    slot: ValueSlot<'_>,
) -> Result<()> {
    let value = source(from, at)?;
    if value.is_missing() {
        slot.put(old);
        return Ok(());
    }
    check_target(at)?;
    slot.put(value);
    Ok(())
}

/// Returns true if the source exists.
///
/// # Errors
/// The errors of [`source`], and 2 if the path of the target leads through an array.
pub(super) fn moves(from: &FieldPath, at: &At<'_, '_>) -> Result<bool> {
    let moves = !source(from, at)?.is_missing();
    if moves {
        check_target(at)?;
    }
    Ok(moves)
}

/// Checks that the path of the target does not lead through an array.
fn check_target(at: &At<'_, '_>) -> Result<()> {
    let mut value = Value::Doc(at.root);
    for (component, name) in at.path.split('.').enumerate() {
        value = match value {
            Value::Doc(doc) => doc.get(name),
            Value::Array(_) => return Err(in_array("destination", at.path, at, component)),
            _ => return Ok(()),
        };
    }
    Ok(())
}
