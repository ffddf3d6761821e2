//! Arguments of commands: a macro that declares a struct of borrowed arguments with a strict parser and MongoDB's error
//! texts.
//!
//! ```text
//! args! { "count" => Args {
//!     collection: Name<'a>        = "count",
//!     query:      Option<Doc<'a>> = "query",
//! }}
//! let args = Args::parse(&request)?;
//! ```
//!
//! The type of a field determines which BSON types are accepted, and if the field may be absent. An unknown field is
//! 40415, a missing one 40414, a duplicate 40413, a wrong type 14. Null and undefined count as absent. A document
//! sequence takes the place of an array field with its name. Generic arguments (`lsid`, `$db`, `maxTimeMS`, ...) are
//! skipped; `dispatch` has read them. Parsing does not allocate.

use nagi_bson::{Array, Doc, Elements, Value, number};
use nagi_error::{Code, Error, Result, bail, err};

use crate::number::truncate;
use crate::request::{Sequence, is_generic};

/// The value of a field: a value of the body or a document sequence.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    Value(Value<'a>),
    Sequence(Sequence<'a>),
}

/// The field that is being read, for error messages.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) command: &'static str,
    pub(crate) name: &'static str,
}

impl Field {
    pub(crate) fn missing(self) -> Error {
        err!(
            Code::IDL_FAILED_TO_PARSE,
            "BSON field '{}.{}' is missing but a required field",
            self.command,
            self.name
        )
    }

    pub(crate) fn duplicate(self) -> Error {
        err!(
            Code::IDL_DUPLICATE_FIELD,
            "BSON field '{}.{}' is a duplicate field",
            self.command,
            self.name
        )
    }

    /// `expected` is one type name or several separated by ", ".
    pub(crate) fn wrong_type(self, found: Value<'_>, expected: &str) -> Error {
        let expected = match expected.contains(',') {
            true => format!("expected types '[{expected}]'"),
            false => format!("expected type '{expected}'"),
        };
        err!(
            Code::TYPE_MISMATCH,
            "BSON field '{}.{}' is the wrong type '{}', {expected}",
            self.command,
            self.name,
            found.kind().name()
        )
    }

    fn out_of_bounds(self, bound: &str, limit: i64, found: i64) -> Error {
        err!(
            Code::Location(51024),
            "BSON field '{}' value must be {bound} {limit}, actual value '{found}'",
            self.name
        )
    }
}

/// The error for a field that is no argument.
pub(crate) fn unknown_field(command: &str, name: &str) -> Error {
    err!(Code::IDL_UNKNOWN_FIELD, "BSON field '{command}.{name}' is an unknown field.")
}

/// The type of an argument.
pub(crate) trait FromArg<'a>: Sized {
    /// True if null and undefined count as an absent field.
    const TAKES_NULL: bool = true;

    fn from_value(value: Value<'a>, field: Field) -> Result<Self>;

    fn from_sequence(_: Sequence<'a>, field: Field) -> Result<Self> {
        Err(field.wrong_type(Value::Array(Array::EMPTY), "object"))
    }

    /// The value for an absent field, or the error.
    fn absent(field: Field) -> Result<Self> {
        Err(field.missing())
    }

    fn read(arg: Arg<'a>, field: Field) -> Result<Self> {
        match arg {
            Arg::Value(Value::Missing) => Self::absent(field),
            Arg::Value(value) if Self::TAKES_NULL && value.is_nullish() => Self::absent(field),
            Arg::Value(value) => Self::from_value(value, field),
            Arg::Sequence(sequence) => Self::from_sequence(sequence, field),
        }
    }
}

impl<'a, T: FromArg<'a>> FromArg<'a> for Option<T> {
    const TAKES_NULL: bool = T::TAKES_NULL;

    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        T::from_value(value, field).map(Some)
    }

    fn from_sequence(sequence: Sequence<'a>, field: Field) -> Result<Self> {
        T::from_sequence(sequence, field).map(Some)
    }

    fn absent(_: Field) -> Result<Self> {
        Ok(None)
    }
}

