//! JavaScript functions: their source, and the interface of the engine that calls them.
//!
//! The engine implements [`Scripts`], which a request provides with its variables ([`crate::expr::Vars::scripts`]).
//! On a server without an engine, the parser rejects `$where`, and evaluation rejects `$function` and `$accumulator`
//! (see [`crate::expr::ParseCx::with_scripts`]).
//!
//! This module does not know engines, pools of engines, or their limits of time and memory.

use std::sync::Arc;

use nagi_bson::{Array, Doc, DocBuf, Value, ValueBuf};
use nagi_error::{Code, Error, Result};

/// The source of a function. It is shared, because engines cache compiled functions by identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    text: Box<str>,
    scope: Option<DocBuf>,
}

impl Function {
    /// A function without outer variables.
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

    /// The source: a whole function, the body of one, or an expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The outer variables.
    pub fn scope(&self) -> Option<Doc<'_>> {
        self.scope.as_ref().map(DocBuf::as_doc)
    }
}

/// Receives the arguments of `emit(key, value)`.
pub type Emit<'e> = &'e mut dyn FnMut(Value<'_>, Value<'_>) -> Result<()>;

/// Calls functions.
///
/// Errors of all methods: 139 for an exception of a script, and the errors of its limits (50, 11601, ...).
pub trait Scripts: std::fmt::Debug {
    /// The value that `function` returns, converted to BSON. Every number is a double, unless it is an int32 field of
    /// an argument that is returned.
    fn call(
        &self,
        function: &Arc<Function>,
        this: Value<'_>,
        args: &[Value<'_>],
    ) -> Result<ValueBuf>;

    /// Returns true if `function` returns a true value for a document, which is `this` and `obj` in it.
    fn test(&self, function: &Arc<Function>, doc: Doc<'_>) -> Result<bool>;

    /// Calls the reduce function of a `mapReduce` on the values of a key. Equivalent to `call`, but a separate method
    /// so that these calls can be counted.
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

/// The error of an expression without an engine.
pub(crate) fn disabled() -> Error {
    Error::new(
        Code::Location(31264),
        "Cannot run server-side javascript without the javascript engine enabled",
    )
}
