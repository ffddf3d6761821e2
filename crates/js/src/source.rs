//! From the text of a function, of the body of one or of an expression to a function.
//!
//! There is no parser to ask, so the text is tried in the forms in which it could be meant, and the
//! first that compiles is taken. Trying runs nothing: the text stands inside a function each time.

use rquickjs::context::EvalOptions;
use rquickjs::{Ctx, Function, Result, Value};

/// Places at which the last statement of a body may begin that are tried.
const SPLITS_MAX: usize = 64;

/// Compiles a function.
///
/// # Errors
/// The exception of the last form: a syntax error, mostly.
pub(crate) fn compile<'js>(ctx: &Ctx<'js>, text: &str) -> Result<Function<'js>> {
    let body = text.trim();
    let text = body.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    if (text.starts_with("function") || text.starts_with("async function") || is_arrow(text))
        && let Some(function) = attempt(ctx, &format!("({text}\n)"))
    {
        return Ok(function);
    }
    if let Some(function) = attempt(ctx, &format!("(function(){{return ({text}\n)}})")) {
        return Ok(function);
    }
    // Statements of which the last is an expression: its value is the result.
    let ends = text.rmatch_indices([';', '\n']).take(SPLITS_MAX);
    for (at, _) in ends.filter(|_| !text.contains("return")) {
        let (head, tail) = (&text[..at], &text[at + 1..]);
        let whole = format!("(function(){{{head}\n;return ({tail}\n)}})");
        if !tail.trim().is_empty()
            && let Some(function) = attempt(ctx, &whole)
        {
            return Ok(function);
        }
    }
    let value = eval(ctx, &format!("(function(){{{body}\n}})"))?;
    value.get()
}

/// Whether the text begins as an arrow function does.
fn is_arrow(text: &str) -> bool {
    let Some((head, _)) = text.split_once("=>") else { return false };
    let head = head.trim();
    let name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let one = !head.is_empty() && head.chars().all(name);
    one || head
        .strip_prefix('(')
        .and_then(|h| h.strip_suffix(')'))
        .is_some_and(|inner| !inner.contains(['(', ')', ';']))
}

/// The function, if the source is one.
fn attempt<'js>(ctx: &Ctx<'js>, source: &str) -> Option<Function<'js>> {
    match eval(ctx, source) {
        Ok(value) => value.into_function(),
        Err(_) => {
            // What the next form says counts.
            ctx.catch();
            None
        }
    }
}

fn eval<'js>(ctx: &Ctx<'js>, source: &str) -> Result<Value<'js>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(String::new());
    ctx.eval_with_options(source, options)
}
