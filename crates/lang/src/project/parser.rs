//! The parser of projections. Those of `find`, `$project` and `$unset` have one syntax.
//!
//! A specification either includes or excludes fields; `_id` may differ from the rest. A nested specification `{a:
//! {b: 1}}` is equivalent to the path "a.b", and both forms may be mixed. The parts that are specific to `find` (a
//! positional path, `$slice`, `$elemMatch`) are parsed in `find_only` and rejected elsewhere.
//!
//! The error names the first field that is inconsistent with the fields before it.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};

use super::find::{Action, Level, Projection};
use crate::expr::{self, Expr, ParseCx};
use crate::filter::Filter;
use crate::memory;
use crate::path::FieldPath;

/// The place of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Find,
    /// A stage of a pipeline.
    Stage,
}

/// The parts of a specification that were parsed so far.
#[derive(Default)]
pub(super) struct Seen {
    /// True if fields are excluded, false if they are included; `None` as long as it is undetermined.
    pub(super) excludes: Option<bool>,
    pub(super) id: Option<bool>,
    pub(super) slice: bool,
    pub(super) elem_match: bool,
    pub(super) meta: bool,
    pub(super) sort_key: bool,
    pub(super) positional: Option<FieldPath>,
}

pub(super) struct Parser<'p, 'c, 'f> {
    pub(super) cx: &'p mut ParseCx<'c>,
    /// The query filter, from whose match a positional path takes the position.
    pub(super) filter: Option<&'f Filter>,
    pub(super) seen: Seen,
    place: Place,
    root: Level,
}

impl Projection {
    /// Parses the projection of a `find`; `filter` is its query.
    ///
    /// # Errors
    /// 16410 and others for paths, 31249-31276, 31308, 31310, 31325, 31394, 31395, 51050, 51270, and the errors of
    /// expressions.
    pub fn parse_find(
        spec: Doc<'_>,
        filter: Option<&Filter>,
        cx: &mut ParseCx<'_>,
    ) -> Result<Projection> {
        let mut parser = Parser::new(Place::Find, filter, cx);
        parser.fields("", spec)?;
        Ok(parser.finish())
    }
}

