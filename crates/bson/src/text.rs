//! The text form of values in MongoDB's messages: `{ a: 1, b: "x", c: [ 1, 2 ] }`.

use std::fmt::{self, Display, Write};

use crate::{Array, ArrayBuf, Doc, DocBuf, Value, ValueBuf, json, number::NotInteger};

pub use crate::hex::Hex;

/// Prints a document for an error message or a log line.
pub fn doc_text(doc: Doc<'_>) -> String {
    let mut out = String::new();
    let _ = write_doc(&mut out, doc);
    out
}

/// Prints a value for an error message or a log line.
pub fn value_text(value: Value<'_>) -> String {
    let mut out = String::new();
    let _ = write_value(&mut out, value);
    out
}

/// Writes a document in message style.
pub fn write_doc(out: &mut dyn Write, doc: Doc<'_>) -> fmt::Result {
    if doc.is_empty() {
        return out.write_str("{}");
    }
    let mut before = "{ ";
    for element in doc {
        out.write_str(before)?;
        out.write_str(element.name())?;
        out.write_str(": ")?;
        write_value(out, element.value())?;
        before = ", ";
    }
    out.write_str(" }")
}

/// The subtype of binary data that is a UUID.
const UUID_SUBTYPE: u8 = 4;

/// Writes a value in message style.
pub fn write_value(out: &mut dyn Write, value: Value<'_>) -> fmt::Result {
    match value {
        Value::Missing => out.write_str("MISSING"),
        Value::Null => out.write_str("null"),
        Value::Undefined => out.write_str("undefined"),
        Value::Bool(v) => write!(out, "{v}"),
        Value::Int32(v) => write!(out, "{v}"),
        Value::Int64(v) => write!(out, "{v}"),
        Value::Double(v) => out.write_str(&json::double_text(v)),
        Value::Decimal128(v) => write!(out, "{v}"),
        Value::String(v) => write!(out, "\"{v}\""),
        Value::Symbol(v) => write!(out, "\"{v}\""),
        Value::Doc(v) => write_doc(out, v),
        Value::Array(v) => write_array(out, v),
        Value::Binary(v) if v.subtype == UUID_SUBTYPE && v.bytes.len() == 16 => {
            out.write_str("UUID(\"")?;
            for (at, byte) in v.bytes.iter().enumerate() {
                let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                write!(out, "{dash}{byte:02x}")?;
            }
            out.write_str("\")")
        }
        Value::Binary(v) => {
            write!(out, "BinData({}, ", v.subtype)?;
            for byte in v.bytes {
                write!(out, "{byte:02X}")?;
            }
            out.write_str(")")
        }
        Value::ObjectId(v) => write!(out, "ObjectId('{}')", Hex(v)),
        Value::DateTime(v) => write!(out, "new Date({v})"),
        Value::Timestamp(v) => write!(out, "Timestamp({}, {})", v >> 32, v & 0xFFFF_FFFF),
        Value::Regex(v) => write!(out, "/{}/{}", v.pattern(), v.options()),
        Value::DbPointer(v) => write!(out, "DBRef('{}', {})", v.namespace(), Hex(v.id())),
        Value::Code(v) => out.write_str(v),
        Value::CodeWithScope(v) => {
            write!(out, "CodeWScope( {}, ", v.code())?;
            write_doc(out, v.scope())?;
            out.write_str(")")
        }
        Value::MinKey => out.write_str("MinKey"),
        Value::MaxKey => out.write_str("MaxKey"),
    }
}

fn write_array(out: &mut dyn Write, array: Array<'_>) -> fmt::Result {
    if array.is_empty() {
        return out.write_str("[]");
    }
    let mut before = "[ ";
    for value in array.iter() {
        out.write_str(before)?;
        write_value(out, value)?;
        before = ", ";
    }
    out.write_str(" ]")
}

impl Display for Doc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_doc(f, *self)
    }
}

impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, *self)
    }
}

impl fmt::Debug for Doc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_doc(f, *self)
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, Value::Array(*self))
    }
}

impl NotInteger {
    /// MongoDB's message about the value of a field.
    pub fn describe(self, name: &str, value: Value<'_>) -> String {
        let reason = match self {
            NotInteger::NotNumber => "Expected a number in",
            NotInteger::Nan => "Expected an integer, but found NaN in",
            NotInteger::Fraction => "Expected an integer",
            NotInteger::TooLarge => "Cannot represent as a 64-bit integer",
            NotInteger::Negative => "Expected a non-negative number in",
        };
        format!("{reason}: {name}: {}", value_text(value))
    }
}

impl fmt::Debug for DocBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_doc(f, self.as_doc())
    }
}

impl fmt::Debug for ArrayBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, Value::Array(self.as_array()))
    }
}

impl fmt::Debug for ValueBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, self.value())
    }
}

#[cfg(test)]
mod tests {
    use crate::json;

    #[test]
    fn uuids_have_their_own_form() {
        let doc = json::parse(
            "{a: BinData(4, 'AAECAwQFBgcICQoLDA0ODw=='), b: BinData(4, 'AQ=='), c: BinData(3, 'AQ==')}",
        );
        assert_eq!(
            doc.unwrap().as_doc().to_string(),
            "{ a: UUID(\"00010203-0405-0607-0809-0a0b0c0d0e0f\"), b: BinData(4, 01), c: BinData(3, 01) }"
        );
    }
}
