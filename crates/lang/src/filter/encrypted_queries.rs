//! Checks of `bsonType` and `queries` of an encrypted field: which types can be found by which kind of query, and the
//! parameters of ranges and texts. Clients refuse the same, but not all of them.

use std::cmp::Ordering;

use nagi_bson::{Doc, Type, Value, compare, number};
use nagi_error::{Code, Result, bail};

use super::TypeSet;

/// A kind of query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Equality,
    Range,
    /// Its values have a format that is not supported.
    RangePreview,
    Prefix,
    Suffix,
    Substring,
}

/// The values of `queryType`.
const KINDS: [(&str, Kind); 9] = [
    ("equality", Kind::Equality),
    ("range", Kind::Range),
    ("rangePreview", Kind::RangePreview),
    ("prefix", Kind::Prefix),
    ("prefixPreview", Kind::Prefix),
    ("suffix", Kind::Suffix),
    ("suffixPreview", Kind::Suffix),
    ("substring", Kind::Substring),
    ("substringPreview", Kind::Substring),
];

/// Parameters of ranges, and the codes with which an equality index refuses them.
const OF_RANGES: [(&str, i32); 5] = [
    ("sparsity", 6_775_205),
    ("min", 6_775_206),
    ("max", 6_775_207),
    ("trimFactor", 8_574_104),
    ("precision", 6_967_102),
];
/// Parameters of texts.
const OF_TEXTS: [&str; 5] = [
    "strMaxLength",
    "strMinQueryLength",
    "strMaxQueryLength",
    "caseSensitive",
    "diacriticSensitive",
];
const SPARSITY_MAX: i64 = 8;
/// Digits that a double and a decimal can have.
const PRECISION_MAX: (i64, i64) = (15, 34);

/// Checks an element of `fields`.
///
/// # Errors
/// 6412601 for queries without a type; 6338404 for several queries; 6338405, 6338406, 6775201 for a type that cannot
/// be stored or found in that way; 2 for an unknown query and for parameters of texts; 51024 and others for parameters
/// out of range; 14 for those of a wrong type.
pub(super) fn check(field: Doc<'_>) -> Result<()> {
    let types = field.get("bsonType").as_str().and_then(TypeSet::by_name);
    let kind = types.and_then(|types| {
        let mut all = types.iter();
        all.next().filter(|_| all.next().is_none())
    });
    let queries: Vec<Value<'_>> = match field.get("queries") {
        Value::Missing => return check_unindexed(kind),
        Value::Array(list) => list.iter().collect(),
        other => vec![other],
    };
    let Some(kind) = kind else {
        bail!(Code::Location(6_412_601), "Bson type needs to be specified for an indexed field");
    };
    let mut kinds = Vec::new();
    for query in queries {
        let Value::Doc(query) = query else {
            bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'create.encryptedFields.fields.queries' is the wrong type '{}', expected \
                 types '[array, object]'",
                query.kind().name()
            );
        };
        kinds.push(check_query(kind, query)?);
    }
    match kinds[..] {
        [_] | [Kind::Prefix, Kind::Suffix] | [Kind::Suffix, Kind::Prefix] => Ok(()),
        _ => {
            bail!(Code::Location(6_338_404), "Exactly one query type should be specified per field")
        }
    }
}

/// A value of which there is only one needs no encryption.
fn is_single(kind: Type) -> bool {
    matches!(kind, Type::Null | Type::Undefined | Type::MinKey | Type::MaxKey)
}

fn check_unindexed(kind: Option<Type>) -> Result<()> {
    match kind {
        Some(kind) if is_single(kind) => bail!(
            Code::Location(6_338_406),
            "Type '{}' is not a supported unindexed type",
            kind.name()
        ),
        _ => Ok(()),
    }
}

fn check_query(kind: Type, query: Doc<'_>) -> Result<Kind> {
    let name = match query.get("queryType") {
        Value::String(name) => name,
        Value::Missing => bail!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field 'create.encryptedFields.fields.queries.queryType' is missing but a required \
             field"
        ),
        other => return Err(wrong_type("queryType", other, "string")),
    };
    let Some((_, query_kind)) = KINDS.iter().find(|(own, _)| *own == name) else {
        bail!(
            Code::BAD_VALUE,
            "Enumeration value '{name}' for field \
             'create.encryptedFields.fields.queries.queryType' is not a valid value."
        );
    };
    at_least(query, "contention", 0)?;
    match query_kind {
        Kind::Equality => check_equality(kind, query)?,
        Kind::Range => check_range(kind, query)?,
        Kind::RangePreview => bail!(
            Code::BAD_VALUE,
            "The query type 'rangePreview' is no longer supported; use 'range'"
        ),
        Kind::Prefix | Kind::Suffix | Kind::Substring => {
            check_text(kind, query, *query_kind == Kind::Substring)?;
        }
    }
    Ok(*query_kind)
}

