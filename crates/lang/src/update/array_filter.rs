//! `arrayFilters`: filters on array elements, each with an identifier that paths use (`a.$[identifier]`).

use std::collections::HashMap;

use foldhash::fast::RandomState;
use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::{Code, Error, Result, bail};

use crate::expr::ParseCx;
use crate::filter::{Allowed, Filter, MatchCx};

/// One array filter.
#[derive(Debug)]
pub(crate) struct ArrayFilter {
    name: Box<str>,
    filter: Filter,
}

impl ArrayFilter {
    /// Returns true if an element matches. The contents of `scratch` are overwritten.
    pub(super) fn matches(
        &self,
        element: Value<'_>,
        cx: &MatchCx<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<bool> {
        scratch.clear();
        let mut wrapped = DocWriter::new(scratch);
        wrapped.put(&self.name, element);
        wrapped.finish();
        self.filter.matches(Doc::trusted(scratch), cx)
    }
}

/// Parses the array filters of a statement.
///
/// # Errors
/// 9 for a filter without a single identifier or with one that is already used, 2 for an invalid identifier.
pub(super) fn parse(
    specs: &[Doc<'_>],
    cx: &mut ParseCx<'_>,
) -> Result<HashMap<Box<str>, ArrayFilter, RandomState>> {
    let mut out = HashMap::default();
    for spec in specs {
        let filter = Filter::parse_with(*spec, cx, Allowed::PLAIN).map_err(explain)?;
        let name = identifier(&filter)?;
        if out.contains_key(&name) {
            bail!(
                Code::FAILED_TO_PARSE,
                "Found multiple array filters with the same top-level field name {name}"
            );
        }
        out.insert(name.clone(), ArrayFilter { name, filter });
    }
    Ok(out)
}

fn explain(error: Error) -> Error {
    error.context("Error parsing array filter :: caused by :: ")
}

fn identifier(filter: &Filter) -> Result<Box<str>> {
    let (mut first, mut other): (Option<&str>, Option<&str>) = (None, None);
    filter.for_each_path(&mut |path| {
        let name = path.part(0);
        match first {
            None => first = Some(name),
            Some(known) if known != name => other = other.or(Some(name)),
            Some(_) => {}
        }
    });
    let Some(name) = first else {
        bail!(
            Code::FAILED_TO_PARSE,
            "Cannot use an expression without a top-level field name in arrayFilters"
        );
    };
    if let Some(other) = other {
        bail!(
            Code::FAILED_TO_PARSE,
            "Error parsing array filter :: caused by :: Expected a single top-level field name, \
             found '{name}' and '{other}'"
        );
    }
    let valid = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric());
    if !valid {
        bail!(
            Code::BAD_VALUE,
            "Error parsing array filter :: caused by :: The top-level field name must be an \
             alphanumeric string beginning with a lowercase letter, found '{name}'"
        );
    }
    Ok(name.into())
}
