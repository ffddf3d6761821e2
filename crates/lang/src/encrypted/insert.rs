//! The payload with which a client sends an indexed value: kind 11.

use nagi_bson::{Array, Doc, Value, compare};
use nagi_error::{Code, Error, Result, bail};

use super::{INSERT, SUBTYPE, TOKEN_BYTES, Token};

/// Limit of the edges of a range: their number is one byte in a stored value.
const EDGES_MAX: usize = 255;
/// Limit of the token sets of a text: 96 bytes of each are stored in a document of 16 MB.
const TEXT_SETS_MAX: usize = (16 << 20) / 96;

/// True for an insert payload.
pub fn is_insert_payload(value: Value<'_>) -> bool {
    matches!(value, Value::Binary(data) if data.subtype == SUBTYPE && data.bytes.first() == Some(&INSERT))
}

/// The tokens for one block of a stored value. They belong to the value (or to an edge of it, or to a part of a text)
/// and to a contention factor, which the client has chosen at random.
#[derive(Debug, Clone, Copy)]
pub struct TokenSet<'p> {
    /// `d`: the key of the tags.
    pub edc: &'p Token,
    /// `s`: the key of the documents in the state collection ESC.
    pub esc: &'p Token,
    /// `l`: the key of the count and the zeros of the block.
    pub server: &'p Token,
    /// `p`: `esc`, encrypted for the compaction.
    pub sealed: &'p [u8],
}

/// The kind of index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    Equality,
    Range,
    /// The counts of sets for substrings and for suffixes. One set before them is for the whole text; the sets for
    /// prefixes follow.
    Text {
        substrings: usize,
        suffixes: usize,
    },
}

/// A parsed insert payload.
#[derive(Debug, Clone)]
pub struct InsertPayload<'p> {
    pub kind: IndexKind,
    /// `u`: the id of the index key.
    pub key_id: &'p [u8],
    /// `t`: the type of the value before encryption.
    pub bson_type: u8,
    /// `v`: the value as the client has encrypted it.
    pub value: &'p [u8],
    /// `e`: the key with which the server encrypts `v` again.
    pub value_key: &'p Token,
    /// `k`
    pub contention: u64,
    /// One for each block.
    pub sets: Vec<TokenSet<'p>>,
    doc: Doc<'p>,
}

/// The parameters of a range, in a payload and in `encryptedFields`.
const RANGE_PARAMETERS: [(&str, &str); 5] =
    [("sp", "sparsity"), ("pn", "precision"), ("tf", "trimFactor"), ("mn", "min"), ("mx", "max")];

impl<'p> InsertPayload<'p> {
    /// Parses BinData of kind 11.
    ///
    /// # Errors
    /// Errors of malformed BSON; 14, 40414, 40415 for its fields; 6373501 for a token of the wrong length; 2 for
    /// numbers and lengths out of range.
    pub fn read(bytes: &'p [u8]) -> Result<InsertPayload<'p>> {
        let Some((&INSERT, bson)) = bytes.split_first() else {
            bail!(Code::BAD_VALUE, "Expected an insert payload of Queryable Encryption");
        };
        let doc = Doc::parse(bson)?;
        check_names(doc)?;
        let key_id = binary(doc, "u")?;
        if key_id.len() != 16 {
            bail!(Code::BAD_VALUE, "The index key id of an encrypted value must have 16 bytes");
        }
        let bson_type = match doc.get("t") {
            Value::Int32(kind @ 1..=19) => kind as u8,
            Value::Int32(kind) => {
                bail!(Code::BAD_VALUE, "{kind} is not a type of encrypted values")
            }
            other => return Err(wrong_type("t", other, "int")),
        };
        let contention = match doc.get("k") {
            Value::Int64(factor) if factor >= 0 => factor as u64,
            Value::Int64(_) => bail!(Code::BAD_VALUE, "A contention factor must not be negative"),
            other => return Err(wrong_type("k", other, "long")),
        };
        // The tokens of the whole value are required in any payload.
        let whole = token_set(doc)?;
        let (kind, sets) = match (doc.get("g"), doc.get("b")) {
            (Value::Array(edges), Value::Missing) => {
                (IndexKind::Range, token_sets(edges, EDGES_MAX)?)
            }
            (Value::Missing, Value::Doc(text)) => text_sets(text)?,
            (Value::Missing, Value::Missing) => (IndexKind::Equality, vec![whole]),
            (Value::Missing, other) => return Err(wrong_type("b", other, "object")),
            (Value::Array(_), _) => {
                bail!(Code::BAD_VALUE, "An encrypted value cannot be both a range and a text")
            }
            (other, _) => return Err(wrong_type("g", other, "array")),
        };
        let value = binary(doc, "v")?;
        if value.is_empty() {
            bail!(Code::BAD_VALUE, "The ciphertext of an encrypted value must not be empty");
        }
        if sets.is_empty() {
            bail!(Code::BAD_VALUE, "An encrypted range value must have edges");
        }
        Ok(InsertPayload {
            kind,
            key_id,
            bson_type,
            value,
            value_key: token(doc, "e")?,
            contention,
            sets,
            doc,
        })
    }

    /// A parameter by which the edges of the value were made, if it is another one than in `range`, the range index of
    /// the field. Queries could not find the value.
    pub fn other_parameter(&self, range: Doc<'_>) -> Option<&'static str> {
        let differs = |(own, name): &(&str, &str)| {
            let (own, listed) = (self.doc.get(own), range.get(name));
            !own.is_missing() && !listed.is_missing() && !compare::equal(own, listed)
        };
        RANGE_PARAMETERS.iter().find(|names| differs(names)).map(|(_, name)| *name)
    }
}

fn check_names(doc: Doc<'_>) -> Result<()> {
    const NAMES: [&str; 16] =
        ["d", "s", "p", "u", "t", "v", "e", "l", "k", "g", "sp", "pn", "tf", "mn", "mx", "b"];
    match doc.iter().find(|element| !NAMES.contains(&element.name())) {
        None => Ok(()),
        Some(other) => bail!(
            Code::IDL_UNKNOWN_FIELD,
            "BSON field 'FLE2InsertUpdatePayloadV2.{}' is an unknown field.",
            other.name()
        ),
    }
}

fn token_set<'p>(doc: Doc<'p>) -> Result<TokenSet<'p>> {
    let sealed = binary(doc, "p")?;
    // A token; for an edge a flag after it; for a part of a text the number of paddings in three bytes.
    if !matches!(sealed.len(), 48 | 49 | 51) {
        bail!(Code::BAD_VALUE, "The encrypted tokens of a value must have 48, 49 or 51 bytes");
    }
    Ok(TokenSet { edc: token(doc, "d")?, esc: token(doc, "s")?, server: token(doc, "l")?, sealed })
}

