//! The parser of filters: the top level and the logical operators.
//!
//! The operators of a field are in `parse_field`. Both files are tables of rows that are looked up by the operator's
//! name. The nesting of a filter is bounded by that of BSON (200), so plain recursion is safe.

use nagi_bson::{Doc, DocBuf, Value, ValueBuf, number};
use nagi_budget::meter;
use nagi_error::{Code, Result, bail};

use super::elem::{ExprFilter, WhereFilter};
use super::{CompareOp, Filter, Pred, Schema, near, parse_field, text};
use crate::expr::{Expr, ParseCx};
use crate::memory;
use crate::path::FieldPath;
use crate::regex::Pattern;
use crate::script::Function;

/// The operators that a filter may contain; this depends on the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// `$expr`; without it, 224.
    pub expr: bool,
    /// `$text`, which needs a plan with a text index.
    pub special: bool,
    /// `$near` and its variants, which need a plan with a geo index; without it, 5626500.
    pub near: bool,
    /// `$where`.
    pub script: bool,
}

impl Allowed {
    /// Everything except `$near`: `count`, validators.
    pub const ALL: Allowed = Allowed { expr: true, special: true, near: false, script: true };
    /// Everything: `find`, `update`, `delete`.
    pub const WITH_NEAR: Allowed = Allowed { near: true, ..Allowed::ALL };
    /// Everything except `$near` and scripts: `$match`.
    pub const MATCH: Allowed = Allowed { script: false, ..Allowed::ALL };
    /// Plain conditions only: `$pull`, array filters, `$elemMatch` projections, `$push` sorts.
    pub const PLAIN: Allowed = Allowed { expr: false, special: false, near: false, script: false };
}

/// The state of the parser.
pub(super) struct Parser<'p, 'c> {
    pub(super) cx: &'p mut ParseCx<'c>,
    pub(super) allowed: Allowed,
    /// True inside of `$elemMatch` or of an operator of a field.
    pub(super) nested: bool,
}

type ParseOperator = for<'v> fn(&mut Parser<'_, '_>, Value<'v>) -> Result<Option<Filter>>;

/// The operators at the top level of a filter, sorted by name. A parser returns `None` if the operator adds no
/// condition.
static OPERATORS: &[(&str, ParseOperator)] = &[
    ("$alwaysFalse", |_, v| constant("$alwaysFalse", v, Filter::AlwaysFalse)),
    ("$alwaysTrue", |_, v| constant("$alwaysTrue", v, Filter::AlwaysTrue)),
    ("$and", |p, v| Ok(Some(Filter::And(p.list(v)?)))),
    ("$comment", |_, _| Ok(None)),
    ("$db", |p, v| Ok(Some(equality(p, "$db", v)?))),
    ("$expr", |p, v| p.expr(v)),
    ("$id", |p, v| Ok(Some(equality(p, "$id", v)?))),
    ("$jsonSchema", |_, v| schema(v)),
    ("$nor", |p, v| Ok(Some(Filter::Nor(p.list(v)?)))),
    ("$or", |p, v| Ok(Some(Filter::Or(p.list(v)?)))),
    ("$ref", |p, v| Ok(Some(equality(p, "$ref", v)?))),
    ("$sampleRate", |p, v| p.sample_rate(v)),
    ("$text", |p, v| text::parse(p, v)),
    ("$where", |p, v| p.script(v)),
];

/// The names of the operators at the top level, but for the parts of a DBRef.
pub(super) fn operator_names() -> impl Iterator<Item = &'static str> {
    let names = OPERATORS.iter().map(|(name, _)| *name);
    names.filter(|name| !matches!(*name, "$db" | "$id" | "$ref"))
}

impl Filter {
    /// Parses a filter that may contain everything except `$near`.
    ///
    /// # Errors
    /// MongoDB's errors, mostly 2 BadValue.
    pub fn parse(doc: Doc<'_>, cx: &mut ParseCx<'_>) -> Result<Filter> {
        Filter::parse_with(doc, cx, Allowed::ALL)
    }

