//! Text indexes: their specification, and the keys of a document.
//!
//! The stored key pattern has `_fts: "text", _ftsx: 1` in the place of the text fields, which are listed in
//! `weights`. A document has one key for each of its terms:
//! ```text
//!   fields before | term | score | fields after
//! ```
//!
//! A document without terms has none.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, number, text::doc_text};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    hash::md5,
    text::{Language, Scores, TextSpec},
};

use crate::index::{
    IndexSpec,
    keygen::{self, KeySink},
    kind::{Completed, Content, Details, KindFacts, NamedBy},
    spec::Shape,
};

/// The kind's name, the value of text fields in key patterns.
const NAME: &str = "text";
/// The field of the key pattern for the terms.
const TERM: &str = "_fts";
/// The field of the key pattern for their scores.
const SCORE: &str = "_ftsx";
/// The newest layout of terms, which new indexes get.
const VERSION: i64 = 3;
/// Weights are below this limit.
const WEIGHT_END: f64 = 100_000.0;
/// Longer terms are truncated in keys, followed by a hash of the whole term.
const TERM_BYTES_MAX: usize = 256;
/// Limit of the part of a truncated term that is kept.
const CUT_BYTES: usize = 224;

pub(super) static TEXT: KindFacts = KindFacts {
    name: NAME,
    named_by: NamedBy::Value,
    content: Content::Terms,
    options: &[
        ("default_language", Shape::Text),
        ("language_override", Shape::Text),
        ("textIndexVersion", Shape::Number),
        ("weights", Shape::DocumentOrText),
    ],
    reserved_path: Some(TERM),
    complete: Some(complete),
    keys,
    filters_refused: Some("holds text, and serves $text only"),
    collates: false,
    single: true,
    in_api: false,
    ..KindFacts::ROW
};

/// The indexed strings and their languages.
#[derive(Debug)]
struct Indexed(Arc<TextSpec>);

impl Details for Indexed {
    fn same_options(&self, other: &dyn Details) -> bool {
        other.get().is_some_and(|other: &Indexed| self.0 == other.0)
    }

    fn depends_on(&self, differs: &dyn Fn(&str) -> bool) -> bool {
        self.0.wildcard.is_some()
            || differs(&self.0.language_override)
            || self.0.fields.iter().any(|(path, _)| differs(path))
    }
}

impl IndexSpec {
    /// For a text index: the indexed strings and their languages.
    pub fn text(&self) -> Option<&Arc<TextSpec>> {
        self.details().map(|indexed: &Indexed| &indexed.0)
    }
}

/// The form of a term in keys.
pub fn key_term(term: &str) -> std::borrow::Cow<'_, str> {
    if term.len() <= TERM_BYTES_MAX {
        return term.into();
    }
    let cut = term.floor_char_boundary(CUT_BYTES);
    let hash = u128::from_be_bytes(md5(term.as_bytes()));
    format!("{}{hash:032x}", &term[..cut]).into()
}

/// Checks and completes a specification `{v, key, name, options...}`.
///
/// # Errors
/// 67, with MongoDB's text.
fn complete(spec: Doc<'_>, pattern: Doc<'_>) -> Result<Completed> {
    let version = version(spec)?;
    let (key, listed) = key_pattern(pattern)?;
    let weights = weights(spec, &listed)?;
    let language = match spec.get("default_language") {
        Value::Missing => "english",
        Value::String(name) => name,
        _ => bail!(Code::CANNOT_CREATE_INDEX, "default_language needs a string type"),
    };
    let Some(default_language) = Language::of_version(language, version) else {
        bail!(Code::CANNOT_CREATE_INDEX, "default_language is not valid");
    };
    let language_override = spec.get("language_override").as_str().unwrap_or("language");
    if language_override.is_empty()
        || language_override.starts_with('$')
        || language_override.contains('.')
    {
        bail!(Code::CANNOT_CREATE_INDEX, "language_override is not valid");
    }
    let written = DocBuf::build(|out| {
        for (path, weight) in &weights {
            out.put(path, whole(*weight));
        }
    });
    let doc = DocBuf::build(|out| {
        for element in spec {
            match element.name() {
                "key" => out.put("key", &key),
                "weights" => out.put("weights", &written),
                "textIndexVersion" => out.put("textIndexVersion", i32::from(version)),
                _ => out.put_element(element),
            }
        }
        if spec.get("weights").is_missing() {
            out.put("weights", &written);
        }
        if spec.get("default_language").is_missing() {
            out.put("default_language", language);
        }
        if spec.get("language_override").is_missing() {
            out.put("language_override", language_override);
        }
        if spec.get("textIndexVersion").is_missing() {
            out.put("textIndexVersion", i32::from(version));
        }
    });
    let wildcard = weights.iter().find(|(path, _)| *path == "$**").map(|(_, weight)| *weight);
    let fields = weights.iter().filter(|(path, _)| *path != "$**");
    let spec = TextSpec {
        fields: fields.map(|(path, weight)| ((*path).into(), *weight)).collect(),
        wildcard,
        default_language,
        language_override: language_override.into(),
        version,
    };
    Ok(Completed { key, doc, details: Arc::new(Indexed(Arc::new(spec))) })
}

fn version(spec: Doc<'_>) -> Result<u8> {
    let given = spec.get("textIndexVersion");
    match number::truncate_to_i64(given) {
        None if given.is_missing() => Ok(VERSION as u8),
        Some(version @ 1..=VERSION) => Ok(version as u8),
        _ => bail!(Code::CANNOT_CREATE_INDEX, "bad textIndexVersion: {given}"),
    }
}