fn check_equality(kind: Type, query: Doc<'_>) -> Result<()> {
    let has_many_forms = matches!(
        kind,
        Type::Double | Type::Decimal | Type::Object | Type::Array | Type::JavaScriptWithScope
    );
    if is_single(kind) || has_many_forms {
        bail!(
            Code::Location(6_338_405),
            "Type '{}' is not a supported equality indexed type",
            kind.name()
        );
    }
    match OF_RANGES.iter().find(|(name, _)| query.element(name).is_some()) {
        Some((name, code)) => bail!(
            Code::Location(*code),
            "The field '{name}' is not allowed for equality index but is present"
        ),
        None => refuse_text_parameters(query, "equality"),
    }
}

fn refuse_text_parameters(query: Doc<'_>, of: &str) -> Result<()> {
    match OF_TEXTS.iter().find(|name| query.element(name).is_some()) {
        Some(name) => bail!(
            Code::BAD_VALUE,
            "The field '{name}' is not allowed for {of} index but is present"
        ),
        None => Ok(()),
    }
}

fn check_range(kind: Type, query: Doc<'_>) -> Result<()> {
    let is_float = matches!(kind, Type::Double | Type::Decimal);
    if !is_float && !matches!(kind, Type::Int | Type::Long | Type::Date) {
        bail!(
            Code::Location(6_775_201),
            "Type '{}' is not a supported range indexed type",
            kind.name()
        );
    }
    refuse_text_parameters(query, "range")?;
    if integer(query, "sparsity")?.is_some_and(|n| !(1..=SPARSITY_MAX).contains(&n)) {
        bail!(
            Code::Location(6_775_214),
            "The field 'sparsity' must be between 1 and {SPARSITY_MAX}"
        );
    }
    at_least(query, "trimFactor", 0)?;
    at_least(query, "precision", 0)?;
    let (min, max, precision) = (query.get("min"), query.get("max"), query.get("precision"));
    let given = [min, max, precision].iter().filter(|value| !value.is_missing()).count();
    if is_float && !matches!(given, 0 | 3) {
        bail!(
            Code::Location(6_967_100),
            "Precision, min, and max must all be specified together for floating point fields"
        );
    }
    if !is_float && !precision.is_missing() {
        bail!(Code::BAD_VALUE, "The field 'precision' is only allowed for floating point fields");
    }
    for (name, end) in [("min", min), ("max", max)] {
        if !end.is_missing() && !fits(kind, end) {
            bail!(
                Code::Location(7_018_200),
                "The field '{name}' of a range index has the type '{}', but its bsonType is '{}'",
                end.kind().name(),
                kind.name()
            );
        }
    }
    if given > 1
        && !min.is_missing()
        && !max.is_missing()
        && compare::values(min, max) != Ordering::Less
    {
        bail!(Code::Location(6_720_005), "Minimum value must be less than maximum value");
    }
    let bits = bits(kind, (min, max), integer(query, "precision")?)?;
    if integer(query, "trimFactor")?.is_some_and(|n| n >= i64::from(bits)) {
        bail!(
            Code::Location(8_574_000),
            "The field 'trimFactor' must be less than the total number of bits ({bits}) used to \
             represent any element in the domain"
        );
    }
    Ok(())
}

/// Whether an end of a range is of the type of its field; integers of either size are, if they are in its range.
fn fits(kind: Type, end: Value<'_>) -> bool {
    match (kind, end) {
        (Type::Int, Value::Int64(n)) => i32::try_from(n).is_ok(),
        (Type::Long, Value::Int32(_)) => true,
        (_, end) => end.kind() == kind && !number::is_nan(end),
    }
}

/// The bits that a value between the ends needs.
///
/// # Errors
/// 2 for a precision that the type cannot have.
fn bits(kind: Type, (min, max): (Value<'_>, Value<'_>), precision: Option<i64>) -> Result<u32> {
    let whole = |value: Value<'_>, default: i64| match value {
        Value::Int32(n) => i64::from(n),
        Value::Int64(n) | Value::DateTime(n) => n,
        _ => default,
    };
    let (least, greatest) = match kind {
        Type::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    let (full, digits) = match kind {
        Type::Double => (64, PRECISION_MAX.0),
        Type::Decimal => (128, PRECISION_MAX.1),
        _ => {
            let distance = whole(max, greatest).abs_diff(whole(min, least));
            return Ok((u64::BITS - distance.leading_zeros()).max(1));
        }
    };
    let Some(precision) = precision else { return Ok(full) };
    if precision > digits {
        bail!(Code::BAD_VALUE, "The field 'precision' must be at most {digits}");
    }
    let ends = (number::as_f64(min).unwrap_or(0.0), number::as_f64(max).unwrap_or(0.0));
    let count = (ends.1 - ends.0) * 10_f64.powi(precision as i32) + 1.0;
    Ok((count.log2().ceil().max(1.0) as u32).min(full))
}

