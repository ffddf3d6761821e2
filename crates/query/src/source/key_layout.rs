//! How the fields of an index key become a nested document, determined once for all keys.

use nagi_bson::{Doc, DocWriter, Value};

/// Indexes have no more fields.
const FIELDS_MAX: usize = 32;

/// The fields of a key are first decoded to a flat document, then nested in an order of their own. If the nested
/// document is the flat one, the second step is left out.
pub(super) struct Layout {
    /// For each field of the key up to the last decoded one, its name in the flat document; none for those that are
    /// passed over.
    names: Vec<Option<Box<str>>>,
    parts: Vec<Part>,
    plain: bool,
}

enum Part {
    Field {
        at: usize,
        name: Box<str>,
    },
    /// A document; it is left out if all of its fields are missing, wanted or not, whose bits `fields` has.
    Doc {
        name: Box<str>,
        fields: u32,
        parts: Vec<Part>,
    },
}

/// The name of a field in a flat document that is to be nested: a character that stands for its position.
fn letter(at: usize) -> char {
    char::from(b'A' + at as u8)
}

/// A field of the key that is decoded: its position, the rest of its path, and if it is part of the result. The others
/// are beside those in a document: if they have a value, the document is there.
type Decoded<'p> = (usize, &'p str, bool);

impl Layout {
    /// `paths`: those of the key pattern, at most [`FIELDS_MAX`].
    pub(super) fn new<'p>(
        paths: impl Iterator<Item = &'p str>,
        wanted: impl Fn(&str) -> bool,
    ) -> Layout {
        let paths: Vec<&str> = paths.take(FIELDS_MAX).collect();
        let beside = |path: &str| {
            head(path).is_some_and(|name| {
                paths.iter().any(|other| head(other) == Some(name) && wanted(other))
            })
        };
        let decoded = paths.iter().enumerate();
        let decoded = decoded.filter(|(_, path)| wanted(path) || beside(path));
        let mut fields: Vec<Decoded<'_>> =
            decoded.map(|(at, path)| (at, *path, wanted(path))).collect();
        let mut names = vec![None; fields.last().map_or(0, |(at, ..)| at + 1)];
        fields.sort_by_key(|(_, path, _)| path.split('.').next() != Some("_id"));
        let plain = fields.is_sorted() && fields.iter().all(|(_, path, _)| head(path).is_none());
        for (at, path, _) in &fields {
            let name = if plain { (*path).into() } else { letter(*at).to_string().into() };
            names[*at] = Some(name);
        }
        Layout { names, parts: parts(&fields), plain }
    }

    /// The names to decode with.
    pub(super) fn names(&self) -> impl Iterator<Item = Option<&str>> {
        self.names.iter().map(Option::as_deref)
    }

    /// True if the decoded document is the result.
    pub(super) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Nests a decoded document.
    pub(super) fn write(&self, flat: Doc<'_>, out: &mut DocWriter<'_>) {
        let (mut values, mut present) = ([Value::Missing; FIELDS_MAX], 0);
        for element in flat.iter() {
            let at = usize::from(element.name().as_bytes()[0] - b'A');
            values[at] = element.value();
            present |= 1 << at;
        }
        put(&self.parts, &values, present, out);
    }
}

/// The first name of a path of several.
fn head(path: &str) -> Option<&str> {
    path.split_once('.').map(|(head, _)| head)
}

/// Groups fields with the same first name, at the place of the first of them.
fn parts(fields: &[Decoded<'_>]) -> Vec<Part> {
    let mut all = Vec::new();
    for (position, (at, path, wanted)) in fields.iter().enumerate() {
        let Some(name) = head(path) else {
            if *wanted {
                all.push(Part::Field { at: *at, name: (*path).into() });
            }
            continue;
        };
        let same = |(_, path, _): &&Decoded<'_>| head(path) == Some(name);
        if fields[..position].iter().any(|field| same(&field)) {
            continue;
        }
        let inner = fields.iter().filter(same);
        let inner: Vec<Decoded<'_>> =
            inner.map(|(at, path, wanted)| (*at, &path[name.len() + 1..], *wanted)).collect();
        if inner.iter().any(|(.., wanted)| *wanted) {
            let fields = inner.iter().fold(0, |bits, (at, ..)| bits | 1 << at);
            all.push(Part::Doc { name: name.into(), fields, parts: parts(&inner) });
        }
    }
    all
}

fn put(parts: &[Part], values: &[Value<'_>; FIELDS_MAX], present: u32, out: &mut DocWriter<'_>) {
    for part in parts {
        match part {
            Part::Field { at, name } if present & 1 << at != 0 => out.put(name, values[*at]),
            Part::Doc { name, fields, parts } if present & fields != 0 => {
                out.doc(name, |out| put(parts, values, present, out));
            }
            Part::Field { .. } | Part::Doc { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::DocBuf;

    use super::*;

    /// The document of a key with the values 0, 1, .. at its paths, without those that are missing.
    fn nested(paths: &[&str], wanted: &[&str], missing: &[usize]) -> String {
        let layout = Layout::new(paths.iter().copied(), |path| wanted.contains(&path));
        let flat = DocBuf::build(|out| {
            for (at, name) in layout.names().enumerate() {
                if let Some(name) = name.filter(|_| !missing.contains(&at)) {
                    out.put(name, at as i32);
                }
            }
        });
        if layout.is_plain() {
            return format!("{:?}", flat.as_doc());
        }
        format!("{:?}", DocBuf::build(|out| layout.write(flat.as_doc(), out)).as_doc())
    }

    #[test]
    fn fields_are_nested_where_their_paths_say() {
        let all = ["b", "a.x", "c", "a.y.z", "_id", "a.y.w"];
        assert_eq!(
            nested(&all, &all, &[]),
            "{ _id: 4, b: 0, a: { x: 1, y: { z: 3, w: 5 } }, c: 2 }"
        );
        assert_eq!(nested(&all, &all, &[3, 5]), "{ _id: 4, b: 0, a: { x: 1 }, c: 2 }");
        assert_eq!(nested(&all, &all, &[1, 3, 5]), "{ _id: 4, b: 0, c: 2 }");
        assert_eq!(nested(&all, &["a.y.z"], &[]), "{ a: { y: { z: 3 } } }");
        // A document is there if any of its fields is.
        assert_eq!(nested(&all, &["a.y.z"], &[3]), "{ a: { y: {} } }");
        assert_eq!(nested(&all, &["a.y.z"], &[3, 5]), "{ a: {} }");
        assert_eq!(nested(&all, &["a.y.z"], &[1, 3, 5]), "{}");
        assert_eq!(nested(&all, &["a.x", "c"], &[1]), "{ a: {}, c: 2 }");
        assert_eq!(nested(&all, &["c"], &[]), "{ c: 2 }");
        assert_eq!(nested(&all, &[], &[]), "{}");
        assert_eq!(nested(&["a", "b"], &["a", "b"], &[0]), "{ b: 1 }");
    }
}
