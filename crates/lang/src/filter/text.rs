//! `$text`: a search in a text index. The planner binds it to an index with [`TextFilter::bind`]; without one,
//! matching fails.

use std::sync::{Arc, OnceLock};

use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};

use super::{Filter, parse::Parser};
use crate::text::{Bound, Language, Search, Sensitivity, TextSpec};

/// A parsed `$text`.
#[derive(Debug)]
pub struct TextFilter {
    search: Box<str>,
    language: Option<Box<str>>,
    sensitivity: Sensitivity,
    bound: OnceLock<Bound>,
}

fn expect_bool(doc: Doc<'_>, name: &str) -> Result<Option<bool>> {
    match doc.get(name) {
        Value::Missing => Ok(None),
        Value::Bool(value) => Ok(Some(value)),
        other => wrong_type(name, "bool", other),
    }
}

fn expect_text<'d>(doc: Doc<'d>, name: &str) -> Result<Option<&'d str>> {
    match doc.get(name) {
        Value::Missing => Ok(None),
        Value::String(value) => Ok(Some(value)),
        other => wrong_type(name, "string", other),
    }
}

fn wrong_type<T>(name: &str, wanted: &str, found: Value<'_>) -> Result<T> {
    bail!(
        Code::TYPE_MISMATCH,
        "\"{name}\" had the wrong type. Expected {wanted}, found {}",
        found.kind().name()
    )
}

/// Parses the operand of `$text`.
pub(super) fn parse(parser: &Parser<'_, '_>, operand: Value<'_>) -> Result<Option<Filter>> {
    if !parser.allowed.special {
        bail!(Code::BAD_VALUE, "$text is not allowed in this context");
    }
    if parser.nested {
        bail!(Code::BAD_VALUE, "$text can only be applied to the top-level document");
    }
    let Value::Doc(doc) = operand else {
        bail!(Code::BAD_VALUE, "$text expects an object");
    };
    let Some(search) = expect_text(doc, "$search")? else {
        bail!(Code::NO_SUCH_KEY, "Missing expected field \"$search\"");
    };
    let language = expect_text(doc, "$language")?;
    let case = expect_bool(doc, "$caseSensitive")?;
    let diacritic = expect_bool(doc, "$diacriticSensitive")?;
    let known = 1
        + usize::from(language.is_some())
        + usize::from(case.is_some())
        + usize::from(diacritic.is_some());
    if doc.count() != known {
        bail!(Code::BAD_VALUE, "extra fields in $text");
    }
    Ok(Some(Filter::Text(Arc::new(TextFilter {
        search: search.into(),
        language: language.map(Into::into),
        sensitivity: Sensitivity {
            case: case.unwrap_or(false),
            diacritic: diacritic.unwrap_or(false),
        },
        bound: OnceLock::new(),
    }))))
}

/// Checks that there is at most one `$text`, no `$near` beside it, and none below `$nor` or `$not`.
pub(super) fn check(filter: &Filter) -> Result<()> {
    let (mut all, mut negated) = (0, 0);
    count(filter, false, &mut all, &mut negated);
    if negated > 0 {
        bail!(Code::BAD_VALUE, "text expression not allowed in nor");
    }
    if all > 1 {
        bail!(Code::BAD_VALUE, "Too many text expressions");
    }
    if all == 1 && filter.near().is_some() {
        bail!(Code::BAD_VALUE, "text and geoNear not allowed in same query");
    }
    Ok(())
}

fn count(filter: &Filter, inside_nor: bool, all: &mut u32, negated: &mut u32) {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => {
            parts.iter().for_each(|part| count(part, inside_nor, all, negated));
        }
        Filter::Nor(parts) => parts.iter().for_each(|part| count(part, true, all, negated)),
        Filter::Not(inner) => count(inner, true, all, negated),
        Filter::Text(_) => {
            *all += 1;
            *negated += u32::from(inside_nor);
        }
        _ => {}
    }
}

impl TextFilter {
    /// Parses the search terms by the rules of a text index, and remembers the result.
    ///
    /// # Errors
    /// 2 for a language that the index does not support.
    pub fn bind(&self, spec: &Arc<TextSpec>) -> Result<&Bound> {
        if let Some(bound) = self.bound.get()
            && bound.spec == *spec
        {
            return Ok(bound);
        }
        let language = match &self.language {
            None => spec.default_language,
            Some(name) => match Language::of_version(name, spec.version) {
                Some(language) => language,
                None => bail!(
                    Code::BAD_VALUE,
                    "unsupported language: \"{name}\" for text index version {}",
                    spec.version
                ),
            },
        };
        let search = Search::parse(&self.search, language, self.sensitivity, spec.version)?;
        Ok(self.bound.get_or_init(|| Bound { spec: Arc::clone(spec), search }))
    }

    /// The bound search, if [`TextFilter::bind`] was called.
    pub fn bound(&self) -> Option<&Bound> {
        self.bound.get()
    }

    pub(super) fn matches(&self, doc: Doc<'_>) -> Result<bool> {
        match self.bound.get() {
            Some(bound) => bound.matches(doc),
            None => bail!(Code::INDEX_NOT_FOUND, "text index required for $text query"),
        }
    }

    /// Writes the operand for explain.
    pub(super) fn write(&self, out: &mut DocWriter<'_>) {
        out.put("$search", &*self.search);
        let bound = self.bound.get().map(|bound| bound.search.language.name());
        if let Some(language) = bound.or(self.language.as_deref()) {
            out.put("$language", language);
        }
        out.put("$caseSensitive", self.sensitivity.case);
        out.put("$diacriticSensitive", self.sensitivity.diacritic);
    }
}

impl Filter {
    /// The `$text` node at any depth of the filter, if there is one.
    pub fn text(&self) -> Option<&Arc<TextFilter>> {
        match self {
            Filter::And(parts) | Filter::Or(parts) | Filter::Nor(parts) => {
                parts.iter().find_map(Filter::text)
            }
            Filter::Not(inner) => inner.text(),
            Filter::Text(text) => Some(text),
            _ => None,
        }
    }
}
