//! Reading the projection of `find`.
//!
//! A specification includes or excludes; `_id` may differ from the rest. `$slice` alone leaves the
//! other fields, `$elemMatch` alone drops them. A nested specification `{a: {b: 1}}` is the path "a.b".

use nagi_bson::{Doc, Value, number};
use nagi_error::{Code, Result, bail};

use super::find::{Action, Level, Projection, Slice};
use crate::expr::{Expr, ParseCx};
use crate::filter::{Allowed, Filter};
use crate::path::FieldPath;

/// What has been seen of a specification so far.
#[derive(Default)]
struct Seen {
    excludes: Option<bool>,
    id: Option<bool>,
    slice: bool,
    elem_match: bool,
    meta: bool,
    sort_key: bool,
    positional: Option<FieldPath>,
}

struct Parser<'p, 'c, 'f> {
    cx: &'p mut ParseCx<'c>,
    filter: Option<&'f Filter>,
    seen: Seen,
    root: Level,
}

impl Projection {
    /// Parses a projection; `filter` is the query, which a positional path has to fit.
    ///
    /// # Errors
    /// 31249-31276, 31394, 31395, 51050 and those of expressions.
    pub fn parse_find(
        spec: Doc<'_>,
        filter: Option<&Filter>,
        cx: &mut ParseCx<'_>,
    ) -> Result<Projection> {
        let mut parser = Parser { cx, filter, seen: Seen::default(), root: Level::default() };
        for element in spec {
            parser.field("", element.name(), element.value())?;
        }
        parser.finish()
    }
}

