//! Functions that a database stores in `system.js`: `{_id: name, value: function}`.
//!
//! `$where` and the functions of `mapReduce` find them as global variables; `$function` and
//! `$accumulator` do not, as in MongoDB. They are read when an engine first runs one of the former.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Error, Result, bail};

/// Shows every document of `system.js` of the request's database, until it is told to stop.
pub type Stored<'s> = &'s dyn Fn(&mut dyn FnMut(Doc<'_>) -> Result<()>) -> Result<()>;

/// Where nothing is stored.
pub fn nothing_stored(_: &mut dyn FnMut(Doc<'_>) -> Result<()>) -> Result<()> {
    Ok(())
}

/// The name and the value of a document.
///
/// # Errors
/// 10209 for a name that is no string, 10210 without a value, 4546000 for code with scope.
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

/// Whether an error says more than that a text is no function: no memory, or the request is to end.
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
