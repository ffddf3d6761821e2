//! Evaluation: one document, its variables, an arena for what has to be made.

use std::cell::Cell;
use std::sync::Arc;

use bumpalo::Bump;
use nagi_bson::{Array, ArrayBuf, ArrayWriter, Doc, DocWriter, Value, oid::Generator};
use nagi_error::{Code, Result, bail};

use super::{Expr, Metadata, Nulls, Operator, Variable, scratch};
use crate::collation::Collation;
use crate::script::{self, Scripts};

/// Arguments that are evaluated on the stack; longer lists go to the arena.
const ARGS_ON_STACK: usize = 4;

/// What a server gives to the expressions of a request beside `let`; pure callers give nothing.
#[derive(Debug, Clone, Default)]
pub struct System {
    /// `$$CLUSTER_TIME`; none on a server that has no cluster time.
    pub cluster_time: Option<u64>,
    /// `$$USER_ROLES`; none is an empty array.
    pub user_roles: Option<Arc<ArrayBuf>>,
    /// What `$currentDate` reads, milliseconds since 1970; none reads `$$NOW`.
    pub clock: Option<fn() -> i64>,
    /// What `$createObjectId` takes from; none makes ids of the request's own random numbers.
    pub ids: Option<Arc<Generator>>,
    /// Where `$rand` begins; 0 begins at `$$NOW`.
    pub seed: u64,
}

/// A system that gives nothing.
static NO_SYSTEM: System =
    System { cluster_time: None, user_roles: None, clock: None, ids: None, seed: 0 };

/// Somebody who says whether a request shall continue: one document may keep an expression busy for
/// hours (`$map` inside of `$map`), or take all memory there is.
pub trait Pace: std::fmt::Debug {
    /// Counts a step of long work; now and then it looks whether the request was killed or is late.
    ///
    /// # Errors
    /// What ends the request (11601, 50, ...).
    fn step(&self) -> Result<()>;

    /// Whether there is memory for `more` bytes beside what the request has; asked before something large is
    /// made, and now and then while something grows.
    ///
    /// # Errors
    /// 146 if there is none.
    fn room(&self, _more: usize) -> Result<()> {
        Ok(())
    }
}

/// Values of variables that hold for a whole request.
#[derive(Debug, Clone)]
pub struct Vars<'a> {
    /// Values of `let` by position (see [`super::ParseCx::with_let`]).
    pub lets: &'a [Value<'a>],
    /// The server's part.
    pub system: &'a System,
    /// Where `$rand` continues from.
    pub seed: Cell<u64>,
    /// Who calls functions in JavaScript; none where they are switched off.
    pub scripts: Option<&'a dyn Scripts>,
    /// Who is told of each step of long work.
    pub pace: Option<&'a dyn Pace>,
}

impl<'a> Vars<'a> {
    /// No variables at all.
    #[expect(
        clippy::declare_interior_mutable_const,
        reason = "each use is a value of its own; the seed starts anew"
    )]
    pub const EMPTY: Vars<'static> =
        Vars { lets: &[], system: &NO_SYSTEM, seed: Cell::new(0), scripts: None, pace: None };

    /// Without a server's part.
    pub const fn new(lets: &'a [Value<'a>]) -> Vars<'a> {
        Vars { lets, system: &NO_SYSTEM, seed: Cell::new(0), scripts: None, pace: None }
    }

    /// With a server's part; `$rand` begins at its seed.
    pub fn with_system(lets: &'a [Value<'a>], system: &'a System) -> Vars<'a> {
        Vars { lets, system, seed: Cell::new(system.seed), scripts: None, pace: None }
    }

    /// The same with somebody who calls functions in JavaScript.
    #[must_use]
    pub const fn with_scripts(mut self, scripts: Option<&'a dyn Scripts>) -> Vars<'a> {
        self.scripts = scripts;
        self
    }

    /// The same with somebody who is told of each step of long work.
    #[must_use]
    pub const fn with_pace(mut self, pace: &'a dyn Pace) -> Vars<'a> {
        self.pace = Some(pace);
        self
    }

    /// Counts a step of long work.
    #[inline]
    pub(crate) fn step(&self) -> Result<()> {
        match self.pace {
            Some(pace) => pace.step(),
            None => Ok(()),
        }
    }

    /// Asks for memory beside what the request has.
    pub(crate) fn room(&self, more: usize) -> Result<()> {
        match self.pace {
            Some(pace) => pace.room(more),
            None => Ok(()),
        }
    }

    /// # Errors
    /// 31264 if JavaScript is switched off.
    pub(crate) fn scripts(&self) -> Result<&'a dyn Scripts> {
        self.scripts.ok_or_else(script::disabled)
    }
}

