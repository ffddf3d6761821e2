//! From the text of a function, of the body of one or of an expression to a function.
//!
//! There is no parser to ask, so the text is tried in the forms in which it could be meant, and the
//! first that compiles is taken. Trying runs nothing: the text stands inside a function each time.

use rquickjs::context::EvalOptions;
use rquickjs::{Ctx, Error, Function, Result, Value};

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
        && let Some(function) = attempt(ctx, &format!("({text}\n)"))?
    {
        return Ok(function);
    }
    if let Some(function) = attempt(ctx, &format!("(function(){{return ({text}\n)}})"))? {
        return Ok(function);
    }
    // Statements of which the last is an expression: its value is the result.
    let ends = text.rmatch_indices([';', '\n']).take(SPLITS_MAX);
    for (at, _) in ends.filter(|_| !text.contains("return")) {
        let (head, tail) = (&text[..at], &text[at + 1..]);
        let whole = format!("(function(){{{head}\n;return ({tail}\n)}})");
        if !tail.trim().is_empty()
            && let Some(function) = attempt(ctx, &whole)?
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

/// The function, if the source is one; nothing if it does not compile. What stopped the compiler (a kill, lack of
/// memory) says nothing about the form: another form would compile to something else.
fn attempt<'js>(ctx: &Ctx<'js>, source: &str) -> Result<Option<Function<'js>>> {
    match eval(ctx, source) {
        Ok(value) => Ok(value.into_function()),
        Err(Error::Exception) => {
            let thrown = ctx.catch();
            let name = thrown.as_object().and_then(|error| error.get::<_, String>("name").ok());
            match name.as_deref() {
                Some("SyntaxError") => Ok(None),
                _ => Err(ctx.throw(thrown)),
            }
        }
        Err(other) => Err(other),
    }
}

fn eval<'js>(ctx: &Ctx<'js>, source: &str) -> Result<Value<'js>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(String::new());
    ctx.eval_with_options(source, options)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use nagi_bson::{Value, doc};
    use nagi_budget::Budget;
    use nagi_error::{Code, Error};
    use nagi_lang::script::Function;

    use crate::engine::Engine;
    use crate::heap::Heap;

    /// A kill in the middle of compiling must not make the text of a function the body of another one, which then
    /// returns at once what it should have run.
    #[test]
    fn a_kill_while_a_function_is_compiled_is_no_syntax_error() {
        let endless = Function::new("function() { while (true) { } }");
        let document = doc! { "_id": 1 };
        // The engine asks at every 10,000th call or jump: one of these comes at each place of compiling.
        for burned in 9_900..10_000 {
            let killed = Arc::new(AtomicBool::new(false));
            let asked = killed.clone();
            let interrupt = move || match asked.load(Relaxed) {
                true => Err(Error::new(Code::INTERRUPTED, "operation was interrupted")),
                false => Ok(()),
            };
            let budget = Budget::new(256 << 20);
            let heap = Heap::new(&budget, 64 << 20);
            let mut engine = Engine::new(heap, Arc::new(interrupt)).unwrap();
            let burn = format!("function() {{ for (let i = 0; i < {burned}; i++); }}");
            engine.call(&Function::new(&burn), Value::Missing, &[]).unwrap();
            killed.store(true, Relaxed);
            let ended = match burned % 3 {
                0 => engine.call(&endless, Value::Missing, &[]).map(drop),
                1 => engine.test(&endless, document.as_doc()).map(drop),
                _ => engine.map(&endless, document.as_doc(), &mut |_, _| Ok(())),
            };
            assert_eq!(ended.unwrap_err().code(), Code::INTERRUPTED, "{burned}");
        }
    }
}
