//! The parser for the operators of one field, such as `{age: {$gt: 18, $type: "int"}}`.

use nagi_bson::{Array, Doc, DocBuf, Type, Value, ValueBuf, number, text::doc_text};
use nagi_error::{Code, Result, bail, err};

use super::parse::{Parser, conjunction, is_operators};
use super::pred::dividend;
use super::{BitTest, Bits, CompareOp, Filter, InList, Pred, TypeSet, near};
use crate::collation::Collation;
use crate::geo::{GeoNear, GeoTest};
use crate::path::FieldPath;
use crate::regex::Pattern;

/// The arguments of a row's function: the path, the operand, and the sibling operators that `$regex` needs.
struct Operand<'o, 'v> {
    path: &'o FieldPath,
    value: Value<'v>,
    regex: Value<'v>,
    options: Value<'v>,
    /// The document that contains the operator and its siblings.
    beside: Doc<'v>,
    collation: Option<&'static Collation>,
}

impl Operand<'_, '_> {
    fn compare(&self, op: CompareOp) -> Result<Filter> {
        compare(self.path.clone(), op, self.value, self.collation)
    }
}

type ParseOperator =
    for<'p, 'c, 'o, 'v> fn(&mut Parser<'p, 'c>, Operand<'o, 'v>) -> Result<Option<Filter>>;

/// The operators of a field, sorted by name.
static OPERATORS: &[(&str, ParseOperator)] = &[
    ("$_internalExprEq", |p, o| internal_expr(p, &o, CompareOp::Eq)),
    ("$_internalExprGt", |p, o| internal_expr(p, &o, CompareOp::Gt)),
    ("$_internalExprGte", |p, o| internal_expr(p, &o, CompareOp::Gte)),
    ("$_internalExprLt", |p, o| internal_expr(p, &o, CompareOp::Lt)),
    ("$_internalExprLte", |p, o| internal_expr(p, &o, CompareOp::Lte)),
    ("$all", all),
    ("$bitsAllClear", |_, o| bits(&o, BitTest::AllClear)),
    ("$bitsAllSet", |_, o| bits(&o, BitTest::AllSet)),
    ("$bitsAnyClear", |_, o| bits(&o, BitTest::AnyClear)),
    ("$bitsAnySet", |_, o| bits(&o, BitTest::AnySet)),
    ("$elemMatch", elem_match),
    ("$eq", |_, o| o.compare(CompareOp::Eq).map(Some)),
    ("$exists", |_, o| Ok(Some(exists(&o)))),
    ("$geoIntersects", |_, o| geo(&o, "$geoIntersects")),
    ("$geoNear", near),
    ("$geoWithin", |_, o| geo(&o, "$geoWithin")),
    ("$gt", |_, o| ordered(&o, CompareOp::Gt)),
    ("$gte", |_, o| ordered(&o, CompareOp::Gte)),
    ("$in", |_, o| Ok(Some(one_of(&o, "$in")?))),
    ("$lt", |_, o| ordered(&o, CompareOp::Lt)),
    ("$lte", |_, o| ordered(&o, CompareOp::Lte)),
    ("$mod", |_, o| modulo(&o)),
    ("$ne", |_, o| not_equal(&o)),
    ("$near", near),
    ("$nearSphere", near),
    ("$nin", |_, o| Ok(Some(negated(one_of(&o, "$nin")?)))),
    ("$not", not),
    ("$options", |_, o| options(&o)),
    ("$regex", |_, o| regex(&o)),
    ("$size", |_, o| size(&o)),
    ("$type", |_, o| kind(&o)),
    ("$within", |_, o| geo(&o, "$within")),
];

/// The names of the operators of a field.
pub(super) fn operator_names() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(name, _)| *name)
}

