//! The beginning of a large field of a command, for messages in which the command must be recognized.
//!
//! ```text
//!   {tenant: 5, a: {$in: [0, 1, 2, .. 9999]}, b: 1}  -->  {tenant: 5, a: {$in: [0, 1, 2, "..."]}, $truncated: true}
//! ```
//!
//! It stays a document, so that what hides secrets by the names of fields finds them.

use nagi_bson::{Array, ArrayWriter, Doc, DocWriter, Element, Value};

use crate::limits::STAGES_NAMED_MAX;

/// The field that marks a command of which not everything is shown.
pub(crate) const TRUNCATED: &str = "$truncated";

/// A longer name is none of a field or stage of the server.
pub(crate) const NAME_BYTES_MAX: usize = 64;
/// Limit of what is kept of a field.
const FIELD_BYTES_MAX: usize = 1024;
/// Limit of what is kept of a text.
const TEXT_BYTES_MAX: usize = 256;
/// What is deeper is left out.
const DEPTH_MAX: usize = 16;
/// Approximate bytes that an element has beside its name and value.
const ELEMENT_BYTES: usize = 4;

/// With less room nothing more is written of a list.
const ROOM_MIN: usize = 32;

const LEFT_OUT: &str = "...";

/// Writes the beginning of a field. Costs no more than that, however long its value is.
pub(crate) fn put_beginning(field: Element<'_>, out: &mut DocWriter<'_>) {
    let mut room = FIELD_BYTES_MAX;
    put(field, (&mut room, DEPTH_MAX), out);
}

/// Writes the beginning of a pipeline. Of each of its first stages at least the name is there; an element more says
/// that there are others. Costs no more than what it writes.
pub(crate) fn put_pipeline(name: &str, stages: Array<'_>, out: &mut DocWriter<'_>) {
    let mut room = FIELD_BYTES_MAX;
    out.array(name, |out| {
        for stage in stages.iter().take(STAGES_NAMED_MAX) {
            let first = stage.as_doc().and_then(|stage| stage.first());
            match first.filter(|field| field.name().len() <= NAME_BYTES_MAX) {
                Some(field) if room < ROOM_MIN => out.doc(|out| out.put(field.name(), LEFT_OUT)),
                Some(field) => out.doc(|out| put(field, (&mut room, DEPTH_MAX), out)),
                None => out.push(LEFT_OUT),
            }
        }
        if stages.iter().nth(STAGES_NAMED_MAX).is_some() {
            out.push(LEFT_OUT);
        }
    });
}

/// Takes the room of an element's value; false if there is not enough.
fn take(room: &mut usize, bytes: usize) -> bool {
    match room.checked_sub(bytes.saturating_add(ELEMENT_BYTES)) {
        Some(left) => {
            *room = left;
            true
        }
        None => false,
    }
}

fn cut(text: &str, room: &mut usize) -> String {
    let kept = &text[..text.floor_char_boundary(TEXT_BYTES_MAX.min(*room))];
    *room -= kept.len();
    format!("{kept}{LEFT_OUT}")
}

fn put(field: Element<'_>, (room, depth): (&mut usize, usize), out: &mut DocWriter<'_>) {
    let name = field.name();
    match field.value() {
        _ if take(room, field.value_bytes().len()) => out.put_element(field),
        Value::Doc(inner) if depth > 0 => {
            out.doc(name, |out| fill(inner, (room, depth - 1), out));
        }
        Value::Array(items) if depth > 0 => {
            out.array(name, |out| list(items, (room, depth - 1), out));
        }
        Value::String(text) => out.put(name, cut(text, room).as_str()),
        _ => out.put(name, LEFT_OUT),
    }
}

fn fill(doc: Doc<'_>, (room, depth): (&mut usize, usize), out: &mut DocWriter<'_>) {
    for field in doc {
        if !take(room, field.name().len()) {
            out.put(TRUNCATED, true);
            break;
        }
        put(field, (room, depth), out);
    }
}

fn list(items: Array<'_>, (room, depth): (&mut usize, usize), out: &mut ArrayWriter<'_>) {
    for item in items.elements() {
        match item.value() {
            value if take(room, item.value_bytes().len()) => out.push(value),
            // Not even the beginning of a value has room.
            _ if *room < ROOM_MIN => {
                out.push(LEFT_OUT);
                break;
            }
            Value::Doc(inner) if depth > 0 => out.doc(|out| fill(inner, (room, depth - 1), out)),
            Value::Array(items) if depth > 0 => {
                out.array(|out| list(items, (room, depth - 1), out));
            }
            Value::String(text) => out.push(cut(text, room).as_str()),
            _ => {
                out.push(LEFT_OUT);
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, json};

    use super::*;

    fn beginning(text: &str) -> DocBuf {
        let whole = json::parse(text).unwrap();
        DocBuf::build(|out| put_beginning(whole.as_doc().element("f").unwrap(), out))
    }

    #[test]
    fn a_long_list_has_its_first_elements() {
        let numbers: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
        let found = beginning(&format!(
            "{{f: {{tenant: 5, a: {{$in: [{}]}}, late: 1}}}}",
            numbers.join(", ")
        ));
        let text = json::to_relaxed(found.as_doc());
        assert!(text.starts_with(r#"{"f":{"tenant":5,"a":{"$in":[0,1,2,3,"#), "{text}");
        assert!(text.contains(r#","..."]"#), "{text}");
        assert!(found.as_doc().len() < 2 * FIELD_BYTES_MAX, "{text}");
    }

    #[test]
    fn texts_and_depth_are_bounded() {
        let text = |doc: &DocBuf| json::to_relaxed(doc.as_doc());
        let long = beginning(&format!("{{f: {{a: '{}', b: 2}}}}", "\u{e9}".repeat(5000)));
        assert!(text(&long).ends_with(r#"...","b":2}}"#), "{}", text(&long));
        assert!(long.as_doc().len() < 400, "{}", text(&long));
        let filler = "x".repeat(2000);
        let nested = format!("{}'{filler}'{}", "{a: ".repeat(100), "}".repeat(100));
        let deep = beginning(&format!("{{f: {nested}}}"));
        assert!(text(&deep).contains(r#"{"a":"..."}"#), "{}", text(&deep));
        let small = beginning("{f: {a: [1, {b: 2}]}}");
        assert_eq!(text(&small), r#"{"f":{"a":[1,{"b":2}]}}"#);
    }

    #[test]
    fn no_field_takes_more_than_its_room() {
        for filter in ["{a: 'x', b: {c: 1}}, ", "'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy', ", "[[[]]], "]
        {
            let found = beginning(&format!("{{f: [{}]}}", filter.repeat(5000)));
            assert!(found.as_doc().len() < 2 * FIELD_BYTES_MAX, "{}", found.as_doc().len());
        }
        let names: Vec<String> = (0..500).map(|n| format!("{}{n}: 1", "n".repeat(300))).collect();
        let found = beginning(&format!("{{f: {{{}}}}}", names.join(", ")));
        assert!(found.as_doc().len() < 2 * FIELD_BYTES_MAX, "{}", found.as_doc().len());
    }
}
