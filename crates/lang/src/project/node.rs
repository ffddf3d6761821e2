//! The tree of a projection, and its application to documents.

use nagi_bson::{Array, ArrayWriter, Doc, DocWriter, NameTag, Value};
use nagi_error::Result;

use super::names::{Names, Seen};
use crate::expr::{Deps, Eval, Expr};

/// The treatment of fields that the tree does not name, and of computed fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only named fields stay; computed fields come last.
    Include,
    /// All fields except the named ones stay.
    Exclude,
    /// All fields stay; computed fields replace existing ones or are appended.
    Add,
}

/// The action of a projection on one field.
#[derive(Debug, Clone)]
pub enum Action {
    Include,
    Exclude,
    Compute(Expr),
    Nested(Node),
}

/// The actions for the fields of one level, in the order of the specification.
#[derive(Debug, Clone)]
pub struct Node {
    mode: Mode,
    fields: Vec<(Box<str>, Action)>,
    names: Names,
    /// True if this level or one below computes a field.
    computes: bool,
}

impl Node {
    pub fn new(mode: Mode) -> Node {
        Node { mode, fields: Vec::new(), names: Names::default(), computes: false }
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
        self.position(name).map(|at| &self.fields[at].1)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.names.find(NameTag::of(name), name)
    }

    fn push(&mut self, name: &str, action: Action) {
        self.fields.push((name.into(), action));
        self.names.push(name);
    }

    /// Adds a field of this level that does not exist yet.
    pub(super) fn add(&mut self, name: &str, action: Action) {
        self.computes |= match &action {
            Action::Compute(_) => true,
            Action::Nested(below) => below.computes,
            Action::Include | Action::Exclude => false,
        };
        self.push(name, action);
    }

    /// Sets the action at a path; it replaces an earlier action for the same path.
    pub fn insert(&mut self, path: &[&str], action: Action) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        self.computes |= matches!(action, Action::Compute(_));
        let at = self.position(first);
        if rest.is_empty() {
            match at {
                Some(at) => self.fields[at].1 = action,
                None => self.push(first, action),
            }
            return;
        }
        let at = at.unwrap_or_else(|| {
            self.push(first, Action::Nested(Node::new(self.mode)));
            self.fields.len() - 1
        });
        if !matches!(self.fields[at].1, Action::Nested(_)) {
            self.fields[at].1 = Action::Nested(Node::new(self.mode));
        }
        if let Action::Nested(inner) = &mut self.fields[at].1 {
            inner.insert(rest, action);
        }
    }

    /// Adds the paths and variables that the application needs. Other modes than `Include` need the whole document.
    pub fn deps(&self, prefix: &str, deps: &mut Deps) {
        deps.whole |= self.mode != Mode::Include;
        for (name, action) in &self.fields {
            let path =
                if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
            match action {
                Action::Include => _ = deps.paths.insert(path),
                Action::Exclude => {}
                Action::Compute(expr) => expr.deps(deps),
                Action::Nested(node) => node.deps(&path, deps),
            }
        }
    }

    /// Writes the projection of `doc`. Computed fields are evaluated on `cx.root`.
    pub fn apply<'a>(&'a self, doc: Doc<'a>, cx: &Eval<'a>, out: &mut DocWriter<'_>) -> Result<()> {
        let mut seen = Seen::of(self.fields.len());
        match self.mode {
            Mode::Include => self.pick(doc, &mut seen, cx, out)?,
            Mode::Exclude | Mode::Add => self.keep(doc, &mut seen, cx, out)?,
        }
        if self.computes { self.append(&seen, cx, out) } else { Ok(()) }
    }

    /// The application of an inclusion. It stops when all named fields are found.
    fn pick<'a>(
        &'a self,
        doc: Doc<'a>,
        seen: &mut Seen,
        cx: &Eval<'a>,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        let mut elements = doc.iter();
        let mut next = elements.offset();
        let mut missing = self.fields.len();
        while missing > 0
            && let Some((tag, element)) = elements.next_tagged()
        {
            let begin = std::mem::replace(&mut next, elements.offset());
            let Some(at) = self.names.find(tag, element.name()) else { continue };
            if seen.note(at) {
                continue;
            }
            missing -= 1;
            match &self.fields[at].1 {
                Action::Include => out.extend_between(doc, begin, next),
                Action::Exclude | Action::Compute(_) => {}
                Action::Nested(node) => {
                    node.apply_field(element.name(), element.value(), cx, out)?;
                }
            }
        }
        Ok(())
    }

    /// The application of other modes. Fields that stay are copied in one piece, up to the next field with an action.
    fn keep<'a>(
        &'a self,
        doc: Doc<'a>,
        seen: &mut Seen,
        cx: &Eval<'a>,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        let mut elements = doc.iter();
        let mut next = elements.offset();
        let mut copied = next;
        while let Some((tag, element)) = elements.next_tagged() {
            let begin = std::mem::replace(&mut next, elements.offset());
            let name = element.name();
            let Some(at) = self.names.find(tag, name) else { continue };
            out.extend_between(doc, copied, begin);
            copied = next;
            let again = seen.note(at);
            match &self.fields[at].1 {
                Action::Include => out.put_element(element),
                Action::Exclude => {}
                Action::Compute(_) if again => {}
                Action::Compute(expr) => {
                    out.put(name, cx.fitting(out.len(), expr.eval(cx)?)?);
                    cx.check_written(out.len())?;
                }
                Action::Nested(node) => node.apply_field(name, element.value(), cx, out)?,
            }
        }
        out.extend_between(doc, copied, doc.len() - 1);
        Ok(())
    }

    /// Appends the computed fields that do not replace a field of the document.
    fn append<'a>(&'a self, seen: &Seen, cx: &Eval<'a>, out: &mut DocWriter<'_>) -> Result<()> {
        for (at, (name, action)) in self.fields.iter().enumerate() {
            match action {
                Action::Compute(expr) if self.mode == Mode::Include || !seen.has(at) => {
                    out.put(name, cx.fitting(out.len(), expr.eval(cx)?)?);
                    cx.check_written(out.len())?;
                }
                Action::Nested(node) if node.computes && !seen.has(at) => {
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
            if self.computes {
                cx.check_turn(out.len())?;
            }
        }
        Ok(())
    }
}
