//! One JavaScript engine: a QuickJS runtime with one context, on the thread that created it.
//!
//! An engine serves one request and is then dropped. Whatever a script leaves behind, such as a changed
//! `Array.prototype`, is therefore invisible to other requests. Functions are compiled once and cached by identity.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use nagi_bson::{Doc, Value, ValueBuf};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_lang::script::{Emit, Function};
use rquickjs::allocator::RustAllocator;
use rquickjs::context::intrinsic;
use rquickjs::convert::Coerced;
use rquickjs::function::Args;
use rquickjs::{Context, Ctx, Function as JsFunction, Object, Persistent, Runtime, Value as Js};

use crate::failure;
use crate::from_js::{Failure, FromScript};
use crate::heap::Heap;
use crate::host::{Host, SavedHost, Shared};
use crate::into_js::IntoScript;
use crate::natives::{self, natives};
use crate::pace::Pace;
use crate::raw::Counted;
use crate::{Interrupt, Stored, source, stored};

const BOUNDS: &str = include_str!("bounds.js");
const PRELUDE: &str = include_str!("prelude.js");
/// The stack size of a script; the stack of a connection thread has a megabyte.
const STACK_BYTES: usize = 256 << 10;
/// The maximum number of cached compiled functions.
const FUNCTIONS_MAX: usize = 256;
/// Garbage is collected after this many bytes were allocated.
const GARBAGE_BYTES: usize = 4 << 20;

/// The features of the language, without performance counters (they reveal properties of the machine) and weak
/// references (they reveal the garbage collector).
type Language = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// An engine. The order of the fields matters, because they are dropped in it: values before the context, the context
/// before the runtime.
pub(crate) struct Engine {
    functions: Vec<(Arc<Function>, Persistent<JsFunction<'static>>)>,
    /// True if the stored functions have been loaded.
    loaded: bool,
    shared: Rc<Shared>,
    context: Context,
    _runtime: Runtime,
    heap: Arc<Heap>,
}

impl Engine {
    /// # Errors
    /// 146 if the budget has no capacity for it, 139 for errors of the library.
    pub(crate) fn new(heap: Arc<Heap>, interrupt: Interrupt) -> Result<Engine> {
        if !heap.start() {
            bail!(
                Code::EXCEEDED_MEMORY_LIMIT,
                "cannot start a JavaScript engine: others have all memory for scripts"
            );
        }
        let make = || -> rquickjs::Result<Engine> {
            let pace = Rc::new(Pace::new(interrupt));
            let allocator =
                Counted { heap: heap.clone(), pace: pace.clone(), inner: RustAllocator };
            let runtime = Runtime::new_with_alloc(allocator)?;
            runtime.set_max_stack_size(STACK_BYTES);
            runtime.set_gc_threshold(GARBAGE_BYTES);
            let context = Context::custom::<Language>(&runtime)?;
            let shared = Rc::new(Shared {
                host: Default::default(),
                originals: Default::default(),
                emitted: Default::default(),
                pace: pace.clone(),
                // Starts at 1, so that the first value causes no interrupt check.
                steps: Cell::new(1),
            });
            context.with(|ctx| prepare(&ctx, &shared))?;
            runtime.set_interrupt_handler(Some(Box::new(move || !pace.go_on())));
            heap.started();
            let heap = heap.clone();
            let functions = Vec::new();
            Ok(Engine { functions, loaded: false, shared, context, _runtime: runtime, heap })
        };
        make().map_err(|error| {
            err!(Code::JS_INTERPRETER_FAILURE, "cannot start a JavaScript engine: {error}")
        })
    }

    /// The number of bytes that the engine has allocated.
    pub(crate) fn held(&self) -> usize {
        self.heap.held()
    }

    /// Defines the stored functions and values as global variables, once.
    ///
    /// # Errors
    /// 10209, 10210 and 4546000 for invalid documents; 139 if memory is used up.
    pub(crate) fn load(&mut self, stored: Stored<'_>) -> Result<()> {
        if self.loaded {
            return Ok(());
        }
        self.loaded = true;
        stored(&mut |doc| {
            let (name, value) = stored::parts(doc)?;
            self.set_global(name, value)
        })
    }

    /// Defines a global variable. Code becomes a function; code that does not compile is skipped and logged.
    fn set_global(&mut self, name: &str, value: Value<'_>) -> Result<()> {
        let shared = &self.shared;
        self.context.with(|ctx| {
            shared.originals.borrow_mut().clear();
            let set = || -> std::result::Result<(), Failure> {
                if let Value::Code(text) = value {
                    ctx.globals().set(name, source::compile(&ctx, text)?)?;
                    return Ok(());
                }
                let saved = shared.host.borrow().clone();
                let host = saved.ok_or(rquickjs::Error::Unknown)?.restore(&ctx)?;
                let into = IntoScript { ctx: &ctx, host: &host, shared };
                ctx.globals().set(name, into.value(value)?)?;
                Ok(())
            };
            let error = match set() {
                Ok(()) => return Ok(()),
                Err(failure) => failure::error(&ctx, shared, failure),
            };
            if stored::is_fatal(&error) {
                return Err(error);
            }
            log::error!(target: "QUERY", id = 8200092, name = name, error:% = error;
                "Unable to load a stored JavaScript function");
            Ok(())
        })
    }