/// Parses every operator of a field and appends the conditions to `out`.
pub(super) fn operators(
    parser: &mut Parser<'_, '_>,
    path: &FieldPath,
    doc: Doc<'_>,
    out: &mut Vec<Filter>,
) -> Result<()> {
    if GeoNear::is_near(doc) {
        out.push(field(path, near::parse(parser, doc)?));
        return Ok(());
    }
    // Looked up once per document and not per operator, because a hostile document may repeat either name many times.
    let (regex, options) = (doc.get("$regex"), doc.get("$options"));
    for element in doc {
        crate::memory::check_list(out)?;
        let name = element.name();
        let Ok(at) = OPERATORS.binary_search_by_key(&name, |row| row.0) else {
            bail!(Code::BAD_VALUE, "unknown operator: {name}");
        };
        let operand = Operand {
            path,
            value: element.value(),
            regex,
            options,
            beside: doc,
            collation: parser.cx.collation(),
        };
        out.extend(OPERATORS[at].1(parser, operand)?);
    }
    Ok(())
}

/// A comparison with a value. Undefined is rejected here.
pub(super) fn compare(
    path: FieldPath,
    op: CompareOp,
    value: Value<'_>,
    collation: Option<&'static Collation>,
) -> Result<Filter> {
    if value.kind() == Type::Undefined {
        bail!(Code::BAD_VALUE, "cannot compare to undefined");
    }
    Ok(Filter::Field { path, pred: Pred::Compare { op, value: ValueBuf::new(value), collation } })
}

impl Filter {
    /// Returns true if `name` is an operator of a field.
    pub(crate) fn is_field_operator(name: &str) -> bool {
        OPERATORS.binary_search_by_key(&name, |row| row.0).is_ok()
    }
}

fn field(path: &FieldPath, pred: Pred) -> Filter {
    Filter::Field { path: path.clone(), pred }
}

fn negated(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

fn ordered(o: &Operand<'_, '_>, op: CompareOp) -> Result<Option<Filter>> {
    if o.value.kind() == Type::Regex {
        bail!(Code::BAD_VALUE, "Can't have RegEx as arg to predicate over field '{}'.", o.path);
    }
    o.compare(op).map(Some)
}

fn not_equal(o: &Operand<'_, '_>) -> Result<Option<Filter>> {
    if o.value.kind() == Type::Regex {
        bail!(Code::BAD_VALUE, "Can't have regex as arg to $ne.");
    }
    Ok(Some(negated(o.compare(CompareOp::Eq)?)))
}

/// Parses `$_internalExprEq` and its variants, which MongoDB adds beside an `$expr` so that indexes can be used. They
/// compare like expressions, and every document with an array on the path matches.
fn internal_expr(
    parser: &mut Parser<'_, '_>,
    o: &Operand<'_, '_>,
    op: CompareOp,
) -> Result<Option<Filter>> {
    if let Type::Undefined | Type::Array = o.value.kind() {
        bail!(
            Code::BAD_VALUE,
            "$_internalExpr{} cannot be used to compare to type: {}",
            capitalized(&op.name()[1..]),
            o.value.kind().name()
        );
    }
    let path = format!("${}", o.path);
    let expr = DocBuf::build(|out| {
        out.array("$or", |out| {
            out.doc(|out| out.put("$isArray", path.as_str()));
            out.doc(|out| {
                out.array(op.name(), |out| {
                    out.push(path.as_str());
                    out.doc(|out| out.put("$literal", o.value));
                });
            });
        });
    });
    parser.expr(Value::Doc(expr.as_doc()))
}

fn capitalized(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    format!("{}{rest}", first.to_ascii_uppercase())
}

fn exists(o: &Operand<'_, '_>) -> Filter {
    let exists = field(o.path, Pred::Exists);
    if o.value.is_truthy() { exists } else { negated(exists) }
}

fn one_of(o: &Operand<'_, '_>, name: &str) -> Result<Filter> {
    let Value::Array(list) = o.value else { bail!(Code::BAD_VALUE, "{name} needs an array") };
    crate::memory::check_array(list)?;
    let (mut values, mut patterns) = (Vec::new(), Vec::new());
    for value in list.iter() {
        match value {
            Value::Regex(regex) => patterns.push(Pattern::new(regex.pattern(), regex.options())?),
            Value::Doc(doc) if is_operators(doc, false) => {
                bail!(Code::BAD_VALUE, "cannot nest $ under {name}")
            }
            Value::Undefined => {
                bail!(Code::BAD_VALUE, "InMatchExpression equality cannot be undefined")
            }
            value => values.push(ValueBuf::new(value)),
        }
    }
    Ok(field(o.path, Pred::In(InList::collated(values, patterns, o.collation))))
}

fn not(parser: &mut Parser<'_, '_>, o: Operand<'_, '_>) -> Result<Option<Filter>> {
    match o.value {
        Value::Regex(regex) => {
            let pattern = Pattern::new(regex.pattern(), regex.options())?;
            Ok(Some(negated(field(o.path, Pred::Regex(pattern)))))
        }
        Value::Doc(doc) if doc.is_empty() => bail!(Code::BAD_VALUE, "$not cannot be empty"),
        Value::Doc(doc) => {
            let mut inner = Vec::new();
            let nested = std::mem::replace(&mut parser.nested, true);
            operators(parser, o.path, doc, &mut inner)?;
            parser.nested = nested;
            Ok(Some(negated(conjunction(inner))))
        }
        _ => bail!(Code::BAD_VALUE, "$not needs a regex or a document"),
    }
}

fn all(parser: &mut Parser<'_, '_>, o: Operand<'_, '_>) -> Result<Option<Filter>> {
    let Value::Array(list) = o.value else { bail!(Code::BAD_VALUE, "$all needs an array") };
    if list.is_empty() {
        return Ok(Some(Filter::AlwaysFalse));
    }
    let is_elem_match = |value: Value<'_>| {
        value.as_doc().and_then(|doc| doc.first()).is_some_and(|e| e.name() == "$elemMatch")
    };
    let elem_matches = list.iter().next().is_some_and(is_elem_match);
    let mut out = Vec::new();
    for value in list.iter() {
        if elem_matches != is_elem_match(value) && (elem_matches || value.as_doc().is_some()) {
            if elem_matches {
                bail!(Code::BAD_VALUE, "$all/$elemMatch has to be consistent");
            }
            bail!(Code::BAD_VALUE, "no $ expressions in $all");
        }
        match value {
            Value::Doc(doc) if elem_matches => {
                operators(parser, o.path, doc, &mut out)?;
            }
            Value::Regex(regex) => {
                let pattern = Pattern::new(regex.pattern(), regex.options())?;
                out.push(field(o.path, Pred::Regex(pattern)));
            }
            Value::Doc(doc) if is_operators(doc, false) => {
                bail!(Code::BAD_VALUE, "no $ expressions in $all")
            }
            value => out.push(compare(o.path.clone(), CompareOp::Eq, value, o.collation)?),
        }
    }
    Ok(Some(conjunction(out)))
}

