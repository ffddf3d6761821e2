//! The named parameters of forms: `{input: ..., as: ..., in: ...}`.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Error, Result, bail};

/// The error codes for a form's parameters.
pub(super) struct Codes {
    pub(super) name: &'static str,
    /// The argument is not an object.
    pub(super) not_object: i32,
    /// The form does not have a parameter of this name.
    pub(super) unknown: i32,
}

/// The values of `params` in order; the value of an absent one is `Missing`. If a name is repeated, the last value
/// counts.
pub(super) fn params<'v, const N: usize>(
    argument: Value<'v>,
    codes: &Codes,
    params: [&str; N],
) -> Result<[Value<'v>; N]> {
    let Value::Doc(doc) = argument else {
        bail!(
            Code::Location(codes.not_object),
            "{} only supports an object as its argument",
            codes.name
        );
    };
    fields(doc, codes, params)
}

fn fields<'v, const N: usize>(
    doc: Doc<'v>,
    codes: &Codes,
    params: [&str; N],
) -> Result<[Value<'v>; N]> {
    let mut values = [Value::Missing; N];
    for element in doc {
        match params.iter().position(|p| *p == element.name()) {
            Some(at) => values[at] = element.value(),
            None => bail!(
                Code::Location(codes.unknown),
                "Unrecognized parameter to {}: {}",
                codes.name,
                element.name()
            ),
        }
    }
    Ok(values)
}

/// The error for a required parameter that is absent.
pub(super) fn missing(operator: &str, param: &str, code: i32) -> Error {
    Error::new(Code::Location(code), format!("Missing '{param}' parameter to {operator}"))
}
