//! `hint`, `min` and `max`: the client chooses index and key range.

use std::sync::Arc;

use crate::access::same_pattern;
use nagi_bson::{Doc, Value, ValueBuf};
use nagi_error::{Code, Result, bail};
use nagi_store::{Collection, Index, keystring};

/// A hint as given by the client.
#[derive(Debug, Clone, Copy)]
pub enum Hint<'a> {
    Name(&'a str),
    Key(Doc<'a>),
}

/// The choice of a hint.
pub(crate) enum Chosen {
    /// `{$natural: 1}` or -1: the collection itself, forward or backward.
    Natural(bool),
    Index(Arc<Index>),
}

impl<'a> Hint<'a> {
    /// Reads the `hint` argument of a command; absent, null and `{}` are no hint.
    pub fn parse(value: Value<'a>) -> Result<Option<Hint<'a>>> {
        match value {
            value if value.is_nullish() => Ok(None),
            Value::String(name) => Ok(Some(Hint::Name(name))),
            Value::Doc(key) if key.is_empty() => Ok(None),
            Value::Doc(key) => Ok(Some(Hint::Key(key))),
            _ => bail!(Code::FAILED_TO_PARSE, "Hint must be a string or an object"),
        }
    }

    pub(crate) fn choose(self, collection: &Collection) -> Result<Chosen> {
        let mut usable = collection.ready_indexes().filter(|index| !index.spec.hidden);
        let found = match self {
            Hint::Name(name) => usable.find(|index| index.name() == name),
            Hint::Key(key) => {
                if let Some(first) = key.first()
                    && first.name() == "$natural"
                {
                    let negative =
                        nagi_bson::number::as_f64(first.value()).is_some_and(|n| n < 0.0);
                    return Ok(Chosen::Natural(!negative));
                }
                usable.find(|index| same_pattern(index.spec.key_pattern.as_doc(), key))
            }
        };
        match found {
            Some(index) => Ok(Chosen::Index(index.clone())),
            None => bail!(
                Code::BAD_VALUE,
                "error processing query: ns={} planner returned error :: caused by :: hint \
                 provided does not correspond to an existing index",
                collection.namespace
            ),
        }
    }
}

/// The key range of `min` (inclusive) and `max` (exclusive), either of which may be empty.
pub(crate) fn key_range(index: &Index, min: Doc<'_>, max: Doc<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut range = (Vec::new(), Vec::new());
    for (limit, out, which) in [(min, &mut range.0, "min"), (max, &mut range.1, "max")] {
        if limit.is_empty() {
            continue;
        }
        let key = &index.spec.key;
        let fits = limit.count() == key.len()
            && limit.iter().zip(key.iter()).all(|(e, part)| e.name() == &*part.path);
        if !fits {
            bail!(
                Code::Location(51174),
                "The index chosen is not compatible with {which}: {} does not match {}",
                nagi_bson::text::doc_text(limit),
                nagi_bson::text::doc_text(index.spec.key_pattern.as_doc())
            );
        }
        for (element, part) in limit.iter().zip(key.iter()) {
            let keyed = index.spec.collation.and_then(|by| by.keyed(element.value()));
            let value = keyed.as_ref().map_or(element.value(), ValueBuf::value);
            keystring::append(value, part.descending, out);
        }
    }
    if !range.0.is_empty() && !range.1.is_empty() && range.0 >= range.1 {
        bail!(Code::Location(51175), "min must be less than max");
    }
    Ok(range)
}
