//! Applies oplog updates of version 2, the format of MongoDB 5.0 and later: the difference of two documents. The
//! inverse of `delta`.
//!
//!   {d: {gone: false}, u: {changed: value}, i: {new: value}, s<field>: difference}      of a document
//!   {a: true, l: length, u<index>: value, s<index>: difference}                         of an array
//!
//! New fields are appended. Applying a difference twice gives the same result as applying it once.

use nagi_bson::{Array, ArrayWriter, Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};

/// The largest array that a difference may produce.
const ARRAY_COUNT_MAX: usize = 1_000_000;

/// Writes `old` with `diff` applied. Recursion is as deep as `diff`, and the wire protocol limits that depth.
///
/// # Errors
/// 4770503, 4770512 for unknown parts of a difference, 2 if it makes an array too long.
pub fn patch(old: Doc<'_>, diff: Doc<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    check_sections(diff)?;
    let part = |name: &str| diff.get(name).as_doc().unwrap_or(Doc::EMPTY);
    let (gone, changed, new) = (part("d"), part("u"), part("i"));
    for element in old {
        let name = element.name();
        if gone.element(name).is_some() || new.element(name).is_some() {
            continue;
        }
        match (changed.element(name), diff.element(&format!("s{name}"))) {
            (Some(value), _) => out.put(name, value.value()),
            (None, Some(inner)) => apply_inside(element.value(), inner.value(), name, out)?,
            (None, None) => out.put_element(element),
        }
    }
    changed.iter().filter(|e| old.element(e.name()).is_none()).for_each(|e| out.put_element(e));
    new.iter().for_each(|e| out.put_element(e));
    Ok(())
}

fn check_sections(diff: Doc<'_>) -> Result<()> {
    for section in diff {
        let known = matches!(section.name(), "d" | "u" | "i") || section.name().starts_with('s');
        if !known || section.value().as_doc().is_none() {
            bail!(Code::Location(4_770_503), "Unexpected field in $v:2 update: {}", section.name());
        }
    }
    Ok(())
}

fn apply_inside(
    old: Value<'_>,
    diff: Value<'_>,
    name: &str,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let diff = diff.as_doc().unwrap_or(Doc::EMPTY);
    match (old, diff.get("a") == Value::Bool(true)) {
        (Value::Doc(old), false) => out.doc(name, |out| patch(old, diff, out)),
        (Value::Array(old), true) => out.array(name, |out| apply_array(old, diff, out)),
        // The value has another type: a later entry, which was applied before, has replaced it.
        (other, _) => {
            out.put(name, other);
            Ok(())
        }
    }
}

fn apply_array(old: Array<'_>, diff: Doc<'_>, out: &mut ArrayWriter<'_>) -> Result<()> {
    let length = nagi_bson::number::truncate_to_i64(diff.get("l")).map(|n| n.max(0) as usize);
    let index = |name: &str| name.get(1..).and_then(|digits| digits.parse::<usize>().ok());
    let changes = || diff.iter().filter(|e| !matches!(e.name(), "a" | "l"));
    let last = changes().filter_map(|e| index(e.name())).max().map_or(0, |at| at + 1);
    let count = length.unwrap_or_else(|| old.count().max(last));
    if count > ARRAY_COUNT_MAX {
        bail!(Code::BAD_VALUE, "an array difference makes more than {ARRAY_COUNT_MAX} elements");
    }
    let mut olds = old.iter();
    for at in 0..count {
        let value = olds.next().unwrap_or(Value::Null);
        let change = changes().find(|e| index(e.name()) == Some(at));
        match change.map(|e| (e.name().as_bytes().first().copied(), e.value())) {
            None => out.push(value),
            Some((Some(b'u'), new)) => out.push(new),
            Some((Some(b's'), Value::Doc(inner))) => {
                match (value, inner.get("a") == Value::Bool(true)) {
                    (Value::Doc(old), false) => out.doc(|out| patch(old, inner, out))?,
                    (Value::Array(old), true) => out.array(|out| apply_array(old, inner, out))?,
                    (other, _) => out.push(other),
                }
            }
            Some(_) => bail!(Code::Location(4_770_512), "Unexpected field in an array difference"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, json};

    use super::*;

    fn check(old: &str, diff: &str, expect: &str) {
        let (old, diff) = (json::parse(old).unwrap(), json::parse(diff).unwrap());
        let once = |old: &DocBuf| {
            let mut result = Ok(());
            let new = DocBuf::build(|w| result = patch(old.as_doc(), diff.as_doc(), w));
            result.map(|()| new)
        };
        let new = match once(&old) {
            Ok(new) => new,
            Err(error) => return assert_eq!(format!("{}", error.code().0), expect),
        };
        assert_eq!(new.as_doc().to_string(), expect);
        assert_eq!(once(&new).unwrap().as_doc().to_string(), expect, "twice");
    }

    #[test]
    fn differences_apply_once_and_twice_alike() {
        check(
            "{_id: 1, a: 1, b: 2}",
            "{d: {a: false}, u: {b: 3}, i: {c: 4}}",
            "{ _id: 1, b: 3, c: 4 }",
        );
        check(
            "{_id: 1, a: {x: 1, y: 2}}",
            "{sa: {u: {x: 5}, d: {y: false}}}",
            "{ _id: 1, a: { x: 5 } }",
        );
        check("{a: [1, 2, 3]}", "{sa: {a: true, l: 2, u0: 9}}", "{ a: [ 9, 2 ] }");
        check(
            "{a: [1, {b: 1}]}",
            "{sa: {a: true, s1: {u: {b: 2}}, u3: 4}}",
            "{ a: [ 1, { b: 2 }, null, 4 ] }",
        );
        check("{a: 5}", "{sa: {u: {x: 1}}}", "{ a: 5 }");
        check("{a: 5}", "{x: {a: 1}}", "4770503");
        check("{a: [1]}", "{sa: {a: true, q0: 1}}", "4770512");
        check("{a: [1]}", "{sa: {a: true, u99999999: 1}}", "2");
    }
}