/// A weight as it is listed: an int32 if it is an integer.
fn whole(weight: f64) -> Value<'static> {
    match weight as i32 {
        whole if f64::from(whole) == weight => Value::Int32(whole),
        _ => Value::Double(weight),
    }
}

/// The stored key pattern, and the fields that were given as text.
fn key_pattern(pattern: Doc<'_>) -> Result<(DocBuf, Vec<&str>)> {
    let fields: Vec<(&str, Value<'_>)> = pattern.iter().map(|e| (e.name(), e.value())).collect();
    let is_text = |value: Value<'_>| value == Value::String(NAME);
    let first = fields.iter().position(|(_, value)| is_text(*value)).unwrap_or(0);
    let count = fields[first..].iter().take_while(|(_, value)| is_text(*value)).count();
    let mut behind = &fields[first + count..];
    if behind.iter().any(|(_, value)| is_text(*value)) {
        bail!(Code::CANNOT_CREATE_INDEX, "'text' fields in index must all be adjacent");
    }
    let mut listed: Vec<&str> =
        fields[first..first + count].iter().map(|(name, _)| *name).collect();
    if listed == [TERM] {
        // The pattern is in the form that listIndexes shows; the fields are in the weights.
        match behind.split_first() {
            Some(((SCORE, value), rest)) if number::as_f64(*value) == Some(1.0) => behind = rest,
            _ => bail!(Code::CANNOT_CREATE_INDEX, "expecting _ftsx:1 after _fts:\"text\""),
        }
        listed.clear();
    }
    for (name, value) in fields[..first].iter().chain(behind) {
        if matches!(*name, TERM | SCORE) {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "expected \"{name}\" to be part of a text index: {}",
                doc_text(pattern)
            );
        }
        if !matches!(number::as_f64(*value), Some(1.0 | -1.0)) {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "compound text index only supports 1 or -1 for the other fields: {}",
                doc_text(pattern)
            );
        }
    }
    let key = DocBuf::build(|out| {
        fields[..first].iter().for_each(|(name, value)| out.put(name, *value));
        out.put(TERM, NAME);
        out.put(SCORE, 1);
        behind.iter().for_each(|(name, value)| out.put(name, *value));
    });
    Ok((key, listed))
}

/// The fields with their weights, sorted.
fn weights<'s>(spec: Doc<'s>, listed: &[&'s str]) -> Result<Vec<(&'s str, f64)>> {
    let mut out: Vec<(&str, f64)> = listed.iter().map(|path| (*path, 1.0)).collect();
    match spec.get("weights") {
        Value::String("$**") if out.iter().any(|(path, _)| *path == "$**") => {}
        Value::String("$**") => out.push(("$**", 1.0)),
        Value::Missing | Value::Doc(_) => {}
        _ => bail!(Code::CANNOT_CREATE_INDEX, "text index option 'weights' must be an object"),
    }
    if let Value::Doc(given) = spec.get("weights") {
        for element in given {
            let (path, value) = (element.name(), element.value());
            let Some(weight) = number::as_f64(value) else {
                bail!(Code::CANNOT_CREATE_INDEX, "weight for text index needs numeric type");
            };
            if !(weight > 0.0 && weight < WEIGHT_END) {
                bail!(
                    Code::CANNOT_CREATE_INDEX,
                    "text index weight must be in the exclusive interval (0,{WEIGHT_END}) but \
                     found: {value}"
                );
            }
            match out.iter_mut().find(|(other, _)| *other == path) {
                Some(entry) => entry.1 = weight,
                None => out.push((path, weight)),
            }
        }
    }
    for (path, _) in &out {
        let bad = path.is_empty()
            || path.split('.').any(str::is_empty)
            || (*path != "$**" && path.split('.').any(|part| part.starts_with('$')));
        if bad {
            bail!(Code::CANNOT_CREATE_INDEX, "weight cannot be set on the field '{path}'");
        }
    }
    if out.is_empty() {
        bail!(Code::CANNOT_CREATE_INDEX, "text index with no fields: give them in 'weights'");
    }
    out.sort_unstable_by(|a, b| a.0.cmp(b.0));
    Ok(out)
}

/// Adds the keys of `doc`.
///
/// # Errors
/// 16675 for an array in another field, 17261 and 17262 for languages.
fn keys(spec: &IndexSpec, doc: Doc<'_>, sink: &mut KeySink) -> Result<()> {
    sink.reset(spec.key.len());
    let Some(text) = spec.text() else { return Ok(()) };
    let mut scores = Scores::default();
    scores.of(text, doc)?;
    if scores.is_empty() {
        return Ok(());
    }
    let mut values = Vec::with_capacity(spec.key.len());
    for part in &spec.key {
        let value = match &*part.path {
            TERM | SCORE => Value::Missing,
            path => match keygen::scalar(doc, path) {
                Some(value) => value,
                None => bail!(
                    Code::Location(16675),
                    "cannot have a multi-key as a prefix of a text index"
                ),
            },
        };
        values.push(value);
    }
    let at = spec.key.iter().position(|part| part.is_term()).unwrap_or(0);
    sink.multikey[at] = u64::from(scores.len() > 1);
    for (term, score) in scores.iter() {
        let term = key_term(term);
        let mut key = values.clone();
        key[at] = Value::String(&term);
        key[at + 1] = Value::Double(score);
        sink.push(spec, &key)?;
    }
    sink.sort();
    Ok(())
}
