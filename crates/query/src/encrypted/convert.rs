//! Writes: the document that is stored for a document with insert payloads.
//!
//! ```text
//!   {_id: 1, ssn: <payload>}  ->  {_id: 1, ssn: <stored value>, __safeContent__: [<tag>]}
//!                                 + a document in ESC, + a document in ECOC, in the same transaction
//! ```
//!
//! An update is applied to the document first, so that its payloads stand where the values are to be stored; then the
//! result is converted. `__safeContent__` is rebuilt from the stored values, which contain their tags. So the tags of
//! values that the update has replaced or removed disappear with them.

use nagi_bson::{Array, Binary, Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_lang::encrypted::{
    EscTokens, InsertPayload, SAFE_CONTENT, SUBTYPE, Token, blocks, derive, is_insert_payload,
    write_stored,
};
use nagi_lang::filter::{EncryptedBelow, EncryptedStep};
use nagi_store::{Collection, WriteTxn};

use super::{
    information::{Encryption, Target},
    state::{Esc, id_value},
};
use crate::source::check_memory;

/// The stored values of a document in the order of its fields, and their tags.
#[derive(Default)]
struct Stored {
    values: Vec<Vec<u8>>,
    tags: Vec<Token>,
}

impl Encryption {
    /// Writes to `out` the document to store for `doc`, which replaces `old`, and inserts the documents of the state
    /// collections. Returns false, and writes nothing, if the collection has no encrypted fields. `check` is polled
    /// while they are read.
    ///
    /// # Errors
    /// Those of malformed payloads; 2 for a range with other parameters than those of the field; 6666200 for a document
    /// with `__safeContent__` of the client's, 6371211 for a payload that is not the value of an encrypted field, and
    /// for the value of another encrypted field; 112 if another client stores the same value.
    pub(crate) fn convert(
        &self,
        txn: &mut WriteTxn<'_>,
        collection: &Collection,
        (old, doc): (Doc<'_>, Doc<'_>),
        check: &dyn Fn() -> Result<()>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let Some(target) = self.target(&collection.namespace) else { return Ok(false) };
        let Some(fields) = &collection.options.encrypted_fields else { return Ok(false) };
        check_memory(4 * doc.len())?;
        let mut stored = Stored::default();
        let mut path = String::new();
        let convert = Convert { encryption: self, target, check };
        convert.collect(txn, fields.top(), (old, doc), &mut path, &mut stored)?;
        out.clear();
        let mut writer = DocWriter::new(out);
        let mut values = stored.values.iter();
        let mut placed = false;
        for element in doc {
            match element.name() {
                SAFE_CONTENT => {
                    write_tags(&stored.tags, element.value(), &mut writer);
                    placed = true;
                }
                name => {
                    write(fields.top().step(name), name, element.value(), &mut values, &mut writer)
                }
            }
        }
        if !placed && !stored.tags.is_empty() {
            write_tags(&stored.tags, Value::Missing, &mut writer);
        }
        writer.finish();
        Ok(true)
    }

    /// As [`Encryption::convert`] for a document that a client inserts.
    pub(crate) fn convert_new(
        &self,
        txn: &mut WriteTxn<'_>,
        collection: &Collection,
        doc: Doc<'_>,
        check: &dyn Fn() -> Result<()>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        if doc.element(SAFE_CONTENT).is_some() {
            bail!(
                Code::Location(6_666_200),
                "Cannot insert a document with field name {SAFE_CONTENT}"
            );
        }
        self.convert(txn, collection, (Doc::EMPTY, doc), check, out)
    }
}

/// The tags in the order of the array that the document has; new ones at the end.
fn write_tags(tags: &[Token], old: Value<'_>, out: &mut DocWriter<'_>) {
    let old = old.as_array().unwrap_or(Array::EMPTY);
    let known = |value: Value<'_>| match value {
        Value::Binary(data) => <Token>::try_from(data.bytes).ok(),
        _ => None,
    };
    let mut kept: Vec<Token> = old.iter().filter_map(known).collect();
    if kept.len() != tags.len() || kept != tags {
        let now: std::collections::BTreeSet<&Token> = tags.iter().collect();
        kept.retain(|tag| now.contains(tag));
        let mut had: std::collections::BTreeSet<Token> = std::collections::BTreeSet::new();
        kept.retain(|tag| had.insert(*tag));
        kept.extend(tags.iter().filter(|tag| had.insert(**tag)));
    }
    out.array(SAFE_CONTENT, |list| kept.iter().for_each(|tag| list.push(id_value(tag))));
}

/// Copies a field; payloads are replaced by the next stored value.
fn write<'s>(
    step: EncryptedStep<'_>,
    name: &str,
    value: Value<'_>,
    values: &mut impl Iterator<Item = &'s Vec<u8>>,
    out: &mut DocWriter<'_>,
) {
    match (step, value) {
        (EncryptedStep::Field(_), payload) if is_insert_payload(payload) => {
            let bytes = values.next().map_or(&[][..], Vec::as_slice);
            out.put(name, Value::Binary(Binary { subtype: SUBTYPE, bytes }));
        }
        (EncryptedStep::Below(below), Value::Doc(inner)) => out.doc(name, |out| {
            for element in inner {
                write(below.step(element.name()), element.name(), element.value(), values, out);
            }
        }),
        (_, value) => out.put(name, value),
    }
}