fn elem_match(parser: &mut Parser<'_, '_>, o: Operand<'_, '_>) -> Result<Option<Filter>> {
    let Value::Doc(doc) = o.value else { bail!(Code::BAD_VALUE, "$elemMatch needs an Object") };
    let pred = elem_match_pred(parser, doc)?;
    Ok(Some(field(o.path, pred)))
}

/// The operand of `$elemMatch`. `{$gt: 1}` tests elements of any type, `{a: 1}` only elements that are documents.
pub(super) fn elem_match_pred(parser: &mut Parser<'_, '_>, doc: Doc<'_>) -> Result<Pred> {
    let logical = doc
        .first()
        .is_some_and(|e| matches!(e.name(), "$and" | "$nor" | "$or" | "$where" | "$expr"));
    let nested = std::mem::replace(&mut parser.nested, true);
    let pred = if is_operators(doc, true) && !logical {
        let mut inner = Vec::new();
        operators(parser, &FieldPath::root(), doc, &mut inner)?;
        Pred::ElemMatchValue(Box::new(conjunction(inner)))
    } else {
        Pred::ElemMatchObject(Box::new(parser.object(doc)?))
    };
    parser.nested = nested;
    Ok(pred)
}

fn kind(o: &Operand<'_, '_>) -> Result<Option<Filter>> {
    Ok(Some(field(o.path, Pred::Type(TypeSet::parse(o.path.as_str(), o.value)?))))
}

fn bits(o: &Operand<'_, '_>, test: BitTest) -> Result<Option<Filter>> {
    Ok(Some(field(o.path, Pred::Bits(Bits::parse(o.path.as_str(), test, o.value)?))))
}