fn check_text(kind: Type, query: Doc<'_>, is_substring: bool) -> Result<()> {
    if kind != Type::String {
        bail!(Code::BAD_VALUE, "Type '{}' is not a supported text indexed type", kind.name());
    }
    if let Some((name, _)) = OF_RANGES.iter().find(|(name, _)| query.element(name).is_some()) {
        bail!(Code::BAD_VALUE, "The field '{name}' is not allowed for text index but is present");
    }
    let required = |name: &str, value: Option<i64>| match value {
        Some(n) if n > 0 => Ok(n),
        Some(_) => bail!(Code::BAD_VALUE, "The field '{name}' must be greater than zero"),
        None => {
            bail!(Code::BAD_VALUE, "The field '{name}' is missing but required for a text index")
        }
    };
    let length = |name: &str| required(name, integer(query, name)?);
    let (least, greatest) = (length("strMinQueryLength")?, length("strMaxQueryLength")?);
    if least > greatest {
        bail!(
            Code::BAD_VALUE,
            "The field 'strMinQueryLength' must not be greater than 'strMaxQueryLength'"
        );
    }
    match (is_substring, query.element("strMaxLength")) {
        (false, Some(_)) => {
            bail!(Code::BAD_VALUE, "The field 'strMaxLength' is only allowed for substring queries")
        }
        (true, _) if length("strMaxLength")? < greatest => bail!(
            Code::BAD_VALUE,
            "The field 'strMaxQueryLength' must not be greater than 'strMaxLength'"
        ),
        _ => {}
    }
    for name in ["caseSensitive", "diacriticSensitive"] {
        match query.get(name) {
            Value::Bool(_) => {}
            Value::Missing => bail!(
                Code::BAD_VALUE,
                "The field '{name}' is missing but required for a text index"
            ),
            other => return Err(wrong_type(name, other, "bool")),
        }
    }
    Ok(())
}

/// A parameter that is a whole number.
fn integer(query: Doc<'_>, name: &str) -> Result<Option<i64>> {
    match query.get(name) {
        Value::Missing => Ok(None),
        value => match number::as_i64_exact(value) {
            Some(n) => Ok(Some(n)),
            None => Err(wrong_type(name, value, "long")),
        },
    }
}

fn at_least(query: Doc<'_>, name: &str, least: i64) -> Result<()> {
    match integer(query, name)? {
        Some(n) if n < least => bail!(
            Code::Location(51024),
            "BSON field '{name}' value must be >= {least}, actual value '{n}'"
        ),
        _ => Ok(()),
    }
}

