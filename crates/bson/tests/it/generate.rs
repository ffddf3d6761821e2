//! Generators of values of every type, which are often equal or nearly equal to each other.

use nagi_bson::{Binary, Decimal128, DocBuf, Regex, Value, ValueBuf, ValueSlot};
use proptest::prelude::*;

/// A value that owns its data.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Plain(ValueBuf),
    Doc(Vec<(String, Tree)>),
    Array(Vec<Tree>),
}

impl Tree {
    fn write(&self, slot: ValueSlot<'_>) {
        match self {
            Tree::Plain(value) => slot.put(value.value()),
            Tree::Doc(fields) => slot.doc(|w| {
                for (name, tree) in fields {
                    tree.write(w.slot(name));
                }
            }),
            Tree::Array(items) => slot.array(|w| {
                for tree in items {
                    tree.write(w.slot());
                }
            }),
        }
    }

    pub(crate) fn to_value(&self) -> ValueBuf {
        let doc = DocBuf::build(|w| self.write(w.slot("v")));
        ValueBuf::new(doc.get("v"))
    }
}

fn number() -> impl Strategy<Value = ValueBuf> {
    let edge = prop_oneof![
        Just(0_i64),
        Just(1),
        Just(-1),
        Just(i64::MAX),
        Just(i64::MIN),
        Just(1 << 53),
        Just((1 << 53) + 1),
        -3_i64..3,
        any::<i64>(),
    ];
    let decimal = (any::<i64>(), -40_i32..40).prop_map(|(n, e)| format!("{n}E{e}"));
    let decimal = prop_oneof![
        decimal,
        prop::sample::select(vec![
            "NaN",
            "Infinity",
            "-Infinity",
            "-0",
            "1E-6176",
            "9E+6144",
            "0.1"
        ])
        .prop_map(str::to_owned),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
    ];
    prop_oneof![
        edge.clone().prop_map(|n| ValueBuf::new(Value::Int64(n))),
        edge.clone().prop_map(|n| ValueBuf::new(Value::Int32(n as i32))),
        edge.clone().prop_map(|n| ValueBuf::new(Value::Double(n as f64))),
        any::<f64>().prop_map(|n| ValueBuf::new(Value::Double(n))),
        edge.prop_map(|n| ValueBuf::new(Value::Decimal128(Decimal128::from_i64(n)))),
        decimal.prop_map(|text| {
            ValueBuf::new(Value::Decimal128(Decimal128::parse(&text).unwrap_or(Decimal128::ONE)))
        }),
    ]
}

fn leaf() -> impl Strategy<Value = ValueBuf> {
    let constants = vec![
        Value::Null,
        Value::Undefined,
        Value::MinKey,
        Value::MaxKey,
        Value::Bool(true),
        Value::Bool(false),
    ];
    prop_oneof![
        4 => number(),
        2 => prop::sample::select(constants).prop_map(ValueBuf::new),
        2 => "[ab\u{0}\u{e9}]{0,3}".prop_map(|s| ValueBuf::new(Value::String(&s))),
        1 => "[ab]{0,2}".prop_map(|s| ValueBuf::new(Value::Symbol(&s))),
        1 => "[ab]{0,2}".prop_map(|s| ValueBuf::new(Value::Code(&s))),
        1 => (0_u8..6, prop::collection::vec(0_u8..3, 4..7)).prop_map(|(subtype, mut bytes)| {
            if subtype == 2 {
                let inner = bytes.len() as i32;
                bytes.splice(0..0, inner.to_le_bytes());
            }
            ValueBuf::new(Value::Binary(Binary { subtype, bytes: &bytes }))
        }),
        1 => prop::array::uniform12(0_u8..2).prop_map(|id| ValueBuf::new(Value::ObjectId(&id))),
        1 => any::<i64>().prop_map(|n| ValueBuf::new(Value::DateTime(n))),
        1 => any::<u64>().prop_map(|n| ValueBuf::new(Value::Timestamp(n))),
        1 => ("[ab]{0,2}", "[im]{0,1}").prop_map(|(pattern, flags)| {
            let bytes = format!("{pattern}\0{flags}\0");
            ValueBuf::new(Value::Regex(Regex::from_bytes(bytes.as_bytes()).expect("two zeros")))
        }),
    ]
}

/// Any value, nested up to a few levels.
pub(crate) fn tree() -> impl Strategy<Value = Tree> {
    leaf().prop_map(Tree::Plain).prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(("[ab]{0,1}", inner.clone()), 0..3).prop_map(Tree::Doc),
            prop::collection::vec(inner, 0..3).prop_map(Tree::Array),
        ]
    })
}