/// Any value; an absent field is `Missing`, null stays null.
impl<'a> FromArg<'a> for Value<'a> {
    fn from_value(value: Value<'a>, _: Field) -> Result<Self> {
        Ok(value)
    }

    fn absent(_: Field) -> Result<Self> {
        Ok(Value::Missing)
    }

    fn read(arg: Arg<'a>, field: Field) -> Result<Self> {
        match arg {
            Arg::Value(value) => Ok(value),
            Arg::Sequence(sequence) => Self::from_sequence(sequence, field),
        }
    }
}

impl<'a> FromArg<'a> for &'a str {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        value.as_str().ok_or_else(|| field.wrong_type(value, "string"))
    }
}

impl<'a> FromArg<'a> for Doc<'a> {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        value.as_doc().ok_or_else(|| field.wrong_type(value, "object"))
    }
}

impl<'a> FromArg<'a> for Array<'a> {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        value.as_array().ok_or_else(|| field.wrong_type(value, "array"))
    }
}

impl<'a> FromArg<'a> for bool {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match value {
            Value::Bool(_) => Ok(value.is_truthy()),
            value if value.is_number() => Ok(value.is_truthy()),
            _ => Err(field.wrong_type(value, "bool, long, int, decimal, double")),
        }
    }
}

/// A boolean for which a number is refused: MongoDB has always checked the arguments of write commands strictly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StrictBool(pub(crate) bool);

impl<'a> FromArg<'a> for StrictBool {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match value {
            Value::Bool(given) => Ok(StrictBool(given)),
            _ => Err(field.wrong_type(value, "bool")),
        }
    }
}

/// A boolean for which both a number and an explicit null are refused: the flags of `find`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch(pub(crate) bool);

impl<'a> FromArg<'a> for Switch {
    const TAKES_NULL: bool = false;

    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match value {
            Value::Bool(given) => Ok(Switch(given)),
            _ => bail!(
                Code::TYPE_MISMATCH,
                "Field '{}' should be a boolean value, but found: {}",
                field.name,
                value.kind().name()
            ),
        }
    }
}

/// A boolean whose type MongoDB does not check: any value except false, null and zero is true. Where MongoDB checks the
/// type, an argument is a `bool`, a [`StrictBool`] or a [`Switch`]. Commands must test truthiness only through this
/// type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Truthy(pub(crate) bool);

impl<'a> FromArg<'a> for Truthy {
    fn from_value(value: Value<'a>, _: Field) -> Result<Self> {
        Ok(Truthy(value.is_truthy()))
    }

    fn absent(_: Field) -> Result<Self> {
        Ok(Truthy(false))
    }
}

/// Reads one field of a document that has no struct of arguments.
pub(crate) fn read<'a, T: FromArg<'a>>(
    doc: Doc<'a>,
    command: &'static str,
    name: &'static str,
) -> Result<T> {
    T::read(Arg::Value(doc.get(name)), Field { command, name })
}

/// The types of numbers, as errors list them.
const NUMBERS: &str = "long, int, decimal, double";

/// Any number, rounded toward zero and clamped to the range of int64; NaN is 0. Plain `i64` is no argument type on
/// purpose: the type of an argument must tell how fractions are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Truncated(pub(crate) i64);

impl<'a> FromArg<'a> for Truncated {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        truncate(value).map(Truncated).ok_or_else(|| field.wrong_type(value, NUMBERS))
    }
}

impl<'a> FromArg<'a> for f64 {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        number::as_f64(value).ok_or_else(|| field.wrong_type(value, NUMBERS))
    }
}

/// A number between two bounds after rounding toward zero (51024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Within<const LEAST: i64, const MOST: i64>(pub(crate) i64);

/// A number that is not negative after rounding toward zero.
pub(crate) type NonNegative = Within<0, { i64::MAX }>;

