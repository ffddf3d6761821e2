//! The projection of `find` and `findAndModify`.
//!
//! It is a tree like that of `$project`, with three additional actions: a positional `a.$`, `$slice` and
//! `$elemMatch`. The parser is in `parser`.
//!
//! Invariants
//! - Included fields keep the document's order. Computed fields and `$elemMatch` follow in the order of the
//!   specification. `$slice` keeps the position of the field.
//! - A projection that excludes keeps every field that it does not name.

use nagi_bson::{Array, ArrayWriter, Doc, DocWriter, NameTag, Value, ValueSlot};
use nagi_error::{Code, Error, Result, bail};

use super::names::{Names, Seen};
use crate::expr::{Eval, Expr};
use crate::filter::{Filter, MatchCx, MatchInfo};

/// A parsed projection.
#[derive(Debug, Clone)]
pub struct Projection {
    pub(super) root: Level,
    pub(super) excludes: bool,
    pub(super) positional: Option<crate::path::FieldPath>,
    pub(super) meta: bool,
    pub(super) sort_key: bool,
}

/// The actions of one level, in the order of the specification.
#[derive(Debug, Clone, Default)]
pub(super) struct Level {
    pub(super) fields: Vec<(Box<str>, Action)>,
    names: Names,
    /// True if a field at or below this level is computed and so appended.
    pub(super) appends: bool,
}

impl Level {
    /// The index of a field.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.find(NameTag::of(name), name)
    }

    /// Adds a field that does not exist yet.
    pub(super) fn push(&mut self, name: &str, action: Action) -> usize {
        self.fields.push((name.into(), action));
        self.names.push(name);
        self.fields.len() - 1
    }
}

/// The action for one field.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Include,
    Exclude,
    /// A path that ends in `$`.
    Positional,
    Slice(Slice),
    ElemMatch(Box<Filter>),
    Compute(Box<Expr>),
    Nested(Level),
}

/// `$slice: n` (the first or last n) or `$slice: [skip, limit]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) skip: Option<i64>,
    pub(super) limit: i64,
}

impl Projection {
    /// Returns true if the projection outputs [`crate::expr::Metadata`].
    pub fn needs_meta(&self) -> bool {
        self.meta
    }

    /// Returns true if the projection outputs the sort key.
    pub fn needs_sort_key(&self) -> bool {
        self.sort_key
    }

    /// Returns true if the projection needs the array position by which the filter matched.
    pub fn needs_position(&self) -> bool {
        self.positional.is_some()
    }

    /// Returns true if the projection leaves every document unchanged.
    pub fn is_identity(&self) -> bool {
        self.excludes && self.root.fields.is_empty()
    }

    pub fn is_exclusion(&self) -> bool {
        self.excludes
    }

    /// The included paths, if the projection only includes fields; `_id` is among them if it is included. A covered
    /// plan must provide these paths.
    pub fn included_paths(&self) -> Option<Vec<String>> {
        let mut out = Vec::new();
        (!self.excludes && collect(&self.root, "", &mut out)).then_some(out)
    }

    /// Writes the projection of `doc`. `info` contains the array position by which the filter matched.
    ///
    /// # Errors
    /// 51246 if a positional path has no position, 51247 if the array has no such element, and the errors of
    /// expressions.
    pub fn apply<'a>(
        &'a self,
        doc: Doc<'a>,
        info: MatchInfo,
        cx: &Eval<'a>,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        Run { excludes: self.excludes, info, used: false, cx: *cx }.level(&self.root, doc, out)
    }
}

fn collect(level: &Level, prefix: &str, out: &mut Vec<String>) -> bool {
    level.fields.iter().all(|(name, action)| {
        let path = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
        match action {
            Action::Include => {
                out.push(path);
                true
            }
            // `_id: 0` together with included fields.
            Action::Exclude => true,
            Action::Nested(level) => collect(level, &path, out),
            _ => false,
        }
    })
}

/// The state of one application of a projection.
struct Run<'a> {
    excludes: bool,
    info: MatchInfo,
    /// True if an enclosing array has already used the position.
    used: bool,
    cx: Eval<'a>,
}

impl<'a> Run<'a> {
    fn level(&self, level: &'a Level, doc: Doc<'a>, out: &mut DocWriter<'_>) -> Result<()> {
        let mut seen = Seen::of(level.fields.len());
        let mut missing = level.fields.len();
        let mut elements = doc.iter();
        // Fields that stay are copied in one piece, up to the next field with an action.
        let mut copied = elements.offset();
        let mut next = copied;
        // An exclusion scans the whole document, because a document may contain a name twice.
        while (missing > 0 || self.excludes)
            && let Some((tag, element)) = elements.next_tagged()
        {
            let begin = std::mem::replace(&mut next, elements.offset());
            let Some(at) = level.names.find(tag, element.name()) else { continue };
            if self.excludes {
                out.extend_between(doc, copied, begin);
            }
            copied = next;
            if seen.note(at) {
                continue;
            }
            missing = missing.saturating_sub(1);
            match &level.fields[at].1 {
                Action::Include => out.extend_between(doc, begin, next),
                action => self.existing(action, element.value(), out.slot(element.name()))?,
            }
        }
        if self.excludes {
            out.extend_between(doc, copied, doc.len() - 1);
        }
        if level.appends { self.append(level, doc, &seen, out) } else { Ok(()) }
    }

