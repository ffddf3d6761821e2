//! The difference of two documents as an oplog update of version 2, the format of MongoDB 5.0 and later.
//!
//!   {d: {gone: false}, u: {changed: value}, i: {new: value}, s<field>: difference}      of a document
//!   {a: true, l: length, u<index>: value, s<index>: difference}                         of an array
//!
//! Fields that keep their order are compared in it. A field that moved is removed and appended again, as applying the
//! difference appends new fields. A difference that is not smaller than the value itself is replaced by the value.

use std::collections::HashSet;

use nagi_bson::{Array, Doc, DocWriter, Value};

use crate::EditKind;

/// The changes of a document.
#[derive(Default)]
struct DocDelta<'d> {
    gone: Vec<&'d str>,
    changed: Vec<(&'d str, Value<'d>)>,
    new: Vec<(&'d str, Value<'d>)>,
    inside: Vec<(&'d str, Delta<'d>)>,
}

/// The changes of an array.
#[derive(Default)]
struct ArrayDelta<'d> {
    /// The new length, if the array became shorter.
    length: Option<usize>,
    items: Vec<(usize, Item<'d>)>,
}

enum Item<'d> {
    Changed(Value<'d>),
    Inside(Delta<'d>),
}

enum Delta<'d> {
    Doc(DocDelta<'d>),
    Array(ArrayDelta<'d>),
}

/// The least bytes of an element beside its name and value, and of a document.
const ELEMENT_BYTES: usize = 2;
const DOC_BYTES: usize = 5;
/// A difference may be so much longer than the document: `{a: 1}` to `{a: 2}` is still a difference.
const ENVELOPE_BYTES: usize = 64;
/// So many names are compared one by one.
const COMPARED_MAX: usize = 8;

/// Writes `o` of an update: the difference of two documents, or the second one if that is not larger. Recursion is as
/// deep as the documents, whose depth is limited.
///
/// `edit`: modifiers name the paths that they change, so inner documents are compared field by field even if that is
/// longer. Of a pipeline only the result is known, and the shorter form is logged, as MongoDB does.
pub(super) fn write(before: Doc<'_>, after: Doc<'_>, edit: EditKind, out: &mut DocWriter<'_>) {
    let delta = DocDelta::of(before, after, edit);
    if delta.is_ambiguous([before, after]) || delta.bytes() > after.len() + ENVELOPE_BYTES {
        return out.put("o", after);
    }
    out.doc("o", |out| {
        out.put("$v", 2);
        out.doc("diff", |out| delta.write(out));
    });
}

impl<'d> DocDelta<'d> {
    fn of(before: Doc<'d>, after: Doc<'d>, edit: EditKind) -> DocDelta<'d> {
        let mut delta = DocDelta::default();
        let (mut olds, mut news) = (before.iter().peekable(), after.iter().peekable());
        while let (Some(old), Some(new)) = (olds.peek(), news.peek()) {
            if old.name() != new.name() {
                delta.gone.push(old.name());
                olds.next();
                continue;
            }
            let (name, old, new) = (new.name(), old.value(), new.value());
            match changed(old, new, edit) {
                None => {}
                Some(Item::Changed(value)) => delta.changed.push((name, value)),
                Some(Item::Inside(inner)) => delta.inside.push((name, inner)),
            }
            olds.next();
            news.next();
        }
        delta.gone.extend(olds.map(|old| old.name()));
        delta.new.extend(news.map(|new| (new.name(), new.value())));
        // What moved is only appended again.
        if !delta.gone.is_empty() && !delta.new.is_empty() {
            let new: HashSet<&str> = delta.new.iter().map(|(name, _)| *name).collect();
            delta.gone.retain(|gone| !new.contains(gone));
        }
        delta
    }

    /// True if one of the documents has a changed field more than once: names do not tell which of them is meant.
    fn is_ambiguous(&self, documents: [Doc<'_>; 2]) -> bool {
        let names = self.gone.iter().copied();
        let names = names.chain(self.changed.iter().chain(&self.new).map(|(name, _)| *name));
        let names: Vec<&str> = names.chain(self.inside.iter().map(|(name, _)| *name)).collect();
        // Most updates change few fields.
        let set: HashSet<&str> = match names.len() {
            0..=COMPARED_MAX => HashSet::new(),
            _ => names.iter().copied().collect(),
        };
        let is_changed = |name: &str| match set.is_empty() {
            true => names.contains(&name),
            false => set.contains(name),
        };
        let mut seen = Vec::with_capacity(names.len());
        documents.into_iter().any(|document| {
            seen.clear();
            seen.extend(document.iter().map(|field| field.name()).filter(|name| is_changed(name)));
            seen.sort_unstable();
            seen.windows(2).any(|pair| pair[0] == pair[1])
        })
    }

    /// True if fields went and others came: the document was probably set as a whole.
    fn exchanges_fields(&self) -> bool {
        let came = !self.changed.is_empty() || !self.new.is_empty();
        came && !self.gone.is_empty()
    }

    fn write(&self, out: &mut DocWriter<'_>) {
        if !self.gone.is_empty() {
            out.doc("d", |out| self.gone.iter().for_each(|name| out.put(name, false)));
        }
        for (section, values) in [("u", &self.changed), ("i", &self.new)] {
            if !values.is_empty() {
                out.doc(section, |out| {
                    values.iter().for_each(|(name, value)| out.put(name, *value))
                });
            }
        }
        for (name, inner) in &self.inside {
            out.doc(&format!("s{name}"), |out| inner.write(out));
        }
    }

    fn bytes(&self) -> usize {
        let value =
            |(name, value): &(&str, Value<'_>)| ELEMENT_BYTES + name.len() + bytes_of(*value);
        DOC_BYTES
            + self.gone.iter().map(|name| ELEMENT_BYTES + name.len() + 1).sum::<usize>()
            + self.changed.iter().chain(&self.new).map(value).sum::<usize>()
            + self.inside.iter().map(|(name, inner)| name.len() + inner.bytes()).sum::<usize>()
    }
}

impl<'d> ArrayDelta<'d> {
    fn of(before: Array<'d>, after: Array<'d>, edit: EditKind) -> ArrayDelta<'d> {
        let (mut olds, mut items, mut count) = (before.iter(), Vec::new(), 0);
        for new in after.iter() {
            let change = match olds.next() {
                Some(old) => changed(old, new, edit),
                None => Some(Item::Changed(new)),
            };
            items.extend(change.map(|change| (count, change)));
            count += 1;
        }
        ArrayDelta { length: olds.next().map(|_| count), items }
    }

    fn write(&self, out: &mut DocWriter<'_>) {
        out.put("a", true);
        if let Some(length) = self.length {
            out.put("l", length as i32);
        }
        for (at, item) in &self.items {
            match item {
                Item::Changed(value) => out.put(&format!("u{at}"), *value),
                Item::Inside(inner) => out.doc(&format!("s{at}"), |out| inner.write(out)),
            }
        }
    }

    fn bytes(&self) -> usize {
        let item = |(_, item): &(usize, Item<'_>)| match item {
            Item::Changed(value) => ELEMENT_BYTES + 2 + bytes_of(*value),
            Item::Inside(inner) => ELEMENT_BYTES + 2 + inner.bytes(),
        };
        2 * DOC_BYTES + self.items.iter().map(item).sum::<usize>()
    }
}

impl Delta<'_> {
    fn write(&self, out: &mut DocWriter<'_>) {
        match self {
            Delta::Doc(delta) => delta.write(out),
            Delta::Array(delta) => delta.write(out),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Delta::Doc(delta) => delta.bytes(),
            Delta::Array(delta) => delta.bytes(),
        }
    }
}

/// How a value changed; none if it is the same to the byte.
fn changed<'d>(old: Value<'d>, new: Value<'d>, edit: EditKind) -> Option<Item<'d>> {
    if old.same_bytes(&new) {
        return None;
    }
    let (inner, exchanged) = match (old, new) {
        (Value::Doc(old), Value::Doc(new)) => {
            let inner = DocDelta::of(old, new, edit);
            if inner.is_ambiguous([old, new]) {
                return Some(Item::Changed(Value::Doc(new)));
            }
            let exchanged = inner.exchanges_fields();
            (Delta::Doc(inner), exchanged)
        }
        (Value::Array(old), Value::Array(new)) => {
            let inner = ArrayDelta::of(old, new, edit);
            let several = inner.items.len() + usize::from(inner.length.is_some()) > 1;
            (Delta::Array(inner), several)
        }
        _ => return Some(Item::Changed(new)),
    };
    let named = edit == EditKind::Modifiers && !exchanged;
    match named || inner.bytes() < bytes_of(new) {
        true => Some(Item::Inside(inner)),
        false => Some(Item::Changed(new)),
    }
}

/// About the bytes of a value.
fn bytes_of(value: Value<'_>) -> usize {
    match value {
        Value::Doc(doc) => doc.len(),
        Value::Array(array) => array.as_bytes().len(),
        Value::String(text) | Value::Symbol(text) | Value::Code(text) => DOC_BYTES + text.len(),
        Value::Binary(binary) => DOC_BYTES + binary.bytes.len(),
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::{DocBuf, json};

    fn check(before: &str, after: &str, expect: &str) {
        check_by(EditKind::Pipeline, before, after, expect);
    }

    fn check_by(edit: EditKind, before: &str, after: &str, expect: &str) {
        let [before, after] = [before, after].map(|text| json::parse(text).unwrap());
        let entry = DocBuf::build(|out| write(before.as_doc(), after.as_doc(), edit, out));
        let object = entry.get("o").as_doc().unwrap();
        match object.get("diff") {
            Value::Doc(diff) => assert_eq!(diff.to_string(), expect),
            _ => assert_eq!(object.to_string(), expect),
        }
    }

    #[test]
    fn modifiers_are_logged_by_path() {
        let check = |before, after, expect| check_by(EditKind::Modifiers, before, after, expect);
        check("{o: {p: 1}}", "{o: {p: 2}}", "{ so: { u: { p: 2 } } }");
        check("{o: {p: 1}}", "{o: {}}", "{ so: { d: { p: false } } }");
        check("{o: {}}", "{o: {p: 1}}", "{ so: { i: { p: 1 } } }");
        check("{o: {p: 1}}", "{o: {q: 1}}", "{ u: { o: { q: 1 } } }");
        check("{a: [{b: 1}]}", "{a: [{b: 2}]}", "{ sa: { a: true, s0: { u: { b: 2 } } } }");
        check("{a: [1]}", "{a: [1, 2]}", "{ sa: { a: true, u1: 2 } }");
        check("{a: [1, 2, 3]}", "{a: [2, 3]}", "{ u: { a: [ 2, 3 ] } }");
    }

    #[test]
    fn fields_of_which_there_are_two_are_logged_as_a_whole() {
        let check = |before, after, expect| check_by(EditKind::Modifiers, before, after, expect);
        check("{_id: 1, a: 1, a: 2}", "{_id: 1, a: 2}", "{ _id: 1, a: 2 }");
        check("{_id: 1, a: 1, b: 1, a: 2}", "{_id: 1, a: 2, b: 1}", "{ _id: 1, a: 2, b: 1 }");
        check("{_id: 1, a: 1, a: 2, q: 1}", "{_id: 1, a: 1, a: 2, q: 2}", "{ u: { q: 2 } }");
        check(
            "{_id: 1, o: {a: 1, a: 2}, q: 1}",
            "{_id: 1, o: {a: 2}, q: 1}",
            "{ u: { o: { a: 2 } } }",
        );
    }

    #[test]
    fn differences_are_those_of_mongodb() {
        check("{_id: 1, a: 1}", "{_id: 1, a: 1}", "{}");
        check(
            "{_id: 1, a: 1, b: 2}",
            "{_id: 1, b: 3, c: 4}",
            "{ d: { a: false }, u: { b: 3 }, i: { c: 4 } }",
        );
        check("{a: 1, b: 2, c: 3}", "{b: 2, a: 1, c: 3}", "{ i: { a: 1, c: 3 } }");
        let long = "x".repeat(60);
        check(
            &format!("{{o: {{p: 1, q: '{long}'}}}}"),
            &format!("{{o: {{p: 2, q: '{long}'}}}}"),
            "{ so: { u: { p: 2 } } }",
        );
        check("{o: {p: 1}}", "{o: {p: 2}}", "{ u: { o: { p: 2 } } }");
        check(
            &format!("{{a: [1, '{long}', 3, 4]}}"),
            &format!("{{a: [1, '{long}', 5]}}"),
            "{ sa: { a: true, l: 3, u2: 5 } }",
        );
        check(
            &format!("{{a: [{{x: 1, y: '{long}'}}]}}"),
            &format!("{{a: [{{x: 2, y: '{long}'}}, 7]}}"),
            "{ sa: { a: true, s0: { u: { x: 2 } }, u1: 7 } }",
        );
        // All fields are others: the document is shorter.
        let names = |prefix: &str| {
            (0..50).map(|n| format!("{prefix}{n}: 1")).collect::<Vec<_>>().join(", ")
        };
        check(
            &format!("{{_id: 1, {}}}", names("long_names_of_fields_before_the_change_")),
            &format!("{{_id: 1, {}}}", names("b")),
            &format!("{{ _id: 1, {} }}", names("b")),
        );
        // Numbers of another type are other bytes.
        check("{a: 1}", "{a: NumberLong(1)}", "{ u: { a: 1 } }");
    }
}
