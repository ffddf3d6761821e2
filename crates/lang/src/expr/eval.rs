//! Evaluation of an expression on one document, with variables, and with an arena for values that have to be built.
//!
//! [`Eval`] is the context of one evaluation. [`Vars`] holds what is the same for a whole request: the values of
//! `let`, the server's values ([`System`]), the JavaScript engine, and the interrupt and memory checks ([`Pace`]).

use std::cell::Cell;
use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Array, ArrayBuf, ArrayWriter, Doc, DocWriter, Value, oid::Generator};
use nagi_error::{Code, Result, bail};

use super::{Expr, Metadata, Nulls, Operator, Variable, scratch};
use crate::collation::Collation;
use crate::script::{self, Scripts};

/// The number of arguments that are evaluated on the stack; a longer list is placed in the arena.
const ARGS_ON_STACK: usize = 4;

/// The values that a server provides to the expressions of a request, beside `let`. Callers without a server use the
/// default.
#[derive(Debug, Clone, Default)]
pub struct System {
    /// `$$CLUSTER_TIME`; none on a server without a cluster time.
    pub cluster_time: Option<u64>,
    /// `$$USER_ROLES`; none means an empty array.
    pub user_roles: Option<Arc<ArrayBuf>>,
    /// The clock of `$currentDate`, in milliseconds since 1970; without one it returns `$$NOW`.
    pub clock: Option<fn() -> i64>,
    /// The generator of `$createObjectId`; without one, ids are made of the request's own random numbers.
    pub ids: Option<Arc<Generator>>,
    /// The seed of `$rand`; 0 takes the seed from `$$NOW`.
    pub seed: u64,
}

/// A system without any values.
static NO_SYSTEM: System =
    System { cluster_time: None, user_roles: None, clock: None, ids: None, seed: 0 };

/// The interrupt and memory checks of a request. They are needed inside of an evaluation because one document may
/// keep an expression busy for hours (`$map` inside of `$map`) or make it use all memory.
pub trait Pace: std::fmt::Debug {
    /// Counts one step of long work. At intervals it checks if the request was killed or has exceeded its time
    /// limit.
    ///
    /// # Errors
    /// The error with which the request is cancelled (11601, 50, ...).
    fn step(&self) -> Result<()>;

    /// Checks that `more` bytes are available beyond the memory that the request already uses. Called before a large
    /// value is built and at intervals while a value grows.
    ///
    /// # Errors
    /// 146 if they are not.
    fn check_memory(&self, _more: usize) -> Result<()> {
        Ok(())
    }
}

/// The variables and services that stay the same for a whole request.
#[derive(Debug, Clone)]
pub struct Vars<'a> {
    /// The values of `let` by position (see [`super::ParseCx::with_let`]).
    pub lets: &'a [Value<'a>],
    /// The values that the server provides.
    pub system: &'a System,
    /// The state of the random generator of `$rand`.
    pub seed: Cell<u64>,
    /// The engine that calls JavaScript functions; none where JavaScript is disabled.
    pub scripts: Option<&'a dyn Scripts>,
    /// The interrupt and memory checks.
    pub pace: Option<&'a dyn Pace>,
}

impl<'a> Vars<'a> {
    /// No variables.
    #[expect(
        clippy::declare_interior_mutable_const,
        reason = "each use is a separate value whose seed starts at zero"
    )]
    pub const EMPTY: Vars<'static> =
        Vars { lets: &[], system: &NO_SYSTEM, seed: Cell::new(0), scripts: None, pace: None };

    /// Variables without values of a server.
    pub const fn new(lets: &'a [Value<'a>]) -> Vars<'a> {
        Vars { lets, system: &NO_SYSTEM, seed: Cell::new(0), scripts: None, pace: None }
    }

    /// Variables with the values of a server; `$rand` starts at the server's seed.
    pub fn with_system(lets: &'a [Value<'a>], system: &'a System) -> Vars<'a> {
        Vars { lets, system, seed: Cell::new(system.seed), scripts: None, pace: None }
    }

    /// Sets the JavaScript engine.
    #[must_use]
    pub const fn with_scripts(mut self, scripts: Option<&'a dyn Scripts>) -> Vars<'a> {
        self.scripts = scripts;
        self
    }

    /// Sets the interrupt and memory checks.
    #[must_use]
    pub const fn with_pace(mut self, pace: &'a dyn Pace) -> Vars<'a> {
        self.pace = Some(pace);
        self
    }

    /// Counts one step of long work; see [`Pace::step`].
    #[inline]
    pub(crate) fn step(&self) -> Result<()> {
        match self.pace {
            Some(pace) => pace.step(),
            None => Ok(()),
        }
    }

    /// Checks that more memory is available; see [`Pace::check_memory`].
    pub(crate) fn check_memory(&self, more: usize) -> Result<()> {
        match self.pace {
            Some(pace) => pace.check_memory(more),
            None => Ok(()),
        }
    }

    /// The JavaScript engine.
    ///
    /// # Errors
    /// 31264 if JavaScript is disabled.
    pub(crate) fn scripts(&self) -> Result<&'a dyn Scripts> {
        self.scripts.ok_or_else(script::disabled)
    }
}

