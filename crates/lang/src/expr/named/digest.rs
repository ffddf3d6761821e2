//! `$hash` and `$hexHash`: the hash of a string or of binary data.
use super::prelude::*;
use crate::hash;
use nagi_bson::{Binary, text::Hex};

pub(super) static OPS: &[Named] = &[
    Named { name: "$hash", eval: |given| Ok(digest(given)?.map_or(Value::Null, binary)), ..HASH },
    Named { name: "$hexHash", eval: hex, ..HASH },
];

const HASH: Named = Named {
    name: "",
    params: &[("input", Some(9)), ("algorithm", Some(9))],
    not_object: 9,
    unknown: 9,
    short: None,
    eval: hex,
};

fn hex<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    Ok(match digest(given)? {
        Some(bytes) => given.cx.text(&Hex(bytes).to_string().to_uppercase())?,
        None => Value::Null,
    })
}

fn binary(bytes: &[u8]) -> Value<'_> {
    Value::Binary(Binary { subtype: 0, bytes })
}

/// The bytes of the hash in the arena, most significant byte first; none if the input is null.
fn digest<'a>(given: &Given<'a, '_>) -> Result<Option<&'a [u8]>> {
    let (input, algorithm) = (given.value(0)?, given.value(1)?);
    let Value::String(algorithm) = algorithm else {
        bail!(
            Code::Location(10754001),
            "{} requires that 'algorithm' be a string, found: {} with value {algorithm}",
            given.name,
            type_name(algorithm)
        );
    };
    let function: fn(&[u8], &mut [u8; 32]) -> usize = match algorithm {
        "md5" => |input, out| put(out, &hash::md5(input)),
        "sha256" => |input, out| put(out, &hash::sha256(input)),
        "xxh64" => |input, out| put(out, &hash::xxh64(input).to_be_bytes()),
        _ => bail!(
            Code::Location(10754002),
            "{} does not know the algorithm '{algorithm}'",
            given.name
        ),
    };
    let bytes = match input {
        Value::String(text) => text.as_bytes(),
        Value::Binary(data) => data.bytes,
        value if value.is_nullish() => return Ok(None),
        other => bail!(
            Code::Location(10754000),
            "{} requires that 'input' be a valid UTF-8 string or binData, found: {} with value \
             {other}",
            given.name,
            type_name(other)
        ),
    };
    let mut out = [0; 32];
    let len = function(bytes, &mut out);
    Ok(Some(given.cx.arena.alloc_slice_copy(&out[..len])))
}

fn put(out: &mut [u8; 32], hash: &[u8]) -> usize {
    out[..hash.len()].copy_from_slice(hash);
    hash.len()
}
