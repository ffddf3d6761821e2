//! The documents of `$queryStats`, with the names that users have chosen, or with their hashes instead.

use hmac::{Hmac, KeyInit, Mac};
use nagi_bson::{Doc, DocBuf, DocWriter, Value, json};
use nagi_error::Result;
use sha2::{Digest, Sha256};

use super::QueryStats;
use super::entry::Entry;
use crate::clock;

/// Replaces names by their HMAC with a key of the client's.
pub(crate) struct Transform<'k> {
    pub(crate) hmac_key: &'k [u8],
}

impl Transform<'_> {
    fn apply(&self, name: &str) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.hmac_key).expect("a key of any length is accepted");
        mac.update(name.as_bytes());
        base64(&mac.finalize().into_bytes())
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

impl QueryStats {
    /// The documents of all entries. `check` is called between shards, and ends it with its error.
    pub(crate) fn list(
        &self,
        transform: Option<&Transform<'_>>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<DocBuf>> {
        let mut docs = Vec::new();
        for shard in &self.shards {
            check()?;
            let as_of_ms = clock::wall_ms();
            // Copied, so that queries need not wait until all names are hashed.
            let entries: Vec<_> = {
                let shard = shard.lock();
                shard.entries.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect()
            };
            for (key, entry) in &entries {
                let key = Doc::trusted(key);
                docs.push(match transform {
                    Some(transform) => DocBuf::build(|out| {
                        write(transform.key(key).as_doc(), entry, as_of_ms, out)
                    }),
                    None => DocBuf::build(|out| write(key, entry, as_of_ms, out)),
                });
            }
        }
        Ok(docs)
    }
}

fn write(key: Doc<'_>, entry: &Entry, as_of_ms: i64, out: &mut DocWriter<'_>) {
    out.put("key", key);
    out.put("keyHash", base64(&Sha256::digest(key.as_bytes())).as_str());
    out.put("queryShapeHash", entry.shape_hash.hex().as_str());
    out.doc("metrics", |out| entry.write(out));
    out.put("asOf", Value::DateTime(as_of_ms));
}
