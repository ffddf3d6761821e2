//! Conversions between documents and arrays: `$arrayToObject`, `$objectToArray`.
use std::collections::{HashMap, hash_map::Entry};

use foldhash::fast::RandomState;

use super::prelude::*;

pub(super) static OPS: &[Operator] =
    &[unary("$arrayToObject", array_to_object), unary("$objectToArray", object_to_array)];

fn object_to_array<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let Value::Doc(doc) = args[0] else {
        bail!(
            Code::Location(40390),
            "$objectToArray requires a document input, found: {}",
            type_name(args[0])
        );
    };
    cx.array(|out| {
        for element in doc {
            out.doc(|out| {
                out.put("k", element.name());
                out.put("v", element.value());
            });
            cx.check_written(out.len())?;
        }
        Ok(())
    })
}

/// A key-value pair of `$arrayToObject`.
type Pair<'a> = (&'a str, Value<'a>);

fn array_to_object<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let Value::Array(items) = args[0] else {
        bail!(
            Code::Location(40386),
            "$arrayToObject requires an array input, found: {}",
            type_name(args[0])
        );
    };
    cx.check_work(4 * items.count() * size_of::<Pair<'a>>())?;
    let mut pairs: Vec<Pair<'a>> = Vec::new();
    let mut places = HashMap::<&str, usize, RandomState>::default();
    let mut first = Value::Missing;
    for item in items.iter() {
        let pair = match (item, first) {
            (Value::Array(pair), Value::Missing | Value::Array(_)) => pair_of_array(pair)?,
            (Value::Doc(pair), Value::Missing | Value::Doc(_)) => pair_of_doc(pair)?,
            (other, Value::Missing) => bail!(
                Code::Location(40398),
                "Unrecognised input type format for $arrayToObject: {}",
                type_name(other)
            ),
            (other, Value::Array(_)) => bail!(
                Code::Location(40396),
                "$arrayToObject requires a consistent input format. Elements must all be arrays \
                 or all be objects. Array was detected, now found: {}",
                type_name(other)
            ),
            (other, _) => bail!(
                Code::Location(40391),
                "$arrayToObject requires a consistent input format. Elements must all be arrays \
                 or all be objects. Object was detected, now found: {}",
                type_name(other)
            ),
        };
        if first.is_missing() {
            first = item;
        }
        check_key(pair.0, item)?;
        // A repeated key keeps its first position and gets the last value.
        match places.entry(pair.0) {
            Entry::Occupied(place) => pairs[*place.get()].1 = pair.1,
            Entry::Vacant(place) => {
                place.insert(pairs.len());
                pairs.push(pair);
            }
        }
    }
    cx.doc(|out| {
        pairs.iter().try_for_each(|(key, value)| {
            out.put(key, cx.fitting(out.len(), *value)?);
            cx.check_written(out.len())
        })
    })
}

fn check_key(key: &str, item: Value<'_>) -> Result<()> {
    if key.contains('\0') {
        let code = if matches!(item, Value::Array(_)) { 4940400 } else { 4940401 };
        bail!(Code::Location(code), "Key field cannot contain an embedded null byte");
    }
    Ok(())
}

fn pair_of_array<'a>(pair: Array<'a>) -> Result<Pair<'a>> {
    let count = pair.count();
    if count != 2 {
        bail!(
            Code::Location(40397),
            "$arrayToObject requires an array of size 2 arrays,found array of size: {count}"
        );
    }
    match pair.get(0) {
        Value::String(key) => Ok((key, pair.get(1))),
        other => bail!(
            Code::Location(40395),
            "$arrayToObject requires an array of key-value pairs, where the key must be of type \
             string. Found key type: {}",
            type_name(other)
        ),
    }
}

fn pair_of_doc<'a>(pair: Doc<'a>) -> Result<Pair<'a>> {
    let count = pair.count();
    if count != 2 {
        bail!(
            Code::Location(40392),
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of \
             keys:{count}"
        );
    }
    let (key, value) = (pair.get("k"), pair.get("v"));
    if key.is_missing() || value.is_missing() {
        bail!(
            Code::Location(40393),
            "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both \
             keys from: {pair}"
        );
    }
    match key {
        Value::String(key) => Ok((key, value)),
        other => bail!(
            Code::Location(40394),
            "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' \
             must be of type string. Found type: {}",
            type_name(other)
        ),
    }
}