    /// Calls a function and returns its result as BSON.
    pub(crate) fn call(
        &mut self,
        function: &Arc<Function>,
        this: Value<'_>,
        args: &[Value<'_>],
    ) -> Result<ValueBuf> {
        self.enter(function, |call| {
            let result = call.run(this, args)?;
            call.taking().value(&result)
        })
    }

    /// Returns true if a function returns a truthy value for a document.
    pub(crate) fn test(&mut self, function: &Arc<Function>, doc: Doc<'_>) -> Result<bool> {
        self.enter(function, |call| {
            let this = call.giving().value(Value::Doc(doc))?;
            call.ctx.globals().set("obj", this.clone())?;
            let mut args = Args::new(call.ctx.clone(), 0);
            args.this(this)?;
            Ok(call.function.call_arg::<Coerced<bool>>(args)?.0)
        })
    }

    /// Calls a map function for a document and passes on the pairs that it emits.
    pub(crate) fn map(
        &mut self,
        function: &Arc<Function>,
        doc: Doc<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        let shared = self.shared.clone();
        shared.emitted.borrow_mut().open = true;
        let outcome = self.enter(function, |call| {
            call.run(Value::Doc(doc), &[])?;
            Ok(())
        });
        let emitted = std::mem::take(&mut *shared.emitted.borrow_mut());
        outcome?;
        emitted.pairs.iter().try_for_each(|(key, value)| emit(key.value(), value.value()))
    }

    fn enter<T>(
        &mut self,
        function: &Arc<Function>,
        run: impl for<'js> FnOnce(&Call<'_, 'js>) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let Engine { functions, shared, context, .. } = self;
        context.with(|ctx| {
            shared.originals.borrow_mut().clear();
            let prepared = || -> std::result::Result<_, Failure> {
                let saved = shared.host.borrow().clone();
                let host = saved.ok_or(rquickjs::Error::Unknown)?.restore(&ctx)?;
                let function = compiled(functions, function, &ctx, &host, shared)?;
                run(&Call { ctx: &ctx, host: &host, shared, function })
            };
            shared.pace.begin();
            let outcome = prepared();
            let outcome = outcome.map_err(|failure| failure::error(&ctx, shared, failure));
            // A script may have caught the exception of a limit. A kill must not be caught.
            match (outcome, shared.pace.end()) {
                (Ok(_), Some(error)) => Err(error),
                (outcome, _) => outcome,
            }
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The native functions, which are part of the runtime, share it. The values of the runtime that it holds must
        // be dropped first.
        self.shared.host.borrow_mut().take();
    }
}

/// A function call.
struct Call<'c, 'js> {
    ctx: &'c Ctx<'js>,
    host: &'c Host<'js>,
    shared: &'c Shared,
    function: JsFunction<'js>,
}

impl<'js> Call<'_, 'js> {
    fn giving(&self) -> IntoScript<'_, 'js> {
        IntoScript { ctx: self.ctx, host: self.host, shared: self.shared }
    }

    fn taking(&self) -> FromScript<'_, 'js> {
        FromScript { host: self.host, shared: self.shared }
    }

    fn run(&self, this: Value<'_>, args: &[Value<'_>]) -> std::result::Result<Js<'js>, Failure> {
        let into = self.giving();
        let mut given = Args::new_unsized(self.ctx.clone());
        if !this.is_missing() {
            given.this(into.value(this)?)?;
        }
        for arg in args {
            given.push_arg(into.value(*arg)?)?;
        }
        Ok(self.function.call_arg(given)?)
    }
}

/// Returns the compiled function, from the cache if it is there.
fn compiled<'js>(
    functions: &mut Vec<(Arc<Function>, Persistent<JsFunction<'static>>)>,
    function: &Arc<Function>,
    ctx: &Ctx<'js>,
    host: &Host<'js>,
    shared: &Shared,
) -> std::result::Result<JsFunction<'js>, Failure> {
    if let Some((_, known)) = functions.iter().find(|(known, _)| Arc::ptr_eq(known, function)) {
        return Ok(known.clone().restore(ctx)?);
    }
    if let Some(scope) = function.scope() {
        let into = IntoScript { ctx, host, shared };
        for element in scope {
            ctx.globals().set(element.name(), into.value(element.value())?)?;
        }
    }
    let made = source::compile(ctx, function.text())?;
    if functions.len() >= FUNCTIONS_MAX {
        functions.clear();
    }
    functions.push((function.clone(), Persistent::save(ctx, made.clone())));
    Ok(made)
}

/// Runs the bounds and the prelude, and keeps the results of the prelude.
fn prepare<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>) -> rquickjs::Result<()> {
    let bounds: JsFunction<'js> = ctx.eval(BOUNDS)?;
    bounds.call::<_, ()>((natives::asking(ctx, shared)?,))?;
    let prelude: JsFunction<'js> = ctx.eval(PRELUDE)?;
    let parts: Object<'js> = prelude.call((natives(ctx, shared)?,))?;
    let origin = rquickjs::Symbol::new(ctx.clone())?;
    let symbol = |name: &str| -> rquickjs::Result<_> {
        Ok(Persistent::save(ctx, parts.get::<_, rquickjs::Symbol<'js>>(name)?))
    };
    let saved = SavedHost {
        kind: symbol("kind")?,
        content: symbol("content")?,
        origin: Persistent::save(ctx, origin),
        make: Persistent::save(ctx, parts.get::<_, JsFunction<'js>>("make")?),
    };
    *shared.host.borrow_mut() = Some(saved);
    Ok(())
}

/// The error if no engine becomes free in time.
pub(crate) fn none_free() -> Error {
    err!(Code::EXCEEDED_MEMORY_LIMIT, "no JavaScript engine became free in time")
}
