//! Functions that a database stores in `system.js`: `{_id: name, value: function}`.
//!
//! `$where` and the functions of `mapReduce` see them as global variables; `$function` and `$accumulator` do not, as in
//! MongoDB. They are loaded when an engine first runs one of the former.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Error, Result, bail};

/// Passes every document of `system.js` of the request's database to the function, until it returns an error.
pub type Stored<'s> = &'s dyn Fn(&mut dyn FnMut(Doc<'_>) -> Result<()>) -> Result<()>;

/// Passes no documents: nothing is stored.
pub fn nothing_stored(_: &mut dyn FnMut(Doc<'_>) -> Result<()>) -> Result<()> {
    Ok(())
}

/// Returns the name and the value of a document.
///
/// # Errors
/// 10209 if the name is no string, 10210 without a value, 4546000 for code with scope.
pub(crate) fn parts(doc: Doc<'_>) -> Result<(&str, Value<'_>)> {
    let (id, value) = (doc.get("_id"), doc.get("value"));
    let Value::String(name) = id else {
        bail!(Code::Location(10209), "name has to be a string: _id: {id}");
    };
    match value {
        Value::Missing => bail!(Code::Location(10210), "value has to be set"),
        Value::CodeWithScope(_) => bail!(
            Code::Location(4_546_000),
            "BSON type 'CodeWithScope' not supported in system.js scripts. As an alternative use \
             'Code'. Script _id value: '{name}'"
        ),
        value => Ok((name, value)),
    }
}

/// Returns true if the error is more than a function that does not compile: lack of memory, or the request must stop.
pub(crate) fn is_fatal(error: &Error) -> bool {
    error.code() != Code::JS_INTERPRETER_FAILURE || error.message().contains("out of memory")
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    #[test]
    fn documents_that_store_nothing_are_errors() {
        let code = |text: &str| {
            let doc = json::parse(text).expect("a document");
            parts(doc.as_doc()).map(|(name, _)| name.to_owned()).map_err(|e| e.code())
        };
        assert_eq!(code("{_id: \"f\", value: 5}"), Ok("f".to_owned()));
        assert_eq!(code("{_id: 1, value: 5}"), Err(Code::Location(10209)));
        assert_eq!(code("{_id: null, value: 5}"), Err(Code::Location(10209)));
        assert_eq!(code("{_id: \"f\"}"), Err(Code::Location(10210)));
        let scoped = "{_id: \"f\", value: {$code: \"1\", $scope: {}}}";
        assert_eq!(code(scoped), Err(Code::Location(4_546_000)));
    }
}