impl Parser<'_, '_, '_> {
    fn finish(mut self) -> Result<Projection> {
        let seen = &self.seen;
        let excludes = match seen.excludes {
            Some(excludes) => excludes,
            None => match seen.id {
                Some(true) if !seen.slice && !seen.meta => false,
                Some(false) if !seen.elem_match => true,
                _ => seen.slice || seen.meta || !seen.elem_match,
            },
        };
        match (excludes, seen.id) {
            (false, None) => {
                self.root.push("_id", Action::Include);
            }
            // Included beside exclusions: it stays as everything that is not named does.
            (true, Some(true)) => {
                if let Some(at) = self.root.find("_id") {
                    self.root.fields[at].1 = Action::Include;
                }
            }
            _ => {}
        }
        if excludes && self.seen.positional.is_some() {
            bail!(Code::Location(31395), "positional projection cannot be used with exclusion");
        }
        Ok(Projection {
            root: self.root,
            excludes,
            positional: self.seen.positional,
            meta: self.seen.meta,
            sort_key: self.seen.sort_key,
        })
    }

    /// One field of the specification below `prefix`.
    fn field(&mut self, prefix: &str, name: &str, value: Value<'_>) -> Result<()> {
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        if let Some(base) = self.positional_base(&path)? {
            return self.positional(&base, value);
        }
        check_path(&path)?;
        match value {
            Value::Doc(doc) => self.object(&path, doc),
            Value::Bool(_) => self.flag(&path, value),
            value if value.is_number() => self.flag(&path, value),
            value => self.compute(&path, value),
        }
    }

    /// The path before a final `.$`.
    fn positional_base(&self, path: &str) -> Result<Option<String>> {
        if let Some(base) = path.strip_suffix(".$") {
            if base.split('.').any(|part| part == "$") {
                bail!(
                    Code::Location(31287),
                    "Cannot use positional projection more than once in path '{path}'"
                );
            }
            return Ok(Some(base.to_owned()));
        }
        if path.split('.').any(|part| part == "$") && path != "$" {
            bail!(
                Code::Location(31394),
                "As of 4.4, it's illegal to specify positional operator in the middle of a path.\
                 Positional projection may only be used at the end, for example: a.b.$. If the \
                 query previously used a form like a.b.$.d, remove the parts following the '$' and \
                 the results will be equivalent."
            );
        }
        Ok(None)
    }

    fn positional(&mut self, base: &str, value: Value<'_>) -> Result<()> {
        check_path(base)?;
        if matches!(value, Value::Doc(_)) {
            bail!(
                Code::Location(31271),
                "positional projection cannot be used with an expression or sub object"
            );
        }
        if !value.is_truthy() {
            bail!(Code::Location(31395), "positional projection cannot be used with exclusion");
        }
        if self.seen.elem_match {
            bail!(Code::Location(31256), "Cannot specify positional operator and $elemMatch.");
        }
        if self.seen.positional.is_some() {
            bail!(
                Code::Location(31276),
                "Cannot specify more than one positional projection per query."
            );
        }
        let path = FieldPath::new(base);
        let mut fits = self.filter.is_none();
        if let Some(filter) = self.filter {
            filter.for_each_path(&mut |other| {
                fits |= !other.is_empty() && other.part(0) == path.part(0);
            });
        }
        if !fits {
            bail!(
                Code::Location(51050),
                "Positional projection '{base}.$' does not match the query document."
            );
        }
        self.mode(base, false)?;
        self.put(base, Action::Positional)?;
        self.seen.positional = Some(path);
        Ok(())
    }

    fn flag(&mut self, path: &str, value: Value<'_>) -> Result<()> {
        let include = value.is_truthy();
        if path == "_id" {
            self.seen.id = Some(include);
        } else {
            self.mode(path, !include)?;
        }
        self.put(path, if include { Action::Include } else { Action::Exclude })
    }

    /// Notes that a field other than `_id` is included or excluded.
    fn mode(&mut self, path: &str, excludes: bool) -> Result<()> {
        match (self.seen.excludes, excludes) {
            (Some(true), false) => bail!(
                Code::Location(31253),
                "Cannot do inclusion on field {path} in exclusion projection"
            ),
            (Some(false), true) => bail!(
                Code::Location(31254),
                "Cannot do exclusion on field {path} in inclusion projection"
            ),
            _ => self.seen.excludes = Some(excludes),
        }
        Ok(())
    }

    fn compute(&mut self, path: &str, value: Value<'_>) -> Result<()> {
        let expr = Expr::parse(value, self.cx)?;
        if self.seen.excludes == Some(true) {
            bail!(
                Code::Location(31252),
                "Cannot use expression other than $meta in exclusion projection"
            );
        }
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
        match first.name() {
            "$slice" => match parse_slice(doc)? {
                Some(slice) => {
                    self.seen.slice = true;
                    self.put(path, Action::Slice(slice))
                }
                None => self.compute(path, Value::Doc(doc)),
            },
            "$elemMatch" => self.elem_match(path, doc),
            "$meta" => {
                self.seen.meta = true;
                if first.value() == Value::String("sortKey") && doc.count() == 1 {
                    self.seen.sort_key = true;
                    return self.put(path, Action::Compute(Box::new(Expr::sort_key())));
                }
                let expr = Expr::parse(Value::Doc(doc), self.cx)?;
                if first.value() == Value::String("randVal") {
                    bail!(
                        Code::Location(40218),
                        "query requires rand val metadata, but it is not available"
                    );
                }
                self.put(path, Action::Compute(Box::new(expr)))
            }
            name if name.starts_with('$') => self.compute(path, Value::Doc(doc)),
            _ => doc.iter().try_for_each(|e| self.field(path, e.name(), e.value())),
        }
    }

    fn elem_match(&mut self, path: &str, doc: Doc<'_>) -> Result<()> {
        let Some(Value::Doc(condition)) = doc.first().map(|e| e.value()) else {
            let kind = doc.first().map_or("missing", |e| e.value().kind().name());
            bail!(
                Code::Location(31274),
                "elemMatch: Invalid argument, object required, but got {kind}"
            );
        };
        if self.seen.positional.is_some() {
            bail!(Code::Location(31255), "Cannot specify positional operator and $elemMatch.");
        }
        if path.contains('.') {
            bail!(Code::Location(31275), "Cannot use $elemMatch projection on a nested field");
        }
        let filter = Filter::parse_elem_match(condition, self.cx, Allowed::ALL)?;
        self.seen.elem_match = true;
        self.put(path, Action::ElemMatch(Box::new(filter)))
    }

    fn put(&mut self, path: &str, action: Action) -> Result<()> {
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

/// `n` or `[skip, limit]`; `None` when the arguments look like the expression's.
fn parse_slice(doc: Doc<'_>) -> Result<Option<Slice>> {
    if doc.count() != 1 {
        return Ok(None);
    }
    let whole = |value: Value<'_>| {
        let n = number::truncate_to_i64(value).unwrap_or(0);
        n.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
    };
    match doc.get("$slice") {
        value if value.is_number() => Ok(Some(Slice { skip: None, limit: whole(value) })),
        Value::Array(arguments) => {
            let (skip, limit) = (arguments.get(0), arguments.get(1));
            if arguments.count() != 2 || !skip.is_number() || !limit.is_number() {
                return Ok(None);
            }
            if whole(limit) <= 0 {
                bail!(
                    Code::Location(28724),
                    "First argument to $slice must be an array, but is of type: {}",
                    skip.kind().name()
                );
            }
            Ok(Some(Slice { skip: Some(whole(skip)), limit: whole(limit) }))
        }
        other => bail!(
            Code::Location(28667),
            "Invalid $slice syntax. The given syntax {doc} did not match the find() syntax because \
             :: Location31273: $slice only supports numbers and [x, y] arrays, got {} :: The given \
             syntax did not match the expression $slice syntax. :: caused by :: Expression $slice \
             takes at least 2 arguments, and at most 3, but 1 were passed in.",
            other.kind().name()
        ),
    }
}

fn check_path(path: &str) -> Result<()> {
    crate::expr::parse_field_path(path).map(|_| ())
}