/// A number that is at least 1 after rounding toward zero.
pub(crate) type Positive = Within<1, { i64::MAX }>;

impl<'a, const LEAST: i64, const MOST: i64> FromArg<'a> for Within<LEAST, MOST> {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        let Truncated(n) = Truncated::from_value(value, field)?;
        let (bound, limit) = match n {
            n if n < LEAST => (">=", LEAST),
            n if n > MOST => ("<=", MOST),
            n => return Ok(Within(n)),
        };
        Err(field.out_of_bounds(bound, limit, n))
    }
}

/// A number that is less than a limit after rounding toward zero (51024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Below<const LIMIT: i64>;

impl<'a, const LIMIT: i64> FromArg<'a> for Below<LIMIT> {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match Truncated::from_value(value, field)?.0 {
            n if n < LIMIT => Ok(Below),
            n => Err(field.out_of_bounds("<", LIMIT, n)),
        }
    }
}

/// An int32; other numbers are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Int(pub(crate) i32);

impl<'a> FromArg<'a> for Int {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match value {
            Value::Int32(n) => Ok(Int(n)),
            _ => Err(field.wrong_type(value, "int")),
        }
    }
}

/// An int64 (a cursor id); other numbers are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Long(pub(crate) i64);

impl<'a> FromArg<'a> for Long {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match value {
            Value::Int64(n) => Ok(Long(n)),
            _ => Err(field.wrong_type(value, "long")),
        }
    }
}

/// The collection name in the first field of most commands. Another type is InvalidNamespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name<'a>(pub(crate) &'a str);

/// The collection name of insert, update, delete and killCursors. Another type is BadValue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StrictName<'a>(pub(crate) &'a str);

fn collection_name(value: Value<'_>, code: Code) -> Result<&str> {
    match value {
        Value::String(name) | Value::Symbol(name) => Ok(name),
        _ => bail!(code, "collection name has invalid type {}", value.kind().name()),
    }
}

impl<'a> FromArg<'a> for StrictName<'a> {
    fn from_value(value: Value<'a>, _: Field) -> Result<Self> {
        collection_name(value, Code::BAD_VALUE).map(StrictName)
    }

    fn read(arg: Arg<'a>, field: Field) -> Result<Self> {
        match arg {
            Arg::Value(Value::Missing) => Self::absent(field),
            Arg::Value(value) => Self::from_value(value, field),
            Arg::Sequence(sequence) => Self::from_sequence(sequence, field),
        }
    }
}

impl<'a> FromArg<'a> for Name<'a> {
    fn from_value(value: Value<'a>, _: Field) -> Result<Self> {
        collection_name(value, Code::INVALID_NAMESPACE).map(Name)
    }

    fn read(arg: Arg<'a>, field: Field) -> Result<Self> {
        match arg {
            Arg::Value(Value::Missing) => Self::absent(field),
            Arg::Value(value) => Self::from_value(value, field),
            Arg::Sequence(sequence) => Self::from_sequence(sequence, field),
        }
    }
}

/// Documents: an array of the body or a document sequence.
#[derive(Clone, Copy)]
pub(crate) struct Docs<'a> {
    source: Arg<'a>,
    field: Field,
}

impl<'a> FromArg<'a> for Docs<'a> {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match value {
            Value::Array(_) => Ok(Docs { source: Arg::Value(value), field }),
            _ => Err(field.wrong_type(value, "array")),
        }
    }

    fn from_sequence(sequence: Sequence<'a>, field: Field) -> Result<Self> {
        Ok(Docs { source: Arg::Sequence(sequence), field })
    }
}

impl<'a> Docs<'a> {
    /// The number of documents. Linear.
    pub(crate) fn count(&self) -> usize {
        match self.source {
            Arg::Value(Value::Array(array)) => array.count(),
            Arg::Value(_) => 0,
            Arg::Sequence(sequence) => sequence.iter().count(),
        }
    }

