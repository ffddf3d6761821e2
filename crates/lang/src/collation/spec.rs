//! The specification of a collation: the client's document with all defaults filled in.

use nagi_bson::{Doc, DocWriter, Type, Value, number, text::doc_text};
use nagi_error::{Code, Error, Result, bail, err};

use super::locales;

/// The version of the rules in MongoDB's notation; other versions are rejected.
const VERSION: &str = "57.1";

/// The order of two strings that differ only in case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CaseFirst {
    Off,
    Upper,
    Lower,
}

/// A complete specification. Equal specifications define the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spec {
    pub locale: &'static str,
    pub case_level: bool,
    pub case_first: CaseFirst,
    /// 1 to 5: base letters, accents, case, punctuation, all differences.
    pub strength: u8,
    /// True if runs of digits compare as numbers.
    pub numeric_ordering: bool,
    /// True if white space and punctuation are compared only at strength 4.
    pub shifted: bool,
    /// True if `shifted` applies only to white space.
    pub only_space: bool,
    /// True if text is normalized first. The library always does it; the value is only listed.
    pub normalization: bool,
    /// True if accents compare from the end of the string, as in Canadian French.
    pub backwards: bool,
}

const FIELDS: &[&str] = &[
    "locale",
    "caseLevel",
    "caseFirst",
    "strength",
    "numericOrdering",
    "alternate",
    "maxVariable",
    "normalization",
    "backwards",
    "version",
];

impl Spec {
    /// Parses a specification; none for `{locale: "simple"}`.
    ///
    /// # Errors
    /// 40414 without `locale`, 40415 for an unknown field, 14 for a wrong type, 2 for an unknown locale or a value
    /// outside of an enumeration, 9 for other fields beside `simple`, 161 for another version.
    pub(super) fn parse(spec: Doc<'_>) -> Result<Option<Spec>> {
        let locale = match spec.get("locale") {
            Value::String(locale) => locale,
            Value::Missing => bail!(
                Code::IDL_FAILED_TO_PARSE,
                "BSON field 'collation.locale' is missing but a required field"
            ),
            other => return Err(wrong_type("locale", other, "string")),
        };
        for element in spec {
            if !FIELDS.contains(&element.name()) {
                bail!(
                    Code::Location(40415),
                    "BSON field 'collation.{}' is an unknown field.",
                    element.name()
                );
            }
        }
        if locale == "simple" {
            if spec.count() > 1 {
                bail!(
                    Code::FAILED_TO_PARSE,
                    "If locale=simple, no other fields should be present in: {}",
                    doc_text(spec)
                );
            }
            return Ok(None);
        }
        let found = known(locale, spec)?;
        let defaults = locales::defaults(found);
        let first = if defaults.upper_first { "upper" } else { "off" };
        let alternate = if defaults.shifted { "shifted" } else { "non-ignorable" };
        let parsed = Spec {
            locale: found,
            case_level: flag(spec, "caseLevel", false)?,
            case_first: match one_of(spec, "caseFirst", first, &["upper", "lower", "off"])? {
                "upper" => CaseFirst::Upper,
                "lower" => CaseFirst::Lower,
                _ => CaseFirst::Off,
            },
            strength: strength(spec)?,
            numeric_ordering: flag(spec, "numericOrdering", false)?,
            shifted: one_of(spec, "alternate", alternate, &["non-ignorable", "shifted"])?
                == "shifted",
            only_space: one_of(spec, "maxVariable", "punct", &["punct", "space"])? == "space",
            normalization: flag(spec, "normalization", defaults.normalization)?,
            backwards: flag(spec, "backwards", defaults.backwards)?,
        };
        check_version(spec)?;
        Ok(Some(parsed))
    }

    /// Writes all fields, as they are listed and stored.
    pub(super) fn write(&self, out: &mut DocWriter<'_>) {
        out.put("locale", self.locale);
        out.put("caseLevel", self.case_level);
        let first = match self.case_first {
            CaseFirst::Off => "off",
            CaseFirst::Upper => "upper",
            CaseFirst::Lower => "lower",
        };
        out.put("caseFirst", first);
        out.put("strength", i32::from(self.strength));
        out.put("numericOrdering", self.numeric_ordering);
        out.put("alternate", if self.shifted { "shifted" } else { "non-ignorable" });
        out.put("maxVariable", if self.only_space { "space" } else { "punct" });
        out.put("normalization", self.normalization);
        out.put("backwards", self.backwards);
        out.put("version", VERSION);
    }
}

/// The name of a locale in the table.
fn known(locale: &str, spec: Doc<'_>) -> Result<&'static str> {
    if locale.is_empty() {
        bail!(Code::BAD_VALUE, "Field 'locale' cannot be the empty string in: {}", doc_text(spec));
    }
    if locale.contains('\0') {
        bail!(
            Code::BAD_VALUE,
            "Field 'locale' cannot contain null byte. Collation spec: {}",
            doc_text(spec)
        );
    }
    if let Some(found) = locales::find(locale) {
        return Ok(found);
    }
    let hint = match locales::nearest(locale) {
        Some(nearest) => format!(". Did you mean '{nearest}'?"),
        None => String::new(),
    };
    bail!(Code::BAD_VALUE, "Field 'locale' is invalid in: {}{hint}", doc_text(spec))
}

fn check_version(spec: Doc<'_>) -> Result<()> {
    match spec.get("version") {
        Value::Missing | Value::String(VERSION) => Ok(()),
        Value::String(other) => bail!(
            Code::INCOMPATIBLE_COLLATION_VERSION,
            "Requested collation version {other} but the only available collator version was \
             {VERSION}. Requested collation spec: {}",
            doc_text(spec)
        ),
        other => Err(wrong_type("version", other, "string")),
    }
}

fn flag(spec: Doc<'_>, name: &str, default: bool) -> Result<bool> {
    match spec.get(name) {
        Value::Missing => Ok(default),
        Value::Bool(value) => Ok(value),
        other => Err(wrong_type(name, other, "bool")),
    }
}

fn one_of<'a>(spec: Doc<'a>, name: &str, default: &'a str, allowed: &[&str]) -> Result<&'a str> {
    match spec.get(name) {
        Value::Missing => Ok(default),
        Value::String(value) if allowed.contains(&value) => Ok(value),
        Value::String(value) => bail!(
            Code::BAD_VALUE,
            "Enumeration value '{value}' for field 'collation.{name}' is not a valid value."
        ),
        other => Err(wrong_type(name, other, "string")),
    }
}

fn strength(spec: Doc<'_>) -> Result<u8> {
    let value = spec.get("strength");
    if value.is_missing() {
        return Ok(3);
    }
    if !value.is_number() {
        return Err(err!(
            Code::TYPE_MISMATCH,
            "BSON field 'collation.strength' is the wrong type '{}', expected types '[long, int, \
             decimal, double']",
            value.kind().name()
        ));
    }
    match number::truncate_to_i64(value) {
        Some(strength @ 1..=5) => Ok(strength as u8),
        _ => bail!(
            Code::BAD_VALUE,
            "Enumeration value '{value}' for field 'collation.strength' is not a valid value."
        ),
    }
}

fn wrong_type(field: &str, value: Value<'_>, expected: &str) -> Error {
    debug_assert_ne!(value.kind(), Type::Missing);
    err!(
        Code::TYPE_MISMATCH,
        "BSON field 'collation.{field}' is the wrong type '{}', expected type '{expected}'",
        value.kind().name()
    )
}
