//! The dependencies of an expression: the paths of the document, the whole document, variables.

use std::collections::BTreeSet;

use super::{Expr, Variable};

/// The union of the dependencies of one or more expressions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deps {
    /// Dotted paths of the root document.
    pub paths: BTreeSet<String>,
    /// True if the whole document is needed.
    pub whole: bool,
    /// True if a variable of `let` is used.
    pub lets: bool,
    /// True if the value may differ between two evaluations on the same document.
    pub random: bool,
    /// True if a function of the client is called, whose value may differ as well.
    pub scripted: bool,
    /// True if the order of the document's fields matters, because the fields are output and not only read.
    pub ordered: bool,
}

impl Deps {
    fn path(&mut self, path: String) {
        self.paths.insert(path);
    }

    /// Removes a path and all paths below it, because a later stage replaces their values. If the order of fields
    /// matters, the path itself stays: an existing field keeps its position when it gets a new value.
    pub fn forget(&mut self, path: &str) {
        let was_needed = self.paths.remove(path);
        // `/` is the character after `.`.
        let below: Vec<_> =
            self.paths.range(format!("{path}.")..format!("{path}/")).cloned().collect();
        below.iter().for_each(|path| _ = self.paths.remove(path));
        if self.ordered && (was_needed || !below.is_empty()) {
            self.paths.insert(path.to_owned());
        }
    }
}

impl Expr {
    /// Adds the dependencies of this expression.
    pub fn deps(&self, deps: &mut Deps) {
        match self {
            Expr::Path(path) => deps.path(path.dotted()),
            Expr::Var(Variable::Root, Some(path)) => deps.path(path.dotted()),
            Expr::Var(Variable::Root, None) => deps.whole = true,
            Expr::Var(Variable::Let(_), _) => deps.lets = true,
            Expr::Call(operator, _) if operator.name == "$rand" => deps.random = true,
            Expr::Form(form) if form.is_random() => deps.random = true,
            Expr::Form(form) if !form.is_pure() => deps.scripted = true,
            _ => {}
        }
        self.for_each_child(&mut |child| child.deps(deps));
    }
}
