//! `$similarityCosine`, `$similarityDotProduct`, `$similarityEuclidean`: the similarity of two vectors.
//!
//! A vector is an array of numbers or binary data of subtype 9. Such data consists of a byte for the element type
//! (0x03 int8, 0x27 float32, 0x10 bits), a byte with the number of unused bits at the end, and the elements.
use super::prelude::*;

pub(super) static OPS: &[Named] = &[
    Named { name: "$similarityCosine", eval: |given| similarity(given, cosine), ..SIMILARITY },
    Named { name: "$similarityDotProduct", eval: |given| similarity(given, dot), ..SIMILARITY },
    Named {
        name: "$similarityEuclidean",
        eval: |given| similarity(given, euclidean),
        ..SIMILARITY
    },
];

const SIMILARITY: Named = Named {
    name: "",
    params: &[("vectors", Some(10413209)), ("score", None)],
    not_object: 10413208,
    unknown: 10413207,
    short: Some(vectors_alone),
    eval: |given| similarity(given, dot),
};

const VECTOR_SUBTYPE: u8 = 9;

/// Parses `[vector, vector]`, a short form of `{vectors: [vector, vector]}`.
fn vectors_alone(
    row: &'static Named,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Option<Args>> {
    let list = match value {
        Value::Doc(doc) => doc.get("vectors"),
        value => value,
    };
    match list {
        Value::Array(items) if items.count() == 2 => {}
        Value::Array(_) => {
            bail!(Code::Location(10413209), "{} requires exactly two vectors", row.name)
        }
        // The parser of named arguments reports missing and unknown arguments, and an argument that is not an object.
        other if other.is_missing() || !matches!(value, Value::Doc(_)) => return Ok(None),
        other => bail!(
            Code::Location(10413205),
            "vectors must be an array of expressions, but found {}",
            type_name(other)
        ),
    }
    match value {
        Value::Array(_) => Ok(Some(Box::new([Some(parse::operand(value, cx)?), None]))),
        _ => Ok(None),
    }
}

/// The result of a measure: the plain value, and the score derived from it.
struct Likeness {
    plain: f64,
    score: f64,
}

fn similarity<'a>(
    given: &Given<'a, '_>,
    measure: fn(&mut dyn Iterator<Item = (f64, f64)>) -> Likeness,
) -> Result<Value<'a>> {
    let Value::Array(pair) = given.value(0)? else {
        return Err(Error::bug("two vectors are always an array"));
    };
    let score = match given.value(1)? {
        Value::Bool(score) => score,
        value if value.is_nullish() => false,
        other => bail!(
            Code::Location(10413206),
            "score must be a boolean, but found {}",
            type_name(other)
        ),
    };
    let mut vectors = pair.iter();
    let (a, b) = (vectors.next().unwrap_or(Value::Null), vectors.next().unwrap_or(Value::Null));
    if a.is_nullish() || b.is_nullish() {
        return Ok(Value::Null);
    }
    let a = numbers(given, a, 10413203, "first")?;
    let b = numbers(given, b, 10413204, "second")?;
    if a.len() != b.len() {
        bail!(
            Code::Location(10413202),
            "Arguments to {} must be the same size, but the first is of size {} and the second is \
             of size {}",
            given.name,
            a.len(),
            b.len()
        );
    }
    let likeness = measure(&mut a.iter().copied().zip(b.iter().copied()));
    Ok(Value::Double(if score { likeness.score } else { likeness.plain }))
}

type Numbers<'a> = bumpalo::collections::Vec<'a, f64>;

/// The elements of a vector. `code` is the error for an element that is not a number in the argument `which`.
fn numbers<'a>(
    given: &Given<'a, '_>,
    vector: Value<'a>,
    code: i32,
    which: &str,
) -> Result<Numbers<'a>> {
    let mut out = Numbers::new_in(given.cx.arena);
    match vector {
        Value::Array(items) => {
            for item in items.iter() {
                let number = match item {
                    Value::Bool(bit) => Some(f64::from(u8::from(bit))),
                    item => number::as_f64(item),
                };
                let Some(number) = number else {
                    bail!(
                        Code::Location(code),
                        "All elements in the {which} argument to {} must be numeric or boolean",
                        given.name
                    );
                };
                out.push(number);
            }
        }
        Value::Binary(data) if data.subtype == VECTOR_SUBTYPE && unpack(data.bytes, &mut out) => {}
        other => bail!(
            Code::Location(10413200),
            "Arguments to {} must be arrays or binData vectors, but found type: {}",
            given.name,
            type_name(other)
        ),
    }
    Ok(out)
}

/// Appends the elements of a binary vector. Returns false if the bytes are not a valid vector.
fn unpack(bytes: &[u8], out: &mut Numbers<'_>) -> bool {
    match bytes {
        [] => {}
        [0x03, 0, elements @ ..] => out.extend(elements.iter().map(|b| f64::from(*b as i8))),
        [0x27, 0, elements @ ..] if elements.len() % 4 == 0 => {
            let words = elements.as_chunks::<4>().0;
            out.extend(words.iter().map(|w| f64::from(f32::from_le_bytes(*w))));
        }
        [0x10, unused @ 0..8, elements @ ..] if !elements.is_empty() || *unused == 0 => {
            let count = elements.len() * 8 - usize::from(*unused);
            out.extend((0..count).map(|at| f64::from(elements[at / 8] >> (7 - at % 8) & 1)));
        }
        _ => return false,
    }
    true
}

/// The elements of a binary vector as an array: ints for int8 and bits, doubles for float32.
pub(super) fn elements<'a>(cx: &Eval<'a>, vector: Value<'a>) -> Option<Value<'a>> {
    let Value::Binary(data) = vector else { return None };
    let mut numbers = Numbers::new_in(cx.arena);
    if data.subtype != VECTOR_SUBTYPE || !unpack(data.bytes, &mut numbers) {
        return None;
    }
    let floats = data.bytes.first() == Some(&0x27);
    let value = |n: f64| if floats { Value::Double(n) } else { Value::Int32(n as i32) };
    let array = cx.array(|out| {
        numbers.iter().for_each(|n| out.push(value(*n)));
        Ok(())
    });
    array.ok()
}

fn dot(pairs: &mut dyn Iterator<Item = (f64, f64)>) -> Likeness {
    let plain = pairs.fold(0.0, |sum, (a, b)| sum + a * b);
    Likeness { plain, score: (1.0 + plain) / 2.0 }
}

/// The result is 0 if the length of a vector is 0.
fn cosine(pairs: &mut dyn Iterator<Item = (f64, f64)>) -> Likeness {
    let (mut product, mut square_a, mut square_b) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        product += a * b;
        square_a += a * a;
        square_b += b * b;
    }
    let lengths = f64::sqrt(square_a) * f64::sqrt(square_b);
    let plain = if lengths == 0.0 { 0.0 } else { product / lengths };
    Likeness { plain, score: (1.0 + plain) / 2.0 }
}

fn euclidean(pairs: &mut dyn Iterator<Item = (f64, f64)>) -> Likeness {
    let plain = f64::sqrt(pairs.fold(0.0, |sum, (a, b)| sum + (a - b) * (a - b)));
    Likeness { plain, score: 1.0 / (1.0 + plain) }
}