fn wrong_type(name: &str, found: Value<'_>, expected: &str) -> nagi_error::Error {
    super::encrypted_fields::wrong_type(
        &format!("encryptedFields.fields.queries.{name}"),
        found,
        expected,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::json;

    fn code(field: &str) -> i32 {
        let field = json::parse(field).unwrap();
        check(field.as_doc()).map_or_else(|error| error.code().0, |()| 0)
    }

    #[test]
    fn types_fit_their_queries() {
        for (kind, equality, range, unindexed) in [
            ("string", 0, 6_775_201, 0),
            ("int", 0, 0, 0),
            ("date", 0, 0, 0),
            ("bool", 0, 6_775_201, 0),
            ("double", 6_338_405, 0, 0),
            ("decimal", 6_338_405, 0, 0),
            ("object", 6_338_405, 6_775_201, 0),
            ("array", 6_338_405, 6_775_201, 0),
            ("null", 6_338_405, 6_775_201, 6_338_406),
            ("minKey", 6_338_405, 6_775_201, 6_338_406),
        ] {
            let with = |queries: &str| code(&format!("{{bsonType: '{kind}'{queries}}}"));
            assert_eq!(with(", queries: {queryType: 'equality'}"), equality, "{kind}");
            assert_eq!(with(", queries: [{queryType: 'range'}]"), range, "{kind}");
            assert_eq!(with(""), unindexed, "{kind}");
        }
        assert_eq!(code("{queries: {queryType: 'equality'}}"), 6_412_601);
        assert_eq!(code("{}"), 0);
        assert_eq!(code("{bsonType: 'number', queries: {queryType: 'equality'}}"), 6_412_601);
    }

    #[test]
    fn parameters_of_queries_are_checked() {
        for (kind, query, expected) in [
            ("int", "queryType: 'equality', contention: -1", 51024),
            ("int", "queryType: 'equality', contention: 'a'", 14),
            ("int", "queryType: 'equality', min: 1", 6_775_206),
            ("int", "queryType: 'other'", 2),
            ("int", "queryType: 5", 14),
            ("int", "", 40414),
            ("int", "queryType: 'rangePreview'", 2),
            ("int", "queryType: 'range', min: 0, max: 1000, trimFactor: 9, sparsity: 1", 0),
            ("int", "queryType: 'range', min: 0, max: 1000, trimFactor: 10", 8_574_000),
            ("int", "queryType: 'range', trimFactor: 31", 0),
            ("int", "queryType: 'range', trimFactor: 32", 8_574_000),
            ("int", "queryType: 'range', trimFactor: -1", 51024),
            ("int", "queryType: 'range', sparsity: 0", 6_775_214),
            ("int", "queryType: 'range', sparsity: 9", 6_775_214),
            ("int", "queryType: 'range', min: 5, max: 3", 6_720_005),
            ("int", "queryType: 'range', min: 5, max: 5", 6_720_005),
            ("int", "queryType: 'range', min: 'a'", 7_018_200),
            ("int", "queryType: 'range', min: {$numberLong: '3000000000'}", 7_018_200),
            ("int", "queryType: 'range', min: 1, precision: 2", 2),
            ("long", "queryType: 'range', min: 1, max: {$numberLong: '5'}", 0),
            ("double", "queryType: 'range', min: 1.5", 6_967_100),
            ("double", "queryType: 'range', min: 1.5, max: 9.5, precision: 2, trimFactor: 9", 0),
            (
                "double",
                "queryType: 'range', min: 1.5, max: 9.5, precision: 2, trimFactor: 10",
                8_574_000,
            ),
            ("double", "queryType: 'range', min: 1.5, max: 9.5, precision: 99", 2),
            ("int", "queryType: 'range', strMaxLength: 1", 2),
        ] {
            let field = format!("{{bsonType: '{kind}', queries: {{{query}}}}}");
            assert_eq!(code(&field), expected, "{field}");
        }
    }

    #[test]
    fn texts_have_lengths() {
        const FLAGS: &str = "caseSensitive: true, diacriticSensitive: false";
        for (queries, expected) in [
            ("{queryType: 'prefixPreview', strMinQueryLength: 2, strMaxQueryLength: 10, FLAGS}", 0),
            ("{queryType: 'suffix', strMinQueryLength: 12, strMaxQueryLength: 10, FLAGS}", 2),
            ("{queryType: 'suffix', strMinQueryLength: 0, strMaxQueryLength: 10, FLAGS}", 2),
            ("{queryType: 'suffix', strMinQueryLength: 1, FLAGS}", 2),
            ("{queryType: 'suffix', strMinQueryLength: 1, strMaxQueryLength: 10}", 2),
            ("{queryType: 'substring', strMinQueryLength: 1, strMaxQueryLength: 9, FLAGS}", 2),
            (
                "{queryType: 'substring', strMinQueryLength: 1, strMaxQueryLength: 9, strMaxLength: 9, \
                 FLAGS}",
                0,
            ),
            (
                "{queryType: 'substring', strMinQueryLength: 1, strMaxQueryLength: 9, strMaxLength: 8, \
                 FLAGS}",
                2,
            ),
            (
                "[{queryType: 'prefix', strMinQueryLength: 2, strMaxQueryLength: 10, FLAGS}, \
                 {queryType: 'suffix', strMinQueryLength: 2, strMaxQueryLength: 10, FLAGS}]",
                0,
            ),
            ("[{queryType: 'equality'}, {queryType: 'equality'}]", 6_338_404),
            ("[]", 6_338_404),
        ] {
            let queries = queries.replace("FLAGS", FLAGS);
            assert_eq!(code(&format!("{{bsonType: 'string', queries: {queries}}}")), expected);
        }
        let int = format!(
            "{{bsonType: 'int', queries: {{queryType: 'prefix', strMinQueryLength: 1, \
             strMaxQueryLength: 2, {FLAGS}}}}}"
        );
        assert_eq!(code(&int), 2);
    }
}
