//! Conditions that replace predicates over payloads, and their form in a filter.

use nagi_bson::{Binary, Doc, DocBuf, DocWriter, Value, ValueBuf};
use nagi_lang::encrypted::{RAW_TOKEN, SAFE_CONTENT, SUBTYPE, Token};

use super::{
    state::id_value,
    tags::{Found, Rewriter},
};

/// A condition on documents.
pub(super) enum Condition {
    /// A filter without payloads.
    Filter(DocBuf),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Tags(Vec<Token>),
    /// The value of the expression has a block whose zeros one of the keys decrypts.
    Zeros(ValueBuf, Vec<Token>),
}

impl Condition {
    /// The condition of a payload for the value of the expression `field`.
    pub(super) fn of(found: Found, field: Value<'_>) -> Condition {
        match found {
            Found::Tags(tags) => Condition::Tags(tags),
            Found::Zeros(keys) => Condition::Zeros(ValueBuf::new(field), keys),
            Found::Stub => Condition::All(Vec::new()),
        }
    }

    pub(super) fn negated_if(self, negated: bool) -> Condition {
        if negated { Condition::Not(Box::new(self)) } else { self }
    }

    /// Writes the fields of the filter.
    pub(super) fn write(&self, out: &mut DocWriter<'_>) {
        match self {
            Condition::Filter(filter) => out.extend(filter.as_doc()),
            Condition::All(all) if all.is_empty() => {}
            Condition::All(all) => write_list("$and", all, out),
            Condition::Any(any) => write_list("$or", any, out),
            Condition::Not(inner) => {
                out.array("$nor", |list| list.doc(|out| inner.write(out)));
            }
            Condition::Tags(tags) => out.doc(SAFE_CONTENT, |out| {
                out.array("$in", |list| tags.iter().for_each(|tag| list.push(id_value(tag))));
            }),
            Condition::Zeros(field, keys) => {
                out.doc("$expr", |out| write_test(field.value(), keys, out));
            }
        }
    }

    pub(super) fn to_filter(&self) -> DocBuf {
        DocBuf::build(|out| self.write(out))
    }
}

fn write_list(name: &str, conditions: &[Condition], out: &mut DocWriter<'_>) {
    out.array(name, |list| {
        conditions.iter().for_each(|condition| list.doc(|out| condition.write(out)));
    });
}

/// Writes the expression that tests a value.
pub(super) fn write_test(field: Value<'_>, keys: &[Token], out: &mut DocWriter<'_>) {
    let mut raw = [RAW_TOKEN; 33];
    let mut token = |key: &Token, put: &mut dyn FnMut(Value<'_>)| {
        raw[1..].copy_from_slice(key);
        put(Value::Binary(Binary { subtype: SUBTYPE, bytes: &raw }));
    };
    if let [key] = keys {
        out.doc("$_internalFleEq", |out| {
            out.put("field", field);
            token(key, &mut |value| out.put("server", value));
        });
        return;
    }
    out.doc("$_internalFleBetween", |out| {
        out.put("field", field);
        out.array("server", |list| {
            keys.iter().for_each(|key| token(key, &mut |value| list.push(value)));
        });
    });
}

impl Rewriter<'_> {
    /// The condition of several payloads for a field, of which one is enough.
    pub(super) fn any_of<'v>(
        &mut self,
        values: impl Iterator<Item = Value<'v>>,
        field: Value<'_>,
    ) -> nagi_error::Result<Condition> {
        let mut any = Vec::new();
        for value in values {
            if let Value::Binary(data) = value {
                any.push(Condition::of(self.resolve(data.bytes)?, field));
            }
        }
        // Tags are one list, so that one index scan finds them.
        if any.iter().all(|condition| matches!(condition, Condition::Tags(_))) {
            let tags = any.into_iter().flat_map(|condition| match condition {
                Condition::Tags(tags) => tags,
                _ => Vec::new(),
            });
            return Ok(Condition::Tags(tags.collect()));
        }
        Ok(match any.len() {
            1 => any.pop().unwrap_or(Condition::All(Vec::new())),
            _ => Condition::Any(any),
        })
    }

    /// The condition that a filter without payloads stands for.
    pub(super) fn plain(doc: Doc<'_>) -> Condition {
        Condition::Filter(doc.to_buf())
    }
}
