//! The tree of a projection and how it is applied.

use nagi_bson::{Array, ArrayWriter, Doc, DocWriter, Value};
use nagi_error::Result;

use crate::expr::{Deps, Eval, Expr};

/// What happens to fields that the tree does not name, and to computed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only named fields stay; computed ones come last.
    Include,
    /// All but the named fields stay.
    Exclude,
    /// All fields stay; computed ones replace or follow.
    Add,
}

/// What a projection does with one field.
#[derive(Debug, Clone)]
pub enum Action {
    Include,
    Exclude,
    Compute(Expr),
    Nested(Node),
}

/// Actions for the fields of one level, in the order of the specification.
#[derive(Debug, Clone)]
pub struct Node {
    mode: Mode,
    fields: Vec<(Box<str>, Action)>,
    /// Whether this level or one below computes something.
    computes: bool,
}

impl Node {
    pub fn new(mode: Mode) -> Node {
        Node { mode, fields: Vec::new(), computes: false }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn fields(&self) -> &[(Box<str>, Action)] {
        &self.fields
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The action for a field name.
    pub fn get(&self, name: &str) -> Option<&Action> {
        self.fields.iter().find(|(n, _)| &**n == name).map(|(_, action)| action)
    }

    /// Puts an action at a path; a later one for the same path replaces the earlier.
    pub fn insert(&mut self, path: &[&str], action: Action) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        self.computes |= matches!(action, Action::Compute(_));
        let at = self.fields.iter().position(|(n, _)| &**n == *first);
        if rest.is_empty() {
            match at {
                Some(at) => self.fields[at].1 = action,
                None => self.fields.push(((*first).into(), action)),
            }
            return;
        }
        let at = at.unwrap_or_else(|| {
            self.fields.push(((*first).into(), Action::Nested(Node::new(self.mode))));
            self.fields.len() - 1
        });
        if !matches!(self.fields[at].1, Action::Nested(_)) {
            self.fields[at].1 = Action::Nested(Node::new(self.mode));
        }
        if let Action::Nested(inner) = &mut self.fields[at].1 {
            inner.insert(rest, action);
        }
    }

    /// Adds the paths and variables that applying needs. Excluding needs the whole document.
    pub fn deps(&self, prefix: &str, deps: &mut Deps) {
        deps.whole |= self.mode != Mode::Include;
        for (name, action) in &self.fields {
            let path =
                if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
            match action {
                Action::Include if !deps.paths.contains(&path) => deps.paths.push(path),
                Action::Include | Action::Exclude => {}
                Action::Compute(expr) => expr.deps(deps),
                Action::Nested(node) => node.deps(&path, deps),
            }
        }
    }

    /// Writes the projection of `doc`; computed fields see `cx.root`.
    pub fn apply<'a>(&'a self, doc: Doc<'a>, cx: &Eval<'a>, out: &mut DocWriter<'_>) -> Result<()> {
        // Fields written in place are not written again below; specifications of more than 128
        // fields fall back to asking the document.
        let mut seen = 0u128;
        for element in doc {
            let name = element.name();
            let at = self.fields.iter().position(|(n, _)| &**n == name);
            let Some(at) = at else {
                if self.mode != Mode::Include {
                    out.put(name, element.value());
                }
                continue;
            };
            match &self.fields[at].1 {
                Action::Include => out.put(name, element.value()),
                Action::Exclude => {}
                Action::Compute(_) if self.mode == Mode::Include => continue,
                Action::Compute(_) if was_seen(seen, at) => {}
                Action::Compute(expr) => out.put(name, expr.eval(cx)?),
                Action::Nested(node) => node.apply_field(name, element.value(), cx, out)?,
            }
            if at < 128 {
                seen |= 1 << at;
            }
        }
        if self.computes { self.append(doc, seen, cx, out) } else { Ok(()) }
    }

    /// Writes the computed fields that the document has no place for.
    fn append<'a>(
        &'a self,
        doc: Doc<'a>,
        seen: u128,
        cx: &Eval<'a>,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        for (at, (name, action)) in self.fields.iter().enumerate() {
            let in_place = match action {
                Action::Compute(_) if self.mode == Mode::Include => false,
                _ if at < 128 => was_seen(seen, at),
                _ => doc.element(name).is_some(),
            };
            if in_place {
                continue;
            }
            match action {
                Action::Compute(expr) => out.put(name, expr.eval(cx)?),
                Action::Nested(node) if node.computes => {
                    out.doc(name, |out| node.apply(Doc::EMPTY, cx, out))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn apply_field<'a>(
        &'a self,
        name: &str,
        value: Value<'a>,
        cx: &Eval<'a>,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        match value {
            Value::Doc(doc) => out.doc(name, |out| self.apply(doc, cx, out)),
            Value::Array(items) => out.array(name, |out| self.apply_items(items, cx, out)),
            _ if self.computes => out.doc(name, |out| self.apply(Doc::EMPTY, cx, out)),
            scalar if self.mode == Mode::Exclude => {
                out.put(name, scalar);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn apply_items<'a>(
        &'a self,
        items: Array<'a>,
        cx: &Eval<'a>,
        out: &mut ArrayWriter<'_>,
    ) -> Result<()> {
        for item in items.iter() {
            match item {
                Value::Doc(doc) => out.doc(|out| self.apply(doc, cx, out))?,
                Value::Array(inner) => out.array(|out| self.apply_items(inner, cx, out))?,
                _ if self.computes => out.doc(|out| self.apply(Doc::EMPTY, cx, out))?,
                scalar if self.mode == Mode::Exclude => out.push(scalar),
                _ => {}
            }
        }
        Ok(())
    }
}

fn was_seen(seen: u128, at: usize) -> bool {
    at < 128 && seen & (1 << at) != 0
}
