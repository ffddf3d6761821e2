//! Compiles the text of a function, of a function body, or of an expression to a function.
//!
//! There is no separate parser. The text is compiled in each form that it may have, and the first form that compiles is
//! used. This does not run the text, because it is inside a function each time.

use rquickjs::context::EvalOptions;
use rquickjs::{Ctx, Error, Function, Result, Value};

/// The maximum number of positions that are tried as the start of the last statement of a body.
const SPLITS_MAX: usize = 64;

/// Compiles a function.
///
/// # Errors
/// The exception of the last form, usually a syntax error.
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
    // Statements, the last of which is an expression: its value is the result.
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

/// Returns true if the text begins like an arrow function.
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

/// Returns the function if the source is one, `None` if it has a syntax error. Other errors of the compiler (a kill,
/// lack of memory) do not tell that the form is wrong: they must not lead to another form, which would compile to a
/// different function.
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

    /// A kill during compilation must not cause the text of a function to be compiled as the body of another function,
    /// which would return at once instead of running the code.
    #[test]
    fn a_kill_while_a_function_is_compiled_is_no_syntax_error() {
        let endless = Function::new("function() { while (true) { } }");
        let document = doc! { "_id": 1 };
        // The engine runs an interrupt check at every 10,000th call or jump. These counts place one at each step of
        // compilation.
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
