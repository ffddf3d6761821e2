//! Checks of names that users write: field paths, field names of object literals, variables.

use nagi_error::{Code, Result, bail};

use super::ExprPath;

/// The maximal number of components of a path.
const PATH_COMPONENTS_MAX: usize = 200;

/// Checks a field path (without its `$`) and splits it.
pub fn parse_field_path(path: &str) -> Result<ExprPath> {
    if path.is_empty() {
        bail!(Code::Location(40352), "FieldPath cannot be constructed with empty string");
    }
    if path.ends_with('.') {
        bail!(Code::Location(40353), "FieldPath must not end with a '.'.");
    }
    let mut count = 0;
    for part in path.split('.') {
        check_component(part)?;
        count += 1;
    }
    if count > PATH_COMPONENTS_MAX {
        bail!(Code::OVERFLOW, "FieldPath is too long");
    }
    Ok(ExprPath::split(path))
}

fn check_component(name: &str) -> Result<()> {
    if name.is_empty() {
        bail!(Code::Location(15998), "FieldPath field names may not be empty strings.");
    }
    if name.starts_with('$') && !matches!(name, "$id" | "$ref" | "$db") {
        bail!(
            Code::Location(16410),
            "FieldPath field names may not start with '$'. Consider using $getField or $setField."
        );
    }
    if name.contains('\0') {
        bail!(Code::Location(16411), "FieldPath field names may not contain '\\0'.");
    }
    Ok(())
}

/// Checks the name of a field in an object literal.
pub fn check_field_name(name: &str) -> Result<()> {
    check_component(name)?;
    if name.contains('.') {
        bail!(
            Code::Location(16412),
            "FieldPath field names may not contain '.'. Consider using $getField or $setField."
        );
    }
    Ok(())
}

/// Checks the name of a variable that is read: `$$name`.
pub(crate) fn check_variable_read(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        bail!(Code::Location(16869), "empty variable names are not allowed");
    };
    if first.is_ascii() && !first.is_ascii_alphabetic() {
        bail!(
            Code::Location(16870),
            "'{name}' starts with an invalid character for a variable name"
        );
    }
    check_variable_rest(name, Code::Location(16871))
}

/// Checks the name of a variable that a user binds.
pub fn check_variable_write(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        bail!(Code::Location(16866), "empty variable names are not allowed");
    };
    if name == "CURRENT" {
        return Ok(());
    }
    if first.is_ascii() && !first.is_ascii_lowercase() {
        bail!(
            Code::Location(16867),
            "'{name}' starts with an invalid character for a user variable name"
        );
    }
    check_variable_rest(name, Code::Location(16868))
}

fn check_variable_rest(name: &str, code: Code) -> Result<()> {
    let bad = name.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_');
    if let Some(bad) = bad {
        bail!(code, "'{name}' contains an invalid character for a variable name: '{bad}'");
    }
    Ok(())
}
