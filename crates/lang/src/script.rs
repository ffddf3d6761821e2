//! Functions in JavaScript, as far as the language knows them: their text, and who can call them.
//!
//! The engine is behind [`Scripts`], which a request hands in with its variables
//! ([`crate::expr::Vars::scripts`]); a server without one leaves it out, and parsing then refuses
//! `$where`, `$function` and `$accumulator` ([`crate::expr::ParseCx::with_scripts`]).
//!
//! Does not know about: engines, pools of them, limits of time and memory.

use std::sync::Arc;

use nagi_bson::{Array, Doc, DocBuf, Value, ValueBuf};
use nagi_error::{Code, Error, Result};

/// The source of a function. Shared, because engines keep what they compiled by identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    text: Box<str>,
    scope: Option<DocBuf>,
}

impl Function {
    /// A function without variables around it.
    pub fn new(text: &str) -> Arc<Function> {
        Arc::new(Function { text: text.into(), scope: None })
    }

    /// A function that sees the fields of `scope` as global variables.
    pub fn with_scope(text: &str, scope: Doc<'_>) -> Arc<Function> {
        let scope = (!scope.is_empty()).then(|| scope.to_buf());
        Arc::new(Function { text: text.into(), scope })
    }

    /// A string, code or code with scope as a function; none for other types.
    pub fn from_value(value: Value<'_>) -> Option<Arc<Function>> {
        match value {
            Value::String(text) | Value::Code(text) => Some(Function::new(text)),
            Value::CodeWithScope(code) => Some(Function::with_scope(code.code(), code.scope())),
            _ => None,
        }
    }

    /// A whole function, the body of one, or an expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The variables around it.
    pub fn scope(&self) -> Option<Doc<'_>> {
        self.scope.as_ref().map(DocBuf::as_doc)
    }
}

/// Takes what `emit(key, value)` is given.
pub type Emit<'e> = &'e mut dyn FnMut(Value<'_>, Value<'_>) -> Result<()>;

/// Calls functions. Errors: 139 for what a script throws, and what its limits say (50, 11601, ...).
pub trait Scripts: std::fmt::Debug {
    /// The value that `function` returns, in the types that JavaScript's become in BSON: every number
    /// is a double unless it came from an int32 field of an argument that is given back.
    fn call(
        &self,
        function: &Arc<Function>,
        this: Value<'_>,
        args: &[Value<'_>],
    ) -> Result<ValueBuf>;

    /// Whether `function` is true of a document, which is `this` and `obj` in it.
    fn test(&self, function: &Arc<Function>, doc: Doc<'_>) -> Result<bool>;

    /// The one value that the reduce function of a `mapReduce` makes of those of a key. As `call`, with a
    /// name of its own for whoever counts these calls.
    fn reduce(
        &self,
        function: &Arc<Function>,
        key: Value<'_>,
        values: Array<'_>,
    ) -> Result<ValueBuf> {
        self.call(function, Value::Missing, &[key, Value::Array(values)])
    }

    /// Calls `function` on a document (`this`), with `emit` defined.
    fn map(&self, function: &Arc<Function>, doc: Doc<'_>, emit: Emit<'_>) -> Result<()>;
}

/// What an expression says where there is no engine.
pub(crate) fn disabled() -> Error {
    Error::new(
        Code::Location(31264),
        "Cannot run server-side javascript without the javascript engine enabled",
    )
}
