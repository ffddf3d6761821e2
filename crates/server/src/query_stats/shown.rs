//! The documents of `$queryStats`, with the names that users have chosen, or with their hashes instead.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use nagi_bson::{Doc, DocBuf, DocWriter, Value, json};
use nagi_error::Result;
use nagi_query::Given;
use sha2::{Digest, Sha256};

use super::QueryStats;
use super::entry::Entry;
use crate::clock;

/// Replaces names by their HMAC with a key of the client's.
pub(crate) struct Transform {
    hmac_key: Box<[u8]>,
}

impl Transform {
    pub(crate) fn new(hmac_key: &[u8]) -> Transform {
        Transform { hmac_key: hmac_key.into() }
    }

    fn apply(&self, name: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.hmac_key)
            .expect("a key of any length is accepted");
        mac.update(name.as_bytes());
        base64(&mac.finalize().into_bytes())
    }

    /// Tags of members are names that users have chosen, and so are their values.
    fn preference(&self, preference: Doc<'_>, out: &mut DocWriter<'_>) {
        for element in preference {
            match (element.name(), element.value()) {
                ("tags", Value::Array(sets)) => out.array("tags", |list| {
                    for set in sets.iter().filter_map(|set| set.as_doc()) {
                        list.doc(|out| self.tags(set, out));
                    }
                }),
                _ => out.put_element(element),
            }
        }
    }

    fn tags(&self, set: Doc<'_>, out: &mut DocWriter<'_>) {
        for tag in set {
            if let Value::String(value) = tag.value() {
                out.put(&self.apply(tag.name()), self.apply(value).as_str());
            }
        }
    }

    /// The key of an entry with names replaced. The client's software is no name of a user.
    fn key(&self, key: Doc<'_>) -> DocBuf {
        let replace = |name: &str| self.apply(name);
        DocBuf::build(|out| {
            for element in key {
                match (element.name(), element.value()) {
                    ("queryShape", Value::Doc(shape)) => {
                        out.put("queryShape", &nagi_query::replace_names(shape, &replace));
                    }
                    ("hint", Value::Doc(hint)) => {
                        out.put("hint", &nagi_query::replace_fields(hint, &replace));
                    }
                    ("$readPreference", Value::Doc(preference)) => {
                        out.doc("$readPreference", |out| self.preference(preference, out));
                    }
                    _ => out.put_element(element),
                }
            }
        })
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    json::base64_encode(&mut text, bytes);
    text
}

/// The entries of one moment, of which documents are made one by one. The keys are shared with the table, so it costs
/// little beside the figures of each entry.
pub(crate) struct Listing {
    entries: Vec<(Arc<[u8]>, Entry)>,
    transform: Option<Transform>,
    as_of_ms: i64,
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entries of query statistics", self.entries.len())
    }
}

impl Given for Listing {
    fn document(&self, at: usize) -> Result<Option<DocBuf>> {
        Ok(self.entries.get(at).map(|(key, entry)| {
            let key = Doc::trusted(key);
            let made = self.transform.as_ref().map(|transform| transform.key(key));
            let key = made.as_ref().map_or(key, DocBuf::as_doc);
            DocBuf::build(|out| write(key, entry, self.as_of_ms, out))
        }))
    }
}

impl QueryStats {
    /// All entries. Queries wait for their shard only while it is copied.
    pub(crate) fn listing(&self, transform: Option<Transform>) -> Listing {
        let as_of_ms = clock::wall_ms();
        let mut entries = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            entries.extend(shard.entries.iter().map(|(key, entry)| (key.clone(), entry.clone())));
        }
        Listing { entries, transform, as_of_ms }
    }
}

fn write(key: Doc<'_>, entry: &Entry, as_of_ms: i64, out: &mut DocWriter<'_>) {
    out.put("key", key);
    out.put("keyHash", base64(&Sha256::digest(key.as_bytes())).as_str());
    out.put("queryShapeHash", entry.shape_hash.hex().as_str());
    out.doc("metrics", |out| entry.write(out));
    // Seconds, as in MongoDB.
    let secs = u64::try_from(as_of_ms / 1000).unwrap_or(0);
    out.put("asOf", Value::Timestamp(secs << 32));
}