    /// Applies the action to a field that the document has.
    fn existing(&self, action: &'a Action, value: Value<'a>, slot: ValueSlot<'_>) -> Result<()> {
        match action {
            Action::Include => slot.put(value),
            Action::Exclude => {}
            Action::Positional => self.positional(value, slot)?,
            Action::Slice(slice) => put_slice(*slice, value, slot),
            Action::Nested(level) => self.nested(level, value, slot)?,
            // An exclusion writes the result at the field's position, an inclusion appends it at the end.
            Action::ElemMatch(filter) if self.excludes => {
                self.first_match(filter, value, slot)?;
            }
            Action::Compute(expr) if self.excludes => slot.put(expr.eval(&self.cx)?),
            Action::ElemMatch(_) | Action::Compute(_) => {}
        }
        Ok(())
    }

    /// Appends the fields that follow the fields of the document.
    fn append(
        &self,
        level: &'a Level,
        doc: Doc<'a>,
        seen: &Seen,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        for (at, (name, action)) in level.fields.iter().enumerate() {
            let seen = seen.has(at);
            match action {
                Action::Compute(_) | Action::ElemMatch(_) if self.excludes && seen => {}
                Action::Compute(expr) => {
                    out.put(name, self.cx.fitting(out.len(), expr.eval(&self.cx)?)?);
                    self.cx.check_written(out.len())?;
                }
                Action::ElemMatch(filter) => {
                    self.first_match(filter, doc.get(name), out.slot(name))?;
                }
                Action::Nested(inner) if inner.appends && !seen => {
                    out.doc(name, |out| self.level(inner, Doc::EMPTY, out))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn nested(&self, level: &'a Level, value: Value<'a>, slot: ValueSlot<'_>) -> Result<()> {
        match value {
            Value::Doc(doc) => slot.doc(|out| self.level(level, doc, out)),
            Value::Array(items) => slot.array(|out| self.items(level, items, out)),
            _ if level.appends => slot.doc(|out| self.level(level, Doc::EMPTY, out)),
            scalar => {
                if self.excludes {
                    slot.put(scalar);
                }
                Ok(())
            }
        }
    }

    fn items(&self, level: &'a Level, items: Array<'a>, out: &mut ArrayWriter<'_>) -> Result<()> {
        if !has_position(level) || self.used {
            return items.iter().try_for_each(|item| self.item(level, item, out));
        }
        // The positional component is below this array, so the position selects an element of this array. It counts
        // only the elements that the projection keeps.
        let position = self.position()?;
        let below = Run { used: true, excludes: self.excludes, info: self.info, cx: self.cx };
        let stays = |item: &Value<'_>| {
            matches!(item, Value::Doc(_) | Value::Array(_)) || level.appends || self.excludes
        };
        match items.iter().filter(stays).nth(position) {
            Some(item) => below.item(level, item, out),
            None => Err(mismatch()),
        }
    }

    fn item(&self, level: &'a Level, item: Value<'a>, out: &mut ArrayWriter<'_>) -> Result<()> {
        match item {
            Value::Missing => Ok(()),
            Value::Doc(doc) => out.doc(|out| self.level(level, doc, out)),
            Value::Array(inner) => out.array(|out| self.items(level, inner, out)),
            _ if level.appends => out.doc(|out| self.level(level, Doc::EMPTY, out)),
            scalar => {
                if self.excludes {
                    out.push(scalar);
                }
                Ok(())
            }
        }
    }

    fn positional(&self, value: Value<'a>, slot: ValueSlot<'_>) -> Result<()> {
        match value {
            Value::Array(array) if !self.used => {
                let element = self.matched(array)?;
                slot.array(|out| out.push(element));
            }
            value => slot.put(value),
        }
        Ok(())
    }

    /// The array element by which the filter matched.
    fn matched(&self, array: Array<'a>) -> Result<Value<'a>> {
        match array.get(self.position()?) {
            Value::Missing => Err(mismatch()),
            element => Ok(element),
        }
    }

    /// The array position by which the filter matched.
    fn position(&self) -> Result<usize> {
        match self.info.position {
            Some(position) => Ok(position as usize),
            None => bail!(
                Code::Location(51246),
                "positional operator '.$' couldn't find a matching element in the array"
            ),
        }
    }

    /// `$elemMatch`: writes an array with the first matching element, or nothing if no element matches.
    fn first_match(&self, filter: &'a Filter, value: Value<'a>, slot: ValueSlot<'_>) -> Result<()> {
        let Value::Array(array) = value else { return Ok(()) };
        let cx = MatchCx::new(self.cx.vars, self.cx.arena, self.cx.now_ms);
        for element in array.iter() {
            if filter.matches_element(element, &cx)? {
                slot.array(|out| out.push(element));
                break;
            }
        }
        Ok(())
    }
}

fn mismatch() -> Error {
    Error::new(Code::Location(51247), "positional operator '.$' element mismatch")
}

fn has_position(level: &Level) -> bool {
    level.fields.iter().any(|(_, action)| match action {
        Action::Positional => true,
        Action::Nested(inner) => has_position(inner),
        _ => false,
    })
}

fn put_slice(slice: Slice, value: Value<'_>, slot: ValueSlot<'_>) {
    let Value::Array(array) = value else {
        slot.put(value);
        return;
    };
    let count = array.count();
    let clamp = |n: i64| usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
    let (skip, take) = match slice.skip {
        None if slice.limit >= 0 => (0, clamp(slice.limit)),
        None => (count.saturating_sub(clamp(slice.limit)), count),
        Some(skip) if skip >= 0 => (clamp(skip), clamp(slice.limit)),
        Some(skip) => (count.saturating_sub(clamp(skip)), clamp(slice.limit)),
    };
    slot.array(|out| array.iter().skip(skip).take(take).for_each(|value| out.push(value)));
}