    /// Iterates over the documents; an array element of another type is an error (14).
    pub(crate) fn iter(&self) -> DocsIter<'a> {
        let field = self.field;
        match self.source {
            Arg::Value(Value::Array(array)) => DocsIter::Array(array.elements(), field),
            Arg::Value(_) => DocsIter::Array(Array::EMPTY.elements(), field),
            Arg::Sequence(sequence) => DocsIter::Sequence(sequence.bytes),
        }
    }
}

/// An iterator over [`Docs`].
#[derive(Clone)]
pub(crate) enum DocsIter<'a> {
    Array(Elements<'a>, Field),
    Sequence(&'a [u8]),
}

impl<'a> Iterator for DocsIter<'a> {
    type Item = Result<Doc<'a>>;

    fn next(&mut self) -> Option<Result<Doc<'a>>> {
        match self {
            DocsIter::Sequence(bytes) => Sequence::split(bytes).map(|(doc, rest)| {
                *bytes = rest;
                Ok(doc)
            }),
            DocsIter::Array(elements, field) => elements.next().map(|element| {
                element.value().as_doc().ok_or_else(|| {
                    err!(
                        Code::TYPE_MISMATCH,
                        "BSON field '{}.{}.{}' is the wrong type '{}', expected type 'object'",
                        field.command,
                        field.name,
                        element.name(),
                        element.kind().name()
                    )
                })
            }),
        }
    }
}

/// Refuses a field that is neither an argument of the command nor, at the top level, a generic one.
pub(crate) fn check_other(command: &'static str, name: &str, top: bool) -> Result<()> {
    match top && is_generic(name) {
        true => Ok(()),
        false => Err(unknown_field(command, name)),
    }
}

/// Declares a struct of arguments; see the module header.
macro_rules! args {
    ($command:literal => $name:ident { $( $field:ident : $type:ty = $key:literal ),* $(,)? }) => {
        #[allow(dead_code, reason = "an argument may be accepted without an effect")]
        pub(crate) struct $name<'a> {
            $( pub(crate) $field: $type, )*
            /// The document that the arguments were read from.
            pub(crate) source: nagi_bson::Doc<'a>,
        }
        #[allow(dead_code, reason = "some structs are only parsed at the top level, some only nested")]
        impl<'a> $name<'a> {
            /// Parses the body of a command.
            pub(crate) fn parse(request: &crate::request::Request<'a>) -> nagi_error::Result<Self> {
                Self::parse_with(request.body, request.sequences, true)
            }
            /// Parses a nested document, in which generic arguments are not allowed.
            pub(crate) fn parse_doc(doc: nagi_bson::Doc<'a>) -> nagi_error::Result<Self> {
                Self::parse_with(doc, &[], false)
            }
            fn parse_with(
                doc: nagi_bson::Doc<'a>,
                sequences: &[crate::request::Sequence<'a>],
                top: bool,
            ) -> nagi_error::Result<Self> {
                use crate::args::{Arg, Field, FromArg};
                $( let mut $field = Arg::Value(nagi_bson::Value::Missing); )*
                for element in doc {
                    match element.name() {
                        $( $key => {
                            if !matches!($field, Arg::Value(nagi_bson::Value::Missing)) {
                                return Err(Field { command: $command, name: $key }.duplicate());
                            }
                            $field = Arg::Value(element.value());
                        } )*
                        other => crate::args::check_other($command, other, top)?,
                    }
                }
                for sequence in sequences {
                    match sequence.name {
                        $( $key => $field = Arg::Sequence(*sequence), )*
                        other => return Err(crate::args::unknown_field($command, other)),
                    }
                }
                Ok($name {
                    $( $field: <$type as FromArg<'a>>::read(
                        $field,
                        Field { command: $command, name: $key },
                    )?, )*
                    source: doc,
                })
            }
        }
    };
}
pub(crate) use args;