/// A variable bound inside the expression, in a list from the innermost to the outermost.
pub(crate) struct Local<'a> {
    pub(crate) level: u16,
    pub(crate) value: Cell<Value<'a>>,
    pub(crate) outer: Option<&'a Local<'a>>,
}

/// The context of one evaluation. It is cheap to copy.
#[derive(Clone, Copy)]
pub struct Eval<'a> {
    /// The input document, `$$ROOT`.
    pub root: Doc<'a>,
    pub vars: &'a Vars<'a>,
    /// The arena for results that are not part of the document; the caller resets it.
    pub arena: &'a Bump,
    /// `$$NOW`, milliseconds since 1970.
    pub now_ms: i64,
    /// The metadata of the document: text score, distance, sort key, ...
    pub meta: Option<&'a Metadata<'a>>,
    pub(crate) locals: Option<&'a Local<'a>>,
    /// The collation of string comparisons. The expression sets it itself (`forms::collated`).
    pub(crate) collation: Option<&'static Collation>,
}

impl<'a> Eval<'a> {
    pub fn new(root: Doc<'a>, vars: &'a Vars<'a>, arena: &'a Bump, now_ms: i64) -> Eval<'a> {
        Eval { root, vars, arena, now_ms, meta: None, locals: None, collation: None }
    }

    /// Binds a local variable. The caller may change its value through the returned cell.
    pub(crate) fn bind(&self, level: u16, value: Value<'a>) -> (Eval<'a>, &'a Local<'a>) {
        let local: &'a Local<'a> =
            self.arena.alloc(Local { level, value: Cell::new(value), outer: self.locals });
        (Eval { locals: Some(local), ..*self }, local)
    }

    fn local(&self, level: u16) -> Value<'a> {
        let mut at = self.locals;
        while let Some(local) = at {
            if local.level == level {
                return local.value.get();
            }
            at = local.outer;
        }
        Value::Missing
    }

    fn variable(&self, variable: Variable) -> Result<Value<'a>> {
        Ok(match variable {
            Variable::Root => Value::Doc(self.root),
            Variable::Now => Value::DateTime(self.now_ms),
            Variable::Remove | Variable::SearchMeta => Value::Missing,
            Variable::UserRoles => {
                let roles = self.vars.system.user_roles.as_deref();
                Value::Array(roles.map_or(Array::EMPTY, ArrayBuf::as_array))
            }
            Variable::Unavailable(name) => {
                bail!(Code::Location(51144), "Builtin variable '${name}' is not available")
            }
            Variable::Let(at) => {
                self.vars.lets.get(usize::from(at)).copied().unwrap_or(Value::Missing)
            }
            Variable::Local(level) => self.local(level),
            Variable::ClusterTime => match self.vars.system.cluster_time {
                Some(stamp) => Value::Timestamp(stamp),
                None => bail!(
                    Code::Location(51144),
                    "Builtin variable '$$CLUSTER_TIME' is not available"
                ),
            },
        })
    }

    /// A random number from the request's own generator (splitmix64).
    pub(crate) fn random(&self) -> u64 {
        let before = match self.vars.seed.get() {
            0 => self.now_ms as u64 | 1,
            seed => seed,
        };
        let seed = before.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.vars.seed.set(seed);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Builds an array in the arena.
    pub fn array(
        &self,
        fill: impl FnOnce(&mut ArrayWriter<'_>) -> Result<()>,
    ) -> Result<Value<'a>> {
        scratch::with(|bytes| {
            let mut out = ArrayWriter::new(bytes);
            fill(&mut out)?;
            out.finish();
            self.check_value_memory(bytes.len())?;
            Ok(Value::Array(Array::trusted(self.arena.alloc_slice_copy(bytes))))
        })
    }

    /// Builds a document in the arena.
    pub fn doc(&self, fill: impl FnOnce(&mut DocWriter<'_>) -> Result<()>) -> Result<Value<'a>> {
        let made = self.doc_if(|out| fill(out).map(|()| true))?;
        Ok(Value::Doc(made.unwrap_or(Doc::EMPTY)))
    }

    /// Builds a document in the arena, or none if `fill` returns false.
    pub(crate) fn doc_if(
        &self,
        fill: impl FnOnce(&mut DocWriter<'_>) -> Result<bool>,
    ) -> Result<Option<Doc<'a>>> {
        scratch::with(|bytes| {
            let mut out = DocWriter::new(bytes);
            let filled = fill(&mut out)?;
            out.finish();
            self.check_value_memory(bytes.len())?;
            Ok(filled.then(|| Doc::trusted(self.arena.alloc_slice_copy(bytes))))
        })
    }

    /// Copies a string into the arena.
    ///
    /// # Errors
    /// 146 if there is not enough memory.
    pub fn text(&self, text: &str) -> Result<Value<'a>> {
        self.text_mut(text).map(|text| Value::String(text))
    }

    /// Like [`Eval::text`], but returns the copy as mutable.
    pub(crate) fn text_mut(&self, text: &str) -> Result<&'a mut str> {
        self.check_work(text.len())?;
        Ok(self.arena.alloc_str(text))
    }

    /// Copies bytes into the arena.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<&'a [u8]> {
        self.check_work(bytes.len())?;
        Ok(self.arena.alloc_slice_copy(bytes))
    }

    /// The elements of an array as a list.
    pub(crate) fn list<'v>(&self, items: Array<'v>) -> Result<Vec<Value<'v>>> {
        let mut list = Vec::new();
        self.extend(&mut list, items)?;
        Ok(list)
    }

    /// Appends the elements of an array to a list.
    pub(crate) fn extend<'v>(&self, list: &mut Vec<Value<'v>>, items: Array<'v>) -> Result<()> {
        let count = items.count();
        // The list may be moved while it grows.
        self.check_work((list.len() + count) * size_of::<Value<'_>>())?;
        list.reserve_exact(count);
        list.extend(items.iter());
        Ok(())
    }

    /// Copies values into an array in the arena.
    pub(crate) fn array_of(&self, values: &[Value<'_>]) -> Result<Value<'a>> {
        self.array(|out| {
            values.iter().try_for_each(|v| {
                out.push(*v);
                self.check_written(out.len())
            })
        })
    }
}

impl Expr {
    /// Evaluates the expression. `Missing` is a possible result.
    pub fn eval<'a>(&'a self, cx: &Eval<'a>) -> Result<Value<'a>> {
        match self {
            Expr::Const(value) => Ok(value.value()),
            Expr::Path(path) => Ok(path.of_doc(cx.root, cx)),
            Expr::Var(variable, None) => cx.variable(*variable),
            Expr::Var(variable, Some(path)) => Ok(path.of_value(cx.variable(*variable)?, cx)),
            Expr::Object(fields) => cx.doc(|out| {
                for (name, field) in fields {
                    out.put(name, cx.fitting(out.len(), field.eval(cx)?)?);
                    cx.check_written(out.len())?;
                }
                Ok(())
            }),
            Expr::Array(items) => cx.array(|out| {
                for item in items {
                    out.push(cx.fitting(out.len(), item.eval(cx)?)?);
                    cx.check_written(out.len())?;
                }
                Ok(())
            }),
            Expr::Call(operator, args) => call(operator, args, cx),
            Expr::Form(form) => form.eval(cx),
        }
    }

    /// Evaluates the expression as a condition.
    pub fn eval_bool<'a>(&'a self, cx: &Eval<'a>) -> Result<bool> {
        Ok(self.eval(cx)?.is_truthy())
    }
}

fn call<'a>(operator: &'static Operator, args: &'a [Expr], cx: &Eval<'a>) -> Result<Value<'a>> {
    if args.len() <= ARGS_ON_STACK {
        let mut values = [Value::Missing; ARGS_ON_STACK];
        for (value, arg) in values.iter_mut().zip(args) {
            *value = arg.eval(cx)?;
        }
        return apply(operator, &values[..args.len()], cx);
    }
    let mut values = bumpalo::collections::Vec::with_capacity_in(args.len(), cx.arena);
    for arg in args {
        values.push(arg.eval(cx)?);
    }
    apply(operator, &values, cx)
}

fn apply<'a>(
    operator: &'static Operator,
    values: &[Value<'a>],
    cx: &Eval<'a>,
) -> Result<Value<'a>> {
    if operator.nulls == Nulls::Propagate && values.iter().any(Value::is_nullish) {
        return Ok(Value::Null);
    }
    (operator.eval)(cx, values)
}