impl<'p, 'c, 'f> Parser<'p, 'c, 'f> {
    pub(super) fn new(
        place: Place,
        filter: Option<&'f Filter>,
        cx: &'p mut ParseCx<'c>,
    ) -> Parser<'p, 'c, 'f> {
        Parser { cx, filter, seen: Seen::default(), place, root: Level::default() }
    }

    /// The parsed projection. `_id` is included unless the specification excludes it.
    pub(super) fn finish(mut self) -> Projection {
        let excludes = self.seen.excludes.unwrap_or_else(|| self.excludes_by_default());
        if !excludes && self.seen.id.is_none() && self.root.find("_id").is_none() {
            self.root.push("_id", Action::Include);
        }
        Projection {
            root: self.root,
            excludes,
            positional: self.seen.positional,
            meta: self.seen.meta,
            sort_key: self.seen.sort_key,
        }
    }

    /// The mode of a specification with only `_id`, metadata and parts of arrays. With metadata and `$slice`, a
    /// `find` keeps the other fields and a stage does not. `_id: 1` with metadata alone is an inclusion.
    fn excludes_by_default(&self) -> bool {
        let Seen { id, slice, elem_match, meta, .. } = self.seen;
        match (self.place, id) {
            (Place::Stage, id) => id == Some(false) && !meta,
            (Place::Find, Some(true)) => slice,
            (Place::Find, Some(false)) if !elem_match => true,
            (Place::Find, _) => slice || meta || !elem_match,
        }
    }

    /// Parses the fields of a specification below `prefix`.
    pub(super) fn fields(&mut self, prefix: &str, spec: Doc<'_>) -> Result<()> {
        spec.iter().try_for_each(|e| self.field(prefix, e.name(), e.value()))
    }

    pub(super) fn field(&mut self, prefix: &str, name: &str, value: Value<'_>) -> Result<()> {
        memory::check()?;
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        if let Some(base) = self.positional_base(&path)? {
            return self.positional(base, value);
        }
        check_path(&path)?;
        match value {
            Value::Doc(doc) => self.object(&path, doc),
            Value::Bool(_) => self.flag(&path, name, value),
            value if value.is_number() => self.flag(&path, name, value),
            value => self.literal(&path, name, value),
        }
    }

    /// The part of the path before a final `.$`.
    fn positional_base<'n>(&self, path: &'n str) -> Result<Option<&'n str>> {
        let base = path.strip_suffix(".$");
        if base.is_some() && self.place == Place::Stage {
            bail!(
                Code::Location(31324),
                "Cannot use positional projection in aggregation projection"
            );
        }
        if path.contains(".$.") {
            bail!(
                Code::Location(31394),
                "As of 4.4, it's illegal to specify positional operator in the middle of a path.\
                 Positional projection may only be used at the end, for example: a.b.$. If the \
                 query previously used a form like a.b.$.d, remove the parts following the '$' and \
                 the results will be equivalent."
            );
        }
        Ok(base)
    }

    fn flag(&mut self, path: &str, name: &str, value: Value<'_>) -> Result<()> {
        let include = value.is_truthy();
        if path == "_id" {
            self.seen.id = Some(include);
        } else {
            self.mode(name, !include)?;
        }
        self.put(path, if include { Action::Include } else { Action::Exclude })
    }

    /// Records that a field other than `_id` is included or excluded.
    fn mode(&mut self, name: &str, excludes: bool) -> Result<()> {
        match (self.seen.excludes, excludes) {
            (Some(true), false) => bail!(
                Code::Location(31253),
                "Cannot do inclusion on field {name} in exclusion projection"
            ),
            (Some(false), true) => bail!(
                Code::Location(31254),
                "Cannot do exclusion on field {name} in inclusion projection"
            ),
            _ => self.seen.excludes = Some(excludes),
        }
        Ok(())
    }

    /// Parses a value that is neither a flag nor an object: a constant, or a path in a string.
    fn literal(&mut self, path: &str, name: &str, value: Value<'_>) -> Result<()> {
        let expr = Expr::parse(value, self.cx)?;
        if self.seen.excludes == Some(true) {
            bail!(
                Code::Location(31310),
                "Cannot use an expression {name}: {value} in an exclusion projection"
            );
        }
        self.compute(path, expr)
    }

    /// Parses an operator of the expression language.
    pub(super) fn operator(&mut self, path: &str, doc: Doc<'_>) -> Result<()> {
        let name = doc.first().map_or("", |e| e.name());
        if !expr::is_operator(name) {
            bail!(Code::Location(31325), "Unknown expression {name}");
        }
        let expr = Expr::parse(Value::Doc(doc), self.cx)?;
        if self.seen.excludes == Some(true) {
            bail!(
                Code::Location(31252),
                "Cannot use expression other than $meta in exclusion projection"
            );
        }
        self.compute(path, expr)
    }

    fn compute(&mut self, path: &str, expr: Expr) -> Result<()> {
        self.seen.excludes = Some(false);
        if path == "_id" {
            self.seen.id = Some(true);
        }
        self.put(path, Action::Compute(Box::new(expr)))
    }

    fn object(&mut self, path: &str, doc: Doc<'_>) -> Result<()> {
        let Some(first) = doc.first() else {
            bail!(
                Code::Location(51270),
                "An empty sub-projection is not a valid value. Found empty object at path"
            );
        };
        // An operator must be the only field. Beside other fields its name is parsed as a field name, which is an
        // error.
        if !first.name().starts_with('$') || doc.count() != 1 {
            return self.fields(path, doc);
        }
        match (first.name(), self.place) {
            ("$slice", Place::Find) => self.slice(path, doc),
            ("$elemMatch", Place::Find) => self.elem_match(path, first.value()),
            ("$meta", place) => self.meta(path, doc, place),
            _ => self.operator(path, doc),
        }
    }

    /// Parses `$meta`, which is allowed in inclusions and exclusions.
    fn meta(&mut self, path: &str, doc: Doc<'_>, place: Place) -> Result<()> {
        let kind = doc.get("$meta");
        self.seen.meta = true;
        if kind == Value::String("sortKey") && place == Place::Find {
            self.seen.sort_key = true;
            return self.put(path, Action::Compute(Box::new(Expr::sort_key())));
        }
        let expr = Expr::parse(Value::Doc(doc), self.cx)?;
        if kind == Value::String("randVal") && place == Place::Find {
            bail!(
                Code::Location(40218),
                "query requires rand val metadata, but it is not available"
            );
        }
        self.put(path, Action::Compute(Box::new(expr)))
    }

    pub(super) fn put(&mut self, path: &str, action: Action) -> Result<()> {
        let appends = matches!(action, Action::Compute(_) | Action::ElemMatch(_));
        insert(&mut self.root, &FieldPath::new(path), 0, action, appends)
    }
}

fn insert(
    level: &mut Level,
    path: &FieldPath,
    at: usize,
    action: Action,
    appends: bool,
) -> Result<()> {
    memory::check_list(&level.fields)?;
    level.appends |= appends;
    let name = path.part(at);
    let found = level.find(name);
    if at + 1 == path.len() {
        if found.is_some() {
            bail!(Code::Location(31250), "Path collision at {path}");
        }
        level.push(name, action);
        return Ok(());
    }
    let found = found.unwrap_or_else(|| level.push(name, Action::Nested(Level::default())));
    match &mut level.fields[found].1 {
        Action::Nested(below) => insert(below, path, at + 1, action, appends),
        _ => {
            let rest = &path.as_str()[path.prefix(at + 1).len() + 1..];
            bail!(Code::Location(31249), "Path collision at {path} remaining portion {rest}")
        }
    }
}

/// Checks that a path is a valid field path.
pub(super) fn check_path(path: &str) -> Result<()> {
    crate::expr::parse_field_path(path).map(|_| ())
}