    /// Parses a filter that may contain only what `allowed` lists.
    ///
    /// # Errors
    /// As for `parse`, and 224 or 2 for operators that are not allowed.
    pub fn parse_with(doc: Doc<'_>, cx: &mut ParseCx<'_>, allowed: Allowed) -> Result<Filter> {
        let before = meter::held();
        let filter = Parser { cx, allowed, nested: false }.object(doc)?;
        near::check(&filter)?;
        text::check(&filter)?;
        // The planner copies the filter, so a copy must fit as well.
        memory::check_copies(usize::try_from(meter::held() - before).unwrap_or(0))?;
        Ok(filter)
    }

    /// Parses the operand of `$elemMatch`, for [`Filter::matches_element`].
    ///
    /// # Errors
    /// As for `parse`.
    pub(crate) fn parse_elem_match(
        doc: Doc<'_>,
        cx: &mut ParseCx<'_>,
        allowed: Allowed,
    ) -> Result<Filter> {
        let pred = parse_field::elem_match_pred(&mut Parser { cx, allowed, nested: false }, doc)?;
        Ok(Filter::Field { path: FieldPath::root(), pred })
    }
}

impl Parser<'_, '_> {
    /// Parses a whole filter document.
    pub(super) fn object(&mut self, doc: Doc<'_>) -> Result<Filter> {
        let mut all = Vec::new();
        for element in doc {
            memory::check_list(&all)?;
            let (name, value) = (element.name(), element.value());
            if name.starts_with('$') {
                let Ok(at) = OPERATORS.binary_search_by_key(&name, |row| row.0) else {
                    bail!(
                        Code::BAD_VALUE,
                        "unknown top level operator: {name}. If you have a field name that starts \
                         with a '$' symbol, consider using $getField or $setField."
                    );
                };
                all.extend(OPERATORS[at].1(self, value)?);
                continue;
            }
            let path = FieldPath::new(name);
            match value {
                Value::Doc(inner) if is_operators(inner, false) => {
                    parse_field::operators(self, &path, inner, &mut all)?;
                }
                Value::Regex(regex) => {
                    let pattern = Pattern::new(regex.pattern(), regex.options())?;
                    all.push(Filter::Field { path, pred: Pred::Regex(pattern) });
                }
                value => {
                    all.push(parse_field::compare(path, CompareOp::Eq, value, self.cx.collation())?)
                }
            }
        }
        Ok(conjunction(all))
    }

    /// Parses the operand of `$and`, `$or`, `$nor`.
    fn list(&mut self, operand: Value<'_>) -> Result<Vec<Filter>> {
        let Value::Array(list) = operand else {
            bail!(Code::BAD_VALUE, "$and/$or/$nor must be a nonempty array");
        };
        if list.is_empty() {
            bail!(Code::BAD_VALUE, "$and/$or/$nor must be a nonempty array");
        }
        let mut all = Vec::new();
        for part in list.iter() {
            let Value::Doc(doc) = part else {
                bail!(Code::BAD_VALUE, "$or/$and/$nor entries need to be full objects");
            };
            memory::check_list(&all)?;
            all.push(self.object(doc)?);
        }
        Ok(all)
    }

    pub(super) fn expr(&mut self, operand: Value<'_>) -> Result<Option<Filter>> {
        if !self.allowed.expr {
            bail!(Code::QUERY_FEATURE_NOT_ALLOWED, "$expr is not allowed in this context");
        }
        if self.nested {
            bail!(Code::BAD_VALUE, "$expr can only be applied to the top-level document");
        }
        let expr = Expr::parse(operand, self.cx)?;
        let source = ValueBuf::new(operand);
        Ok(Some(Filter::Expr(Box::new(ExprFilter {
            expr: expr.into(),
            source,
            known: Vec::new(),
        }))))
    }

    /// Parses `$sampleRate: r` as `$expr: {$lt: [{$rand: {}}, r]}`.
    fn sample_rate(&mut self, operand: Value<'_>) -> Result<Option<Filter>> {
        let Some(rate) = number::as_f64(operand) else {
            bail!(Code::BAD_VALUE, "argument to $sampleRate must be a numeric type");
        };
        if !(0.0..=1.0).contains(&rate) {
            bail!(Code::BAD_VALUE, "numeric argument to $sampleRate must be in [0, 1]");
        }
        if rate == 0.0 {
            return Ok(Some(Filter::AlwaysFalse));
        }
        if rate == 1.0 {
            return Ok(Some(Filter::AlwaysTrue));
        }
        let expr = DocBuf::build(|out| {
            out.array("$lt", |out| {
                out.doc(|out| out.doc("$rand", |_| ()));
                out.push(rate);
            });
        });
        self.expr(Value::Doc(expr.as_doc()))
    }

