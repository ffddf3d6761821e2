//! What an expression needs to see: paths of the document, the whole of it, variables.

use std::collections::BTreeSet;

use super::{Expr, Variable};

/// The needs of one or more expressions, collected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deps {
    /// Dotted paths of the root document.
    pub paths: BTreeSet<String>,
    /// Whether the whole document is needed.
    pub whole: bool,
    /// Whether a variable of `let` is used.
    pub lets: bool,
    /// Whether the value may differ between evaluations on the same document.
    pub random: bool,
    /// Whether the order of the fields that are there matters: they are shown, not only read.
    pub ordered: bool,
}

impl Deps {
    fn path(&mut self, path: String) {
        self.paths.insert(path);
    }

    /// Forgets a path and all below it, which is made anew from here on. Where the order of fields matters the path
    /// itself stays: a field that is there keeps its place when it gets another value.
    pub fn forget(&mut self, path: &str) {
        let was_needed = self.paths.remove(path);
        // The character behind the dot.
        let below: Vec<_> =
            self.paths.range(format!("{path}.")..format!("{path}/")).cloned().collect();
        below.iter().for_each(|path| _ = self.paths.remove(path));
        if self.ordered && (was_needed || !below.is_empty()) {
            self.paths.insert(path.to_owned());
        }
    }
}

impl Expr {
    /// Adds what this expression needs.
    pub fn deps(&self, deps: &mut Deps) {
        match self {
            Expr::Path(path) => deps.path(path.dotted()),
            Expr::Var(Variable::Root, Some(path)) => deps.path(path.dotted()),
            Expr::Var(Variable::Root, None) => deps.whole = true,
            Expr::Var(Variable::Let(_), _) => deps.lets = true,
            Expr::Call(operator, _) if operator.name == "$rand" => deps.random = true,
            Expr::Form(form) if form.is_random() => deps.random = true,
            _ => {}
        }
        self.for_each_child(&mut |child| child.deps(deps));
    }
}