fn token_sets<'p>(sets: Array<'p>, max: usize) -> Result<Vec<TokenSet<'p>>> {
    let mut out = Vec::new();
    for set in sets.iter() {
        let Value::Doc(set) = set else { return Err(wrong_type("g", set, "object")) };
        if out.len() == max {
            bail!(Code::BAD_VALUE, "An encrypted value has more than {max} token sets");
        }
        out.push(token_set(set)?);
    }
    Ok(out)
}

/// The sets of a text in the order of its blocks.
fn text_sets<'p>(text: Doc<'p>) -> Result<(IndexKind, Vec<TokenSet<'p>>)> {
    let list = |name: &str| match text.get(name) {
        Value::Array(sets) => token_sets(sets, TEXT_SETS_MAX),
        Value::Missing => Err(missing(&format!("b.{name}"))),
        other => Err(wrong_type(&format!("b.{name}"), other, "array")),
    };
    let Value::Doc(exact) = text.get("e") else {
        return Err(wrong_type("b.e", text.get("e"), "object"));
    };
    let mut sets = vec![token_set(exact)?];
    let (substrings, suffixes, prefixes) = (list("s")?, list("u")?, list("p")?);
    let kind = IndexKind::Text { substrings: substrings.len(), suffixes: suffixes.len() };
    for more in [substrings, suffixes, prefixes] {
        sets.extend(more);
    }
    if sets.len() > TEXT_SETS_MAX {
        bail!(Code::BAD_VALUE, "An encrypted value has more than {TEXT_SETS_MAX} token sets");
    }
    Ok((kind, sets))
}

fn binary<'p>(doc: Doc<'p>, name: &str) -> Result<&'p [u8]> {
    match doc.get(name) {
        Value::Binary(data) => Ok(data.bytes),
        Value::Missing => Err(missing(name)),
        other => Err(wrong_type(name, other, "binData")),
    }
}

fn token<'p>(doc: Doc<'p>, name: &str) -> Result<&'p Token> {
    let bytes = binary(doc, name)?;
    let wrong = || Error::new(Code::Location(6_373_501), "Invalid prf length");
    bytes.as_array::<TOKEN_BYTES>().ok_or_else(wrong)
}

fn missing(field: &str) -> Error {
    Error::new(
        Code::IDL_FAILED_TO_PARSE,
        format!("BSON field 'FLE2InsertUpdatePayloadV2.{field}' is missing but a required field"),
    )
}

fn wrong_type(field: &str, found: Value<'_>, expected: &str) -> Error {
    if found.is_missing() {
        return missing(field);
    }
    Error::new(
        Code::TYPE_MISMATCH,
        format!(
            "BSON field 'FLE2InsertUpdatePayloadV2.{field}' is the wrong type '{}', expected type \
             '{expected}'",
            found.kind().name()
        ),
    )
}
