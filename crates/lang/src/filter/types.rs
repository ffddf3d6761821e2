//! Sets of BSON types, which `$type` and `$jsonSchema` use.

use nagi_bson::{Type, Value};
use nagi_error::{Code, Result, bail, err};

/// A set of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TypeSet(u32);

/// All types that a stored value may have, in the order of their numbers in `$type`.
const TYPES: [Type; 21] = [
    Type::Double,
    Type::String,
    Type::Object,
    Type::Array,
    Type::BinData,
    Type::Undefined,
    Type::ObjectId,
    Type::Bool,
    Type::Date,
    Type::Null,
    Type::Regex,
    Type::DbPointer,
    Type::JavaScript,
    Type::Symbol,
    Type::JavaScriptWithScope,
    Type::Int,
    Type::Timestamp,
    Type::Long,
    Type::Decimal,
    Type::MaxKey,
    Type::MinKey,
];

const fn bit(kind: Type) -> u32 {
    match kind {
        Type::Missing => 0,
        Type::MaxKey => 1 << 30,
        Type::MinKey => 1 << 31,
        kind => 1 << (kind as u8),
    }
}

impl TypeSet {
    pub const EMPTY: TypeSet = TypeSet(0);
    /// The types of the alias "number".
    pub const NUMBERS: TypeSet =
        TypeSet(bit(Type::Double) | bit(Type::Int) | bit(Type::Long) | bit(Type::Decimal));

    pub const fn of(kind: Type) -> TypeSet {
        TypeSet(bit(kind))
    }

    #[must_use]
    pub const fn union(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }

    pub const fn contains(self, kind: Type) -> bool {
        self.0 & bit(kind) != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The types in the set.
    pub fn iter(self) -> impl Iterator<Item = Type> {
        TYPES.into_iter().filter(move |kind| self.contains(*kind))
    }

    /// The types of an alias, including "number".
    pub fn by_name(name: &str) -> Option<TypeSet> {
        if name == "number" {
            return Some(TypeSet::NUMBERS);
        }
        TYPES.into_iter().find(|kind| kind.name() == name).map(TypeSet::of)
    }

    /// Parses the operand of `$type`: a number, an alias, or an array of them.
    ///
    /// # Errors
    /// 14 for another type of operand, 2 for an unknown number or alias, 9 for an empty array.
    pub fn parse(field: &str, operand: Value<'_>) -> Result<TypeSet> {
        let Value::Array(list) = operand else {
            return TypeSet::parse_one(operand);
        };
        let mut set = TypeSet::EMPTY;
        for value in list.iter() {
            set = set.union(TypeSet::parse_one(value)?);
        }
        if list.is_empty() {
            bail!(Code::FAILED_TO_PARSE, "{field} must match at least one type");
        }
        Ok(set)
    }

    fn parse_one(value: Value<'_>) -> Result<TypeSet> {
        match value {
            Value::String(name) => TypeSet::by_name(name)
                .ok_or_else(|| err!(Code::BAD_VALUE, "Unknown type name alias: {name}")),
            value if nagi_bson::number::as_i64_exact(value) == Some(0) => bail!(
                Code::BAD_VALUE,
                "Invalid numerical type code: 0. Instead use {{$exists:false}}."
            ),
            value if value.is_number() => TypeSet::by_code(value)
                .ok_or_else(|| err!(Code::BAD_VALUE, "Invalid numerical type code: {value}")),
            _ => bail!(Code::TYPE_MISMATCH, "type must be represented as a number or a string"),
        }
    }

    fn by_code(value: Value<'_>) -> Option<TypeSet> {
        let code = nagi_bson::number::as_i64_exact(value)?;
        match code {
            -1 => Some(TypeSet::of(Type::MinKey)),
            0 => None,
            _ => TYPES
                .into_iter()
                .find(|kind| *kind != Type::MinKey && i64::from(*kind as u8) == code)
                .map(TypeSet::of),
        }
    }
}
