//! A borrowed value: `Copy`, 24 bytes, without a destructor.

use crate::{Array, Decimal128, Doc};

/// A BSON value that points into the bytes of a document.
///
/// `Missing` is not a BSON type; it is the result of a path that does not exist. `==` compares type and bytes (NaN
/// differs from itself); for MongoDB's equality see [`crate::compare`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Missing,
    Null,
    Undefined,
    Bool(bool),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal128(Decimal128),
    String(&'a str),
    Symbol(&'a str),
    Doc(Doc<'a>),
    Array(Array<'a>),
    Binary(Binary<'a>),
    ObjectId(&'a [u8; 12]),
    /// Milliseconds since 1970, signed.
    DateTime(i64),
    /// Seconds in the upper 32 bits, an increment in the lower ones. Compared as unsigned.
    Timestamp(u64),
    Regex(Regex<'a>),
    DbPointer(DbPointer<'a>),
    Code(&'a str),
    CodeWithScope(CodeWithScope<'a>),
    MinKey,
    MaxKey,
}

const _: () = assert!(size_of::<Value<'_>>() == 24);

/// Binary data and its subtype. For subtype 2, `bytes` includes the inner length.
///
/// It is packed, so that a `Value` has only 24 bytes. The fields are `Copy` and are read by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct Binary<'a> {
    pub subtype: u8,
    pub bytes: &'a [u8],
}

/// A regular expression: `pattern \0 options \0`, as stored in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regex<'a>(pub(crate) &'a [u8]);

/// A DBPointer (deprecated type 0x0C): int32 length, namespace, \0, 12 bytes of ObjectId.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DbPointer<'a>(pub(crate) &'a [u8]);

/// JavaScript code with scope: the bytes of the element from the total length on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeWithScope<'a>(pub(crate) &'a [u8]);

/// The type of an element; the numbers are those of BSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Type {
    /// The number of "end of object", used for "missing".
    Missing = 0x00,
    Double = 0x01,
    String = 0x02,
    Object = 0x03,
    Array = 0x04,
    BinData = 0x05,
    Undefined = 0x06,
    ObjectId = 0x07,
    Bool = 0x08,
    Date = 0x09,
    Null = 0x0A,
    Regex = 0x0B,
    DbPointer = 0x0C,
    JavaScript = 0x0D,
    Symbol = 0x0E,
    JavaScriptWithScope = 0x0F,
    Int = 0x10,
    Timestamp = 0x11,
    Long = 0x12,
    Decimal = 0x13,
    MaxKey = 0x7F,
    MinKey = 0xFF,
}

impl Type {
    /// The type for an element's type byte.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Type> {
        Some(match byte {
            0x01 => Type::Double,
            0x02 => Type::String,
            0x03 => Type::Object,
            0x04 => Type::Array,
            0x05 => Type::BinData,
            0x06 => Type::Undefined,
            0x07 => Type::ObjectId,
            0x08 => Type::Bool,
            0x09 => Type::Date,
            0x0A => Type::Null,
            0x0B => Type::Regex,
            0x0C => Type::DbPointer,
            0x0D => Type::JavaScript,
            0x0E => Type::Symbol,
            0x0F => Type::JavaScriptWithScope,
            0x10 => Type::Int,
            0x11 => Type::Timestamp,
            0x12 => Type::Long,
            0x13 => Type::Decimal,
            0x7F => Type::MaxKey,
            0xFF => Type::MinKey,
            _ => return None,
        })
    }

    /// The name that `$type` accepts and error messages print.
    pub const fn name(self) -> &'static str {
        match self {
            Type::Missing => "missing",
            Type::Double => "double",
            Type::String => "string",
            Type::Object => "object",
            Type::Array => "array",
            Type::BinData => "binData",
            Type::Undefined => "undefined",
            Type::ObjectId => "objectId",
            Type::Bool => "bool",
            Type::Date => "date",
            Type::Null => "null",
            Type::Regex => "regex",
            Type::DbPointer => "dbPointer",
            Type::JavaScript => "javascript",
            Type::Symbol => "symbol",
            Type::JavaScriptWithScope => "javascriptWithScope",
            Type::Int => "int",
            Type::Timestamp => "timestamp",
            Type::Long => "long",
            Type::Decimal => "decimal",
            Type::MaxKey => "maxKey",
            Type::MinKey => "minKey",
        }
    }
}

impl<'a> Value<'a> {
    /// The BSON type.
    pub const fn kind(&self) -> Type {
        match self {
            Value::Missing => Type::Missing,
            Value::Null => Type::Null,
            Value::Undefined => Type::Undefined,
            Value::Bool(_) => Type::Bool,
            Value::Int32(_) => Type::Int,
            Value::Int64(_) => Type::Long,
            Value::Double(_) => Type::Double,
            Value::Decimal128(_) => Type::Decimal,
            Value::String(_) => Type::String,
            Value::Symbol(_) => Type::Symbol,
            Value::Doc(_) => Type::Object,
            Value::Array(_) => Type::Array,
            Value::Binary(_) => Type::BinData,
            Value::ObjectId(_) => Type::ObjectId,
            Value::DateTime(_) => Type::Date,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Regex(_) => Type::Regex,
            Value::DbPointer(_) => Type::DbPointer,
            Value::Code(_) => Type::JavaScript,
            Value::CodeWithScope(_) => Type::JavaScriptWithScope,
            Value::MinKey => Type::MinKey,
            Value::MaxKey => Type::MaxKey,
        }
    }

    pub const fn is_missing(&self) -> bool {
        matches!(self, Value::Missing)
    }

    /// Returns true for null, undefined and missing, which most operators treat alike.
    pub const fn is_nullish(&self) -> bool {
        matches!(self, Value::Missing | Value::Null | Value::Undefined)
    }

    pub const fn is_number(&self) -> bool {
        matches!(self, Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_))
    }

    /// The text of a string (not of a symbol).
    pub const fn as_str(&self) -> Option<&'a str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    pub const fn as_doc(&self) -> Option<Doc<'a>> {
        match self {
            Value::Doc(d) => Some(*d),
            _ => None,
        }
    }

    pub const fn as_array(&self) -> Option<Array<'a>> {
        match self {
            Value::Array(a) => Some(*a),
            _ => None,
        }
    }

    /// The truth value in MongoDB: false, null, undefined, missing and zero of any type are false.
    pub fn is_truthy(&self) -> bool {
        match self {
            Value::Missing | Value::Null | Value::Undefined | Value::Bool(false) => false,
            Value::Int32(n) => *n != 0,
            Value::Int64(n) => *n != 0,
            Value::Double(n) => *n != 0.0,
            Value::Decimal128(d) => !d.is_zero(),
            _ => true,
        }
    }
}

impl<'a> Regex<'a> {
    /// Takes the bytes `pattern \0 options \0`; none if they do not have this form.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Regex<'a>> {
        let nuls = bytes.iter().filter(|b| **b == 0).count();
        (nuls == 2 && bytes.last() == Some(&0) && std::str::from_utf8(bytes).is_ok())
            .then_some(Regex(bytes))
    }

    pub fn pattern(&self) -> &'a str {
        self.split().0
    }

    pub fn options(&self) -> &'a str {
        self.split().1
    }

    fn split(&self) -> (&'a str, &'a str) {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(0);
        let options = self.0.get(end + 1..self.0.len().saturating_sub(1)).unwrap_or(&[]);
        (crate::view::raw::text(&self.0[..end]), crate::view::raw::text(options))
    }

    /// The bytes `pattern \0 options \0`.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> DbPointer<'a> {
    pub fn namespace(&self) -> &'a str {
        crate::view::raw::text(&self.0[4..self.0.len() - 13])
    }

    pub fn id(&self) -> &'a [u8; 12] {
        self.0.last_chunk().expect("validated: ends with an ObjectId")
    }

    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> CodeWithScope<'a> {
    pub fn code(&self) -> &'a str {
        let len = crate::view::raw::int32(self.0, 4) as usize;
        crate::view::raw::text(&self.0[8..8 + len - 1])
    }

    pub fn scope(&self) -> Doc<'a> {
        let len = crate::view::raw::int32(self.0, 4) as usize;
        Doc::trusted(&self.0[8 + len..])
    }

    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(v: &'a str) -> Self {
        Value::String(v)
    }
}
impl<'a> From<&'a String> for Value<'a> {
    fn from(v: &'a String) -> Self {
        Value::String(v)
    }
}
impl From<bool> for Value<'_> {
    fn from(v: bool) -> Self {
        Value::Bool(v)
    }
}
impl From<i32> for Value<'_> {
    fn from(v: i32) -> Self {
        Value::Int32(v)
    }
}
impl From<i64> for Value<'_> {
    fn from(v: i64) -> Self {
        Value::Int64(v)
    }
}
impl From<f64> for Value<'_> {
    fn from(v: f64) -> Self {
        Value::Double(v)
    }
}
impl<'a> From<Doc<'a>> for Value<'a> {
    fn from(v: Doc<'a>) -> Self {
        Value::Doc(v)
    }
}
impl<'a> From<Array<'a>> for Value<'a> {
    fn from(v: Array<'a>) -> Self {
        Value::Array(v)
    }
}
impl<'a> From<&'a [u8; 12]> for Value<'a> {
    fn from(v: &'a [u8; 12]) -> Self {
        Value::ObjectId(v)
    }
}
