//! The parse context of expressions: the variables in scope, the nesting depth, and what the caller supports.

use std::cell::Cell;

use bumpalo::Bump;
use nagi_bson::{Doc, Value, ValueBuf};
use nagi_error::{Code, Result, bail};

use crate::collation::Collation;

use super::names::{check_variable_read, check_variable_write};
use super::{Eval, Expr, ExprPath, MetaKind, MetaSet, Variable, Vars};

/// The maximal nesting of expressions. BSON itself allows about 180 levels on the wire.
const DEPTH_MAX: u32 = 200;

/// The state of parsing expressions (and filters with `$expr`) of one pipeline or command.
#[derive(Debug, Default)]
pub struct ParseCx<'p> {
    lets: &'p [Box<str>],
    locals: Vec<Box<str>>,
    depth: u32,
    /// True if `$$DESCEND`, `$$PRUNE` and `$$KEEP` are known.
    redacts: bool,
    /// True if no JavaScript engine is available.
    scriptless: bool,
    /// The collation of string comparisons in the parsed expressions; without one, strings compare by their bytes.
    collation: Option<&'static Collation>,
    /// The set that collects the requested kinds of metadata.
    metas: Option<&'p Cell<MetaSet>>,
    /// The total size in bytes of the constants that were computed at parse time.
    folded_bytes: usize,
}

impl<'p> ParseCx<'p> {
    /// A context without user variables; only system variables are known.
    pub fn new() -> ParseCx<'static> {
        ParseCx::default()
    }

    /// A context with the variables of `let`, in the order of their values in [`Vars::lets`].
    pub fn with_let(lets: &'p [Box<str>]) -> ParseCx<'p> {
        ParseCx { lets, ..ParseCx::default() }
    }

    /// Adds the variables that only `$redact` knows.
    #[must_use]
    pub fn for_redact(mut self) -> ParseCx<'p> {
        self.redacts = true;
        self
    }

    /// Sets if a JavaScript engine is available; by default it is.
    #[must_use]
    pub fn with_scripts(mut self, there: bool) -> ParseCx<'p> {
        self.scriptless = !there;
        self
    }

    /// Returns true if a JavaScript engine is available.
    pub(crate) fn has_scripts(&self) -> bool {
        !self.scriptless
    }

    /// Sets the collation by which strings compare in the parsed expressions.
    #[must_use]
    pub fn collated(mut self, collation: Option<&'static Collation>) -> ParseCx<'p> {
        self.collation = collation;
        self
    }

    /// The collation of string comparisons.
    pub fn collation(&self) -> Option<&'static Collation> {
        self.collation
    }

    /// Adds each requested kind of metadata to `metas`.
    #[must_use]
    pub fn noting(mut self, metas: &'p Cell<MetaSet>) -> ParseCx<'p> {
        self.metas = Some(metas);
        self
    }

    /// Records that the expression requests a kind of metadata.
    pub(crate) fn note_meta(&self, kind: MetaKind) {
        if let Some(metas) = self.metas {
            metas.set(metas.get() | MetaSet::of(kind));
        }
    }

    /// The names of the `let` variables in scope, for a sub-pipeline that adds its own.
    pub fn let_names(&self) -> &'p [Box<str>] {
        self.lets
    }

    /// Resolves the variable `name`, with the path that follows it, to an expression.
    pub(crate) fn variable(&self, name: &str, path: Option<ExprPath>) -> Result<Expr> {
        if let Some(level) = self.locals.iter().rposition(|n| &**n == name) {
            return Ok(Expr::Var(Variable::Local(level as u16), path));
        }
        let known = match name {
            "CURRENT" | "ROOT" => {
                return Ok(match path {
                    Some(path) => Expr::Path(path),
                    None => Expr::Var(Variable::Root, None),
                });
            }
            "REMOVE" => Some(Variable::Remove),
            "NOW" => Some(Variable::Now),
            "CLUSTER_TIME" => Some(Variable::ClusterTime),
            "USER_ROLES" => Some(Variable::UserRoles),
            "SEARCH_META" => Some(Variable::SearchMeta),
            "IS_MR" => Some(Variable::Unavailable("$IS_MR")),
            "JS_SCOPE" => Some(Variable::Unavailable("$JS_SCOPE")),
            "DESCEND" if self.redacts => return Ok(Expr::constant(Value::String("descend"))),
            "PRUNE" if self.redacts => return Ok(Expr::constant(Value::String("prune"))),
            "KEEP" if self.redacts => return Ok(Expr::constant(Value::String("keep"))),
            _ => self.lets.iter().rposition(|n| &**n == name).map(|at| Variable::Let(at as u16)),
        };
        match known {
            Some(variable) => Ok(Expr::Var(variable, path)),
            None => bail!(Code::Location(17276), "Use of undefined variable: {name}"),
        }
    }

    /// A path that begins at `$$CURRENT`, which `$let` may have rebound.
    pub(crate) fn current(&self, path: ExprPath) -> Expr {
        match self.locals.iter().rposition(|n| &**n == "CURRENT") {
            Some(level) => Expr::Var(Variable::Local(level as u16), Some(path)),
            None => Expr::Path(path),
        }
    }

    /// The level of the next local variable.
    pub(crate) fn level(&self) -> u16 {
        self.locals.len() as u16
    }

    /// Parses with `names` bound as local variables. The first name gets the value of [`ParseCx::level`] before the
    /// call.
    pub(crate) fn with_locals<T>(
        &mut self,
        names: &[&str],
        parse: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = self.locals.len();
        self.locals.extend(names.iter().map(|n| Box::from(*n)));
        let result = parse(self);
        self.locals.truncate(before);
        result
    }

    /// The counter of bytes of constants that were computed at parse time.
    pub(super) fn folded_bytes(&mut self) -> &mut usize {
        &mut self.folded_bytes
    }

    /// Parses one level deeper.
    ///
    /// # Errors
    /// 15 above the maximal depth.
    pub(crate) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            bail!(Code::OVERFLOW, "expression nesting exceeds the limit of {DEPTH_MAX}");
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Checks the name of a variable that is read.
    pub(crate) fn check_read(name: &str) -> Result<()> {
        check_variable_read(name)
    }

    /// Checks the name of a variable that is bound.
    pub(crate) fn check_write(name: &str) -> Result<()> {
        check_variable_write(name)
    }
}

/// The variables of a command's `let`, evaluated once before the command runs.
#[derive(Debug, Clone, Default)]
pub struct LetVars {
    names: Vec<Box<str>>,
    values: Vec<ValueBuf>,
}

impl LetVars {
    /// Parses and evaluates `{name: expression}`. The expressions do not see a document; each sees the variables
    /// before it.
    pub fn parse(
        spec: Doc<'_>,
        now_ms: i64,
        collation: Option<&'static Collation>,
    ) -> Result<LetVars> {
        let mut lets = LetVars::default();
        let arena = Bump::new();
        for element in spec {
            check_variable_write(element.name())?;
            let expr = Expr::parse(
                element.value(),
                &mut ParseCx::with_let(&lets.names).collated(collation),
            )?;
            let values = lets.values();
            let vars = Vars::new(&values);
            let cx = Eval::new(Doc::EMPTY, &vars, &arena, now_ms);
            let value = ValueBuf::new(expr.eval(&cx)?);
            lets.names.push(element.name().into());
            lets.values.push(value);
        }
        Ok(lets)
    }

    /// The names, for [`ParseCx::with_let`].
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// The values in the order of the names, for [`Vars::new`].
    pub fn values(&self) -> Vec<Value<'_>> {
        self.values.iter().map(ValueBuf::value).collect()
    }
}