    fn script(&mut self, operand: Value<'_>) -> Result<Option<Filter>> {
        if !self.allowed.script {
            bail!(Code::BAD_VALUE, "$where is not allowed in this context");
        }
        if self.nested {
            bail!(Code::BAD_VALUE, "$where can only be applied to the top-level document");
        }
        if matches!(operand, Value::CodeWithScope(_)) {
            bail!(
                Code::Location(4_649_201),
                "$where no longer supports deprecated BSON type CodeWScope"
            );
        }
        let Some(function) = Function::from_value(operand) else {
            bail!(Code::BAD_VALUE, "$where got bad type");
        };
        if function.text().is_empty() {
            bail!(Code::BAD_VALUE, "code for $where cannot be empty");
        }
        if !self.cx.has_scripts() {
            bail!(Code::BAD_VALUE, "no globalScriptEngine in $where parsing");
        }
        let source = ValueBuf::new(operand);
        Ok(Some(Filter::Where(Box::new(WhereFilter { function, source }))))
    }
}

/// Joins conditions: `{a: 1, b: 2}` becomes an `And`, a single condition stays as it is.
pub(super) fn conjunction(mut all: Vec<Filter>) -> Filter {
    match all.len() {
        0 => Filter::AlwaysTrue,
        1 => all.remove(0),
        _ => Filter::And(all),
    }
}

/// Returns true if a document is a list of operators (`{$gt: 1}`) and not a value to compare with.
///
/// References (`$ref` with `$id`) are values. With `incomplete`, one of the names of a reference is enough.
pub(super) fn is_operators(doc: Doc<'_>, incomplete: bool) -> bool {
    let Some(first) = doc.first() else { return false };
    first.name().starts_with('$') && !is_reference(doc, incomplete)
}

fn is_reference(doc: Doc<'_>, incomplete: bool) -> bool {
    let (mut collection, mut id, mut db) = (false, false, false);
    for element in doc {
        match element.name() {
            "$ref" => collection = true,
            "$id" => id = true,
            "$db" => db = true,
            _ => {}
        }
    }
    if incomplete { collection || id || db } else { collection && id }
}

fn constant(name: &str, operand: Value<'_>, filter: Filter) -> Result<Option<Filter>> {
    if operand.is_number() && number::as_i64_exact(operand) == Some(1) {
        return Ok(Some(filter));
    }
    bail!(Code::FAILED_TO_PARSE, "{name} must be an integer value of 1")
}

fn equality(p: &Parser<'_, '_>, name: &str, operand: Value<'_>) -> Result<Filter> {
    match operand {
        Value::Regex(regex) => {
            let pattern = Pattern::new(regex.pattern(), regex.options())?;
            Ok(Filter::Field { path: FieldPath::new(name), pred: Pred::Regex(pattern) })
        }
        value => parse_field::compare(FieldPath::new(name), CompareOp::Eq, value, p.cx.collation()),
    }
}

fn schema(operand: Value<'_>) -> Result<Option<Filter>> {
    match operand {
        Value::Doc(doc) => Ok(Some(Filter::Schema(Box::new(Schema::parse(doc)?)))),
        _ => bail!(Code::TYPE_MISMATCH, "$jsonSchema must be an object"),
    }
}

#[cfg(test)]
mod tests {
    use nagi_testkit::rows;

    #[test]
    fn operators_are_sorted() {
        assert!(super::OPERATORS.is_sorted_by_key(|row| row.0));
    }

    #[test]
    fn rows_have_golden_cases() {
        let files = rows::Files {
            shared: &[("$db", "dbRef"), ("$id", "dbRef"), ("$ref", "dbRef")],
            always_fails: &[
                ("$text", "its plan binds it to an index"),
                ("$where", "there is no JavaScript"),
            ],
            language: true,
            any_type: &["$comment", "$db", "$expr", "$id", "$ref"],
            ..rows::Files::default()
        };
        rows::check("filter", super::OPERATORS.iter().map(|row| row.0), &files);
    }
}
