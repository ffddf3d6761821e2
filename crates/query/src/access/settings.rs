//! Query settings: the administrator's settings for all queries of a shape.
//!
//! ```text
//!   command --> shape (see `shape`) --> the server looks up its settings --> Env of the request
//!                                                                              |
//!   plan of each collection the query reads <-- the indexes allowed there -----+
//! ```
//!
//! The server parses and stores settings; this module applies them to planning. They take precedence over index
//! filters and over the query's own hint. If none of the allowed indexes serves the query, it is planned as if
//! there were no settings.

use nagi_bson::{Doc, DocBuf, Value, number};
use nagi_error::{Code, Result, bail};
use nagi_store::{Index, Namespace};

/// The settings of one query shape.
#[derive(Debug, Default)]
pub struct QuerySettings {
    shown: DocBuf,
    hints: Vec<(Namespace, AllowedIndexes)>,
    reject: bool,
}

impl QuerySettings {
    /// Settings in their checked form: `indexHints` is an array of `{ns: {db, coll}, allowedIndexes}`.
    ///
    /// # Errors
    /// 9 for an index that is neither a name nor a key pattern; 73 for a bad namespace.
    pub fn new(shown: DocBuf) -> Result<QuerySettings> {
        let doc = shown.as_doc();
        let mut hints = Vec::new();
        if let Value::Array(list) = doc.get("indexHints") {
            for hint in list.iter().filter_map(|hint| hint.as_doc()) {
                let ns = hint.get("ns").as_doc().unwrap_or(Doc::EMPTY);
                let text = |name| ns.get(name).as_str().unwrap_or("");
                let namespace = Namespace::new(text("db"), text("coll"))?;
                let Value::Array(indexes) = hint.get("allowedIndexes") else { continue };
                hints.push((namespace, AllowedIndexes::parse(indexes.iter())?));
            }
        }
        let reject = doc.get("reject").is_truthy();
        Ok(QuerySettings { shown, hints, reject })
    }

    /// The settings as explain and `$querySettings` show them.
    pub fn shown(&self) -> Doc<'_> {
        self.shown.as_doc()
    }

    /// True if queries of the shape are refused.
    pub fn rejects(&self) -> bool {
        self.reject
    }

    /// Estimated size in memory, in bytes.
    pub fn bytes(&self) -> u64 {
        // The settings are held twice: as they are shown, and as they are used.
        2 * self.shown.as_bytes().len() as u64 + 256
    }

    /// The indexes of a collection that queries of the shape may use.
    pub(crate) fn allowed(&self, namespace: &Namespace) -> Option<&AllowedIndexes> {
        self.hints.iter().find(|(on, _)| on == namespace).map(|(_, allowed)| allowed)
    }
}

/// Indexes that queries may use.
#[derive(Debug)]
pub(crate) struct AllowedIndexes {
    pub(crate) list: Box<[Allowed]>,
    /// The permitted direction of a collection scan (forward or not), if one is permitted.
    pub(crate) natural: Option<bool>,
}

#[derive(Debug)]
pub(crate) enum Allowed {
    Name(Box<str>),
    Key(DocBuf),
}

impl AllowedIndexes {
    /// Reads names, key patterns and `{$natural: 1}`.
    pub(crate) fn parse<'a>(values: impl Iterator<Item = Value<'a>>) -> Result<AllowedIndexes> {
        let (mut list, mut natural) = (Vec::new(), None);
        for value in values {
            match value {
                Value::String(name) => list.push(Allowed::Name(name.into())),
                Value::Doc(key) if !key.get("$natural").is_missing() => {
                    let forward = number::as_f64(key.get("$natural")).is_none_or(|n| n >= 0.0);
                    natural = Some(forward);
                }
                Value::Doc(key) => list.push(Allowed::Key(key.to_buf())),
                _ => bail!(Code::FAILED_TO_PARSE, "Hint must be a string or an object"),
            }
        }
        Ok(AllowedIndexes { list: list.into(), natural })
    }

    pub(crate) fn allows(&self, index: &Index) -> bool {
        self.list.iter().any(|allowed| match allowed {
            Allowed::Name(name) => **name == *index.name(),
            Allowed::Key(key) => same_pattern(index.spec.key_pattern.as_doc(), key.as_doc()),
        })
    }
}

/// Returns true if both have the same fields in the same order with equal values (1 equals 1.0).
pub(crate) fn same_pattern(a: Doc<'_>, b: Doc<'_>) -> bool {
    let (mut a, mut b) = (a.iter(), b.iter());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a.name() == b.name() => {
                if !nagi_bson::compare::equal(a.value(), b.value()) {
                    return false;
                }
            }
            _ => return false,
        }
    }
}