struct Convert<'c> {
    encryption: &'c Encryption,
    target: &'c Target,
    check: &'c dyn Fn() -> Result<()>,
}

impl Convert<'_> {
    /// Converts the payloads of a document, and collects the tags of its stored values.
    fn collect(
        &self,
        txn: &mut WriteTxn<'_>,
        below: EncryptedBelow<'_>,
        (old, doc): (Doc<'_>, Doc<'_>),
        path: &mut String,
        stored: &mut Stored,
    ) -> Result<()> {
        for element in doc {
            let outer = path.len();
            if outer > 0 {
                path.push('.');
            }
            path.push_str(element.name());
            match (below.step(element.name()), element.value()) {
                (EncryptedStep::Field(field), Value::Binary(data)) if data.subtype == SUBTYPE => {
                    if is_insert_payload(element.value()) {
                        let value = self.store(txn, (path, field.range()), data.bytes)?;
                        stored.values.push(value);
                    } else if !element.value().same_bytes(&old.get(element.name()))
                        && field.is_foreign(data.bytes)
                    {
                        // An update has moved or copied it.
                        return Err(foreign(path));
                    }
                    let value = match is_insert_payload(element.value()) {
                        true => stored.values.last().map_or(&[][..], Vec::as_slice),
                        false => data.bytes,
                    };
                    stored.tags.extend(blocks(value).map(|block| *block.tag()));
                }
                (EncryptedStep::Below(inner), Value::Doc(doc)) => {
                    let old = old.get(element.name()).as_doc().unwrap_or(Doc::EMPTY);
                    self.collect(txn, inner, (old, doc), path, stored)?;
                }
                (_, value) => refuse_payloads(value, path)?,
            }
            path.truncate(outer);
        }
        Ok(())
    }

    /// The stored value for a payload; inserts its documents of the state collections.
    fn store(
        &self,
        txn: &mut WriteTxn<'_>,
        (path, range): (&str, Option<Doc<'_>>),
        bytes: &[u8],
    ) -> Result<Vec<u8>> {
        let payload = InsertPayload::read(bytes)?;
        if let Some(name) = range.and_then(|range| payload.other_parameter(range)) {
            bail!(
                Code::BAD_VALUE,
                "The encrypted value of '{path}' has another {name} than encryptedFields of the collection"
            );
        }
        let (esc, ecoc) = (self.state(txn, true)?, self.state(txn, false)?);
        let mut positions = Vec::with_capacity(payload.sets.len());
        for set in &payload.sets {
            let tokens = EscTokens::of(set.esc);
            let last = Esc::new(txn.reader(), &esc).positions(&tokens, self.check)?.last;
            let Some(next) = last.checked_add(1) else {
                bail!(Code::Location(6_371_210), "An encrypted value has too many documents");
            };
            let id = derive(&tokens.tag, next);
            let position = DocBuf::build(|out| out.put("_id", id_value(&id)));
            txn.insert(&esc, position.as_doc()).map_err(taken)?;
            let id = txn.store().new_object_id();
            let to_compact = DocBuf::build(|out| {
                out.put("_id", Value::ObjectId(&id));
                out.put("fieldName", path);
                out.put("value", Value::Binary(Binary { subtype: 0, bytes: set.sealed }));
            });
            txn.insert(&ecoc, to_compact.as_doc())?;
            positions.push(next);
        }
        let mut value = Vec::new();
        let random = &mut || (self.encryption.options.random)();
        write_stored(&payload, &positions, random, &mut value)?;
        Ok(value)
    }

    fn state(&self, txn: &WriteTxn<'_>, is_esc: bool) -> Result<std::sync::Arc<Collection>> {
        let namespace = if is_esc { &self.target.esc } else { &self.target.ecoc };
        match txn.collection(namespace) {
            Some(collection) => Ok(collection),
            None => bail!(
                Code::NAMESPACE_NOT_FOUND,
                "The state collection {namespace} of an encrypted collection does not exist"
            ),
        }
    }
}

/// Another client has stored the same value in this position. The retry takes the next one. A duplicate key of another
/// unique index would be one in each retry.
#[cold]
fn taken(error: Error) -> Error {
    let is_id = |info: &DocBuf| {
        info.get("keyPattern").as_doc().is_some_and(|key| key.element("_id").is_some())
    };
    match error.code() {
        Code::DUPLICATE_KEY if error.info().is_some_and(is_id) => err!(
            Code::WRITE_CONFLICT,
            "Another client stores an encrypted value with the same contention factor"
        ),
        _ => error,
    }
}

#[cold]
fn foreign(path: &str) -> Error {
    err!(
        Code::Location(6_371_211),
        "The value of '{path}' was encrypted for another field: queries could not find it"
    )
}

/// Refuses insert payloads outside of encrypted fields: no query could find them.
fn refuse_payloads(value: Value<'_>, path: &str) -> Result<()> {
    match value {
        Value::Doc(doc) => doc.iter().try_for_each(|field| refuse_payloads(field.value(), path)),
        Value::Array(array) => array.iter().try_for_each(|value| refuse_payloads(value, path)),
        payload if is_insert_payload(payload) => bail!(
            Code::Location(6_371_211),
            "The value of '{path}' is encrypted, but encryptedFields of the collection does not list it"
        ),
        _ => Ok(()),
    }
}
