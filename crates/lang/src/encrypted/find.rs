//! The payloads of queries: kinds 12 (equality), 13 (range), 18 (text).

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Error, Result, bail};

use super::{FIND_EQUALITY, FIND_RANGE, FIND_TEXT, SUBTYPE, TOKEN_BYTES, Token, derive};

/// Limit of the token sets of a range. A cover has two edges for each bit without a trim factor, but up to half of all
/// edges of the lowest level that is left with one: thousands.
const EDGES_MAX: usize = 1 << 17;

/// True for the payload of an equality or a range query.
pub fn is_find_payload(value: Value<'_>) -> bool {
    matches!(value, Value::Binary(data) if data.subtype == SUBTYPE
        && matches!(data.bytes.first(), Some(&(FIND_EQUALITY | FIND_RANGE))))
}

/// The tokens of a searched value, edge or part of a text, without a contention factor.
#[derive(Debug, Clone, Copy)]
pub struct FindSet<'p> {
    edc: &'p Token,
    esc: &'p Token,
    server: &'p Token,
}

impl FindSet<'_> {
    /// The key of the tags of values with this contention factor.
    pub fn tags(&self, contention: u64) -> Token {
        derive(&derive(self.edc, contention), 1)
    }

    /// The key of the documents in the state collection ESC of values with this contention factor.
    pub fn esc(&self, contention: u64) -> Token {
        derive(self.esc, contention)
    }

    /// The key of the zeros in the blocks of such values.
    pub fn zeros(&self) -> Token {
        derive(self.server, 2)
    }
}

/// A parsed payload of a query.
#[derive(Debug, Clone)]
pub struct FindPayload<'p> {
    /// A value matches if it has a block of one of these sets. Empty for the second bound of a range: the payload of
    /// the first bound contains the sets of both.
    pub sets: Vec<FindSet<'p>>,
    /// True for such a second bound.
    pub is_stub: bool,
    /// The greatest contention factor.
    pub contention_max: u64,
}

impl<'p> FindPayload<'p> {
    /// Parses BinData of kind 12, 13 or 18.
    ///
    /// # Errors
    /// Errors of malformed BSON; 14, 40414 for its fields; 6373501 for a token of the wrong length; 2 for numbers and
    /// counts out of range.
    pub fn read(bytes: &'p [u8]) -> Result<FindPayload<'p>> {
        let (kind, bson) = bytes.split_first().unwrap_or((&0, &[]));
        match *kind {
            FIND_EQUALITY => {
                let doc = Doc::parse(bson)?;
                Ok(FindPayload {
                    sets: vec![set(doc)?],
                    is_stub: false,
                    contention_max: contention(doc)?,
                })
            }
            FIND_RANGE => range(Doc::parse(bson)?),
            FIND_TEXT => {
                let doc = Doc::parse(bson)?;
                let sets = doc.get("ts").as_doc().unwrap_or(Doc::EMPTY);
                let mut each = sets.iter().map(|element| element.value());
                let (Some(Value::Doc(only)), None) = (each.next(), each.next()) else {
                    bail!(
                        Code::BAD_VALUE,
                        "Encrypted text search payload needs exactly one token set"
                    );
                };
                Ok(FindPayload {
                    sets: vec![set(only)?],
                    is_stub: false,
                    contention_max: contention(doc)?,
                })
            }
            _ => bail!(Code::BAD_VALUE, "Expected a query payload of Queryable Encryption"),
        }
    }
}

fn range(doc: Doc<'_>) -> Result<FindPayload<'_>> {
    let payload = match doc.get("payload") {
        Value::Doc(payload) => payload,
        Value::Missing => {
            return Ok(FindPayload { sets: Vec::new(), is_stub: true, contention_max: 0 });
        }
        other => return Err(wrong_type("payload", other, "object")),
    };
    let Value::Array(edges) = payload.get("g") else {
        return Err(wrong_type("payload.g", payload.get("g"), "array"));
    };
    let mut sets = Vec::new();
    for edge in edges.iter() {
        let Value::Doc(edge) = edge else { return Err(wrong_type("payload.g", edge, "object")) };
        if sets.len() == EDGES_MAX {
            bail!(Code::BAD_VALUE, "An encrypted range query has more than {EDGES_MAX} edges");
        }
        sets.push(set(edge)?);
    }
    Ok(FindPayload { sets, is_stub: false, contention_max: contention(payload)? })
}

fn set(doc: Doc<'_>) -> Result<FindSet<'_>> {
    Ok(FindSet { edc: token(doc, "d")?, esc: token(doc, "s")?, server: token(doc, "l")? })
}

fn contention(doc: Doc<'_>) -> Result<u64> {
    match doc.get("cm") {
        Value::Int64(max) if max >= 0 => Ok(max as u64),
        Value::Int64(_) => bail!(Code::BAD_VALUE, "A contention factor must not be negative"),
        other => Err(wrong_type("cm", other, "long")),
    }
}

fn token<'p>(doc: Doc<'p>, name: &str) -> Result<&'p Token> {
    match doc.get(name) {
        Value::Binary(data) => data
            .bytes
            .as_array::<TOKEN_BYTES>()
            .ok_or_else(|| Error::new(Code::Location(6_373_501), "Invalid prf length")),
        other => Err(wrong_type(name, other, "binData")),
    }
}

fn wrong_type(field: &str, found: Value<'_>, expected: &str) -> Error {
    let message = match found.is_missing() {
        true => format!("BSON field 'FLE2FindPayloadV2.{field}' is missing but a required field"),
        false => format!(
            "BSON field 'FLE2FindPayloadV2.{field}' is the wrong type '{}', expected type \
             '{expected}'",
            found.kind().name()
        ),
    };
    let code = if found.is_missing() { Code::IDL_FAILED_TO_PARSE } else { Code::TYPE_MISMATCH };
    Error::new(code, message)
}
