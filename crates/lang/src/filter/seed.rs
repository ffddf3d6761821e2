//! The seed of an upsert: the fields of a new document that follow from the filter.
//!
//! Equalities that hold for every matching document become fields: `{a: 1}`, `$eq`, and `$in` or `$all` with one
//! value, also inside of `$and` and of an `$or` with one branch. All other conditions are ignored, and those on tags of
//! encrypted values: the tags of the new document follow from the values that it gets.

use std::collections::BTreeMap;
use std::ops::Bound;

use nagi_bson::{Value, ValueBuf};
use nagi_error::{Code, Result, bail};

use super::{CompareOp, Filter, Pred};
use crate::encrypted::SAFE_CONTENT;

/// A path and the value that the filter requires for it.
pub type Equality<'f> = (&'f str, Value<'f>);

/// The equalities of a filter, by path.
#[derive(Debug, Default)]
pub struct Seed<'f> {
    /// True if only `_id` and the paths below it are collected.
    only_id: bool,
    equalities: BTreeMap<&'f str, &'f ValueBuf>,
}

impl<'f> Seed<'f> {
    /// Collects all equalities.
    ///
    /// # Errors
    /// 54 if a path has two equalities, or one together with a path above it.
    pub fn of(filter: &'f Filter) -> Result<Seed<'f>> {
        let mut seed = Seed::default();
        seed.collect(filter)?;
        Ok(seed)
    }

    /// Collects only the equalities of `_id`, for replacements: the other fields come from the new document.
    ///
    /// # Errors
    /// 54 if `_id` has two equalities, 111 if only a field below `_id` has one.
    pub fn of_id(filter: &'f Filter) -> Result<Seed<'f>> {
        let mut all = Seed { only_id: true, ..Seed::default() };
        all.collect(filter)?;
        if let Some(path) = all.equalities.keys().find(|path| path.starts_with("_id.")) {
            bail!(
                Code::NOT_EXACT_VALUE_FIELD,
                "field at '_id' must be exactly specified, field at sub-path '{path}'found"
            );
        }
        Ok(all)
    }

    /// The equalities, ordered by path.
    pub fn iter(&self) -> impl Iterator<Item = Equality<'_>> {
        self.equalities.iter().map(|(path, value)| (*path, value.value()))
    }

    fn collect(&mut self, filter: &'f Filter) -> Result<()> {
        match filter {
            Filter::And(parts) => parts.iter().try_for_each(|part| self.collect(part)),
            Filter::Or(parts) if parts.len() == 1 => self.collect(&parts[0]),
            Filter::Field { path, pred: Pred::Compare { op: CompareOp::Eq, value, .. } } => {
                self.add(path.as_str(), value)
            }
            Filter::Field { path, pred: Pred::In(list) }
                if list.values().len() == 1 && list.patterns().is_empty() =>
            {
                self.add(path.as_str(), &list.values()[0])
            }
            _ => Ok(()),
        }
    }

    /// A collected path above or below `path`.
    fn related(&self, path: &str) -> Option<&'f str> {
        let dots = path.match_indices('.').map(|(at, _)| &path[..at]);
        let above = dots.filter_map(|prefix| self.equalities.get_key_value(prefix)).next();
        let first = format!("{path}.");
        let below = || {
            let range = (Bound::Included(first.as_str()), Bound::Unbounded);
            self.equalities.range::<str, _>(range).next()
        };
        let found = above.or_else(|| below().filter(|(other, _)| below_of(other, path)));
        found.map(|(other, _)| *other)
    }

    fn add(&mut self, path: &'f str, value: &'f ValueBuf) -> Result<()> {
        if path == SAFE_CONTENT {
            return Ok(());
        }
        if self.only_id && path != "_id" && !below_of(path, "_id") {
            return Ok(());
        }
        if self.equalities.contains_key(path) {
            bail!(
                Code::NOT_SINGLE_VALUE_FIELD,
                "cannot infer query fields to set, path '{path}' is matched twice"
            );
        }
        if let Some(other) = self.related(path) {
            bail!(
                Code::NOT_SINGLE_VALUE_FIELD,
                "cannot infer query fields to set, both paths '{path}' and '{other}' are matched"
            );
        }
        self.equalities.insert(path, value);
        Ok(())
    }
}

/// Returns true if `path` is below `parent`.
fn below_of(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.'))
}
