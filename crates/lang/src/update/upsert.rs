//! The document that an upsert inserts if no document matched.
//!
//! ```text
//!   equalities of the filter --> seed --> operators, pipeline or replacement --> `_id` moved to the front
//! ```

use std::collections::BTreeMap;

use nagi_bson::{Doc, DocWriter, Value, compare};
use nagi_error::{Code, Result, bail};

use super::replace::{altered, no_array};
use super::tree::COMPONENTS_MAX;
use super::{Kind, Update, UpdateCx, check, pipeline};
use crate::filter::{Filter, MatchInfo, Seed};
use crate::path::{FieldPath, lookup};

impl Update {
    /// Writes the document to insert. `new_id` becomes its `_id` if neither the filter nor the update sets one.
    ///
    /// # Errors
    /// 54 and 111 for a filter with two equalities for a path or an equality below `_id`, 66 for an `_id` that
    /// differs from the filter's, 17420 for a result that is too large, and the errors of [`Update::apply`].
    pub fn upsert_document<'a>(
        &'a self,
        filter: &Filter,
        new_id: &[u8; 12],
        cx: &UpdateCx<'a>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        let outcome = self.write_upsert(filter, new_id, cx, out);
        let outcome = outcome.and_then(|()| check::size_of_upsert(out.len() - start));
        if outcome.is_err() {
            out.truncate(start);
        }
        outcome
    }

    fn write_upsert<'a>(
        &'a self,
        filter: &Filter,
        new_id: &[u8; 12],
        cx: &UpdateCx<'a>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let new_id = Value::ObjectId(new_id);
        match &self.kind {
            Kind::Replacement(replacement) => {
                let seed = Seed::of_id(filter)?;
                let seeded = seed.iter().next().map_or(Value::Missing, |(_, value)| value);
                no_array(seeded)?;
                let own = replacement.id();
                if !own.is_missing() && !seeded.is_missing() && !compare::equal(own, seeded) {
                    return Err(altered(own));
                }
                let id = [own, seeded].into_iter().find(|id| !id.is_missing());
                replacement.write(id.unwrap_or(new_id), cx, out)
            }
            Kind::Operators(operators) => {
                let seed = seed_of(filter, cx)?;
                let mut made = Vec::new();
                operators.run(seed, MatchInfo::default(), true, cx, &mut made)?;
                let made = Doc::trusted(&made);
                check_names(filter, made)?;
                finish(made, new_id, out)
            }
            Kind::Pipeline(stages) => {
                let seed = seed_of(filter, cx)?;
                replace_seed(seed, stages.run(seed, cx)?, new_id, out)
            }
        }
    }
}

/// Writes the document to insert if the statement contains it (`upsertSupplied`). It replaces the result of the
/// pipeline.
///
/// # Errors
/// The errors of [`Update::upsert_document`].
pub fn upsert_supplied(
    supplied: Doc<'_>,
    filter: &Filter,
    new_id: &[u8; 12],
    cx: &UpdateCx<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    let seed = seed_of(filter, cx)?;
    let outcome = replace_seed(seed, supplied, Value::ObjectId(new_id), out)
        .and_then(|()| check::size_of_upsert(out.len() - start));
    if outcome.is_err() {
        out.truncate(start);
    }
    outcome
}

/// Writes a document in place of the seed, but keeps the seed's `_id`.
fn replace_seed(seed: Doc<'_>, made: Doc<'_>, new_id: Value<'_>, out: &mut Vec<u8>) -> Result<()> {
    let (seeded, id) = (seed.get("_id"), made.get("_id"));
    if !seeded.is_missing() && !id.is_missing() && !compare::equal(seeded, id) {
        return Err(altered(id));
    }
    finish(made, if seeded.is_missing() { new_id } else { seeded }, out)
}

/// Writes the document with its `_id` first, or with `new_id` if it has none.
fn finish(made: Doc<'_>, new_id: Value<'_>, out: &mut Vec<u8>) -> Result<()> {
    let id = made.get("_id");
    pipeline::write(made, if id.is_missing() { new_id } else { id }, out)
}

/// Builds a document from the equalities of the filter.
fn seed_of<'a>(filter: &Filter, cx: &UpdateCx<'a>) -> Result<Doc<'a>> {
    let seed = Seed::of(filter)?;
    let mut root = Level::default();
    for (path, value) in seed.iter() {
        if path.is_empty() {
            bail!(Code::ILLEGAL_OPERATION, "Cannot call setValue on the root object");
        }
        let path = FieldPath::new(path);
        if path.len() > COMPONENTS_MAX {
            bail!(Code::OVERFLOW, "The path '{path}' has too many components to be stored");
        }
        root.put(&path, 0, value);
    }
    let mut bytes = Vec::new();
    let mut writer = DocWriter::new(&mut bytes);
    root.write(&mut writer);
    writer.finish();
    Ok(Doc::trusted(cx.arena.alloc_slice_copy(&bytes)))
}

/// Names with `$` may occur in the filter, but not in the resulting document.
fn check_names(filter: &Filter, made: Doc<'_>) -> Result<()> {
    for (path, _) in Seed::of(filter)?.iter() {
        let path = FieldPath::new(path);
        let dollar = path
            .parts()
            .find(|part| part.starts_with('$') && !matches!(*part, "$id" | "$ref" | "$db"));
        if let Some(part) = dollar
            && !lookup(made, &path).is_missing()
        {
            bail!(
                Code::DOLLAR_PREFIXED_FIELD_NAME,
                "The dollar ($) prefixed field '{part}' in '{path}' is not valid for storage."
            );
        }
    }
    Ok(())
}

/// One level of the seed: fields in the order of their first occurrence.
#[derive(Default)]
struct Level<'f> {
    fields: BTreeMap<String, Entry<'f>>,
    order: Vec<String>,
}

enum Entry<'f> {
    Value(Value<'f>),
    Level(Level<'f>),
}

impl<'f> Level<'f> {
    fn put(&mut self, path: &FieldPath, at: usize, value: Value<'f>) {
        let name = path.part(at);
        if !self.fields.contains_key(name) {
            self.order.push(name.to_owned());
            let entry = if at + 1 == path.len() {
                Entry::Value(value)
            } else {
                Entry::Level(Level::default())
            };
            self.fields.insert(name.to_owned(), entry);
        }
        if let (Some(Entry::Level(below)), true) = (self.fields.get_mut(name), at + 1 < path.len())
        {
            below.put(path, at + 1, value);
        }
    }

    fn write(&self, out: &mut DocWriter<'_>) {
        for name in &self.order {
            match self.fields.get(name) {
                Some(Entry::Value(value)) => out.put(name, *value),
                Some(Entry::Level(level)) => out.doc(name, |out| level.write(out)),
                None => {}
            }
        }
    }
}