/// A variable bound inside the expression; the innermost first.
pub(crate) struct Local<'a> {
    pub(crate) level: u16,
    pub(crate) value: Cell<Value<'a>>,
    pub(crate) outer: Option<&'a Local<'a>>,
}

/// The surroundings of one evaluation. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Eval<'a> {
    /// The input document, `$$ROOT`.
    pub root: Doc<'a>,
    pub vars: &'a Vars<'a>,
    /// Where results are made that are not part of the document; the caller resets it.
    pub arena: &'a Bump,
    /// `$$NOW`, milliseconds since 1970.
    pub now_ms: i64,
    /// What the search left with the document.
    pub meta: Option<&'a Metadata<'a>>,
    pub(crate) locals: Option<&'a Local<'a>>,
    /// How strings compare; set by the expression itself, which knows it from parsing.
    pub(crate) collation: Option<&'static Collation>,
}

impl<'a> Eval<'a> {
    pub fn new(root: Doc<'a>, vars: &'a Vars<'a>, arena: &'a Bump, now_ms: i64) -> Eval<'a> {
        Eval { root, vars, arena, now_ms, meta: None, locals: None, collation: None }
    }

    /// Binds a local variable; the value may be changed through the returned cell.
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

    /// Makes an array in the arena.
    pub fn array(
        &self,
        fill: impl FnOnce(&mut ArrayWriter<'_>) -> Result<()>,
    ) -> Result<Value<'a>> {
        scratch::with(|bytes| {
            let mut out = ArrayWriter::new(bytes);
            fill(&mut out)?;
            out.finish();
            self.check_room(bytes.len())?;
            Ok(Value::Array(Array::trusted(self.arena.alloc_slice_copy(bytes))))
        })
    }

    /// Makes a document in the arena.
    pub fn doc(&self, fill: impl FnOnce(&mut DocWriter<'_>) -> Result<()>) -> Result<Value<'a>> {
        let made = self.doc_if(|out| fill(out).map(|()| true))?;
        Ok(Value::Doc(made.unwrap_or(Doc::EMPTY)))
    }

    /// Makes a document in the arena, unless `fill` says that there is none.
    pub(crate) fn doc_if(
        &self,
        fill: impl FnOnce(&mut DocWriter<'_>) -> Result<bool>,
    ) -> Result<Option<Doc<'a>>> {
        scratch::with(|bytes| {
            let mut out = DocWriter::new(bytes);
            let filled = fill(&mut out)?;
            out.finish();
            self.check_room(bytes.len())?;
            Ok(filled.then(|| Doc::trusted(self.arena.alloc_slice_copy(bytes))))
        })
    }

    /// Copies text into the arena.
    ///
    /// # Errors
    /// 146 if there is no memory for it.
    pub fn text(&self, text: &str) -> Result<Value<'a>> {
        self.text_mut(text).map(|text| Value::String(text))
    }

    /// The same, to be changed.
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

    /// Adds the elements of an array to a list.
    pub(crate) fn extend<'v>(&self, list: &mut Vec<Value<'v>>, items: Array<'v>) -> Result<()> {
        let count = items.count();
        // The list may move while it grows.
        self.check_work((list.len() + count) * size_of::<Value<'_>>())?;
        list.reserve_exact(count);
        list.extend(items.iter());
        Ok(())
    }

    /// Copies values into an array.
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
    /// The value of the expression. Missing is a possible result.
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

    /// The value as a condition.
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