fn size(o: &Operand<'_, '_>) -> Result<Option<Filter>> {
    let count = number::non_negative_integer(o.value).map_err(|reason| {
        let reason = reason.describe("$size", o.value);
        err!(Code::BAD_VALUE, "Failed to parse $size. {reason}")
    })?;
    if i32::try_from(count).is_err() {
        bail!(
            Code::BAD_VALUE,
            "Failed to parse $size. Cannot represent as a 32-bit integer: $size: {}",
            o.value
        );
    }
    Ok(Some(field(o.path, Pred::Size(count))))
}

fn modulo(o: &Operand<'_, '_>) -> Result<Option<Filter>> {
    let Value::Array(list) = o.value else {
        bail!(Code::BAD_VALUE, "malformed mod, needs to be an array");
    };
    let (divisor, remainder) = mod_operands(list)?;
    Ok(Some(field(o.path, Pred::Mod { divisor, remainder })))
}

fn mod_operands(list: Array<'_>) -> Result<(i64, i64)> {
    let mut values = list.iter();
    let (Some(divisor), Some(remainder)) = (values.next(), values.next()) else {
        bail!(Code::BAD_VALUE, "malformed mod, not enough elements");
    };
    if values.next().is_some() {
        bail!(Code::BAD_VALUE, "malformed mod, too many elements");
    }
    if !divisor.is_number() {
        bail!(Code::BAD_VALUE, "malformed mod, divisor not a number");
    }
    if !remainder.is_number() {
        bail!(Code::BAD_VALUE, "malformed mod, remainder not a number");
    }
    let Some(divisor) = dividend(divisor) else {
        bail!(Code::BAD_VALUE, "malformed mod, divisor value is invalid :: caused by :: {divisor}");
    };
    let Some(remainder) = dividend(remainder) else {
        bail!(
            Code::BAD_VALUE,
            "malformed mod, remainder value is invalid :: caused by :: {remainder}"
        );
    };
    if divisor == 0 {
        bail!(Code::BAD_VALUE, "divisor cannot be 0");
    }
    Ok((divisor, remainder))
}

/// Parses `$regex` together with its sibling `$options`.
fn regex(o: &Operand<'_, '_>) -> Result<Option<Filter>> {
    let (pattern, mut options) = match o.value {
        Value::String(pattern) => (pattern, ""),
        Value::Regex(regex) => (regex.pattern(), regex.options()),
        _ => bail!(Code::BAD_VALUE, "$regex has to be a string"),
    };
    match o.options {
        Value::Missing => {}
        Value::String(given) => {
            if !options.is_empty() {
                bail!(Code::Location(51075), "options set in both $regex and $options");
            }
            options = given;
        }
        _ => bail!(Code::BAD_VALUE, "$options has to be a string"),
    }
    Ok(Some(field(o.path, Pred::Regex(Pattern::new(pattern, options)?))))
}

/// Checks `$options`; `$regex` reads its value.
fn options(o: &Operand<'_, '_>) -> Result<Option<Filter>> {
    if o.regex.is_missing() {
        bail!(Code::BAD_VALUE, "$options needs a $regex");
    }
    if !matches!(o.value, Value::String(_)) {
        bail!(Code::BAD_VALUE, "$options has to be a string");
    }
    Ok(None)
}

fn geo(o: &Operand<'_, '_>, name: &str) -> Result<Option<Filter>> {
    Ok(Some(field(o.path, Pred::Geo(GeoTest::parse(name, o.value)?))))
}

/// Rejects `$near` and its variants if they are not first. If they are, `operators` parses them with their siblings.
fn near(_: &mut Parser<'_, '_>, o: Operand<'_, '_>) -> Result<Option<Filter>> {
    bail!(Code::BAD_VALUE, "near must be first in: {}", doc_text(o.beside))
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
            shared: &[
                ("$geoNear", "near"),
                ("$nearSphere", "near"),
                ("$options", "regex"),
                ("$within", "geoWithin"),
            ],
            never_fails: &[("$exists", "takes any value as a truth")],
            always_fails: &[
                ("$geoNear", "there are no geometry indexes"),
                ("$near", "there are no geometry indexes"),
                ("$nearSphere", "there are no geometry indexes"),
            ],
            language: true,
            any_type: &["$comment"],
        };
        rows::check("filter", super::OPERATORS.iter().map(|row| row.0), &files);
    }
}
