//! How the fields of an index key become a nested document, determined once for all keys.

use nagi_bson::{Doc, DocWriter, Value};

/// Indexes have no more fields.
const FIELDS_MAX: usize = 32;

/// The fields of a key are first decoded to a flat document, then nested in an order of their own. If the nested
/// document is the flat one, the second step is left out.
pub(super) struct Layout {
    /// For each field of the key up to the last wanted one, its name in the flat document; none for those that are
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
    /// A document; it is left out if all of its fields are missing, whose bits `fields` has.
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

impl Layout {
    /// `paths`: those of the key pattern, at most [`FIELDS_MAX`].
    pub(super) fn new<'p>(
        paths: impl Iterator<Item = &'p str>,
        wanted: impl Fn(&str) -> bool,
    ) -> Layout {
        let mut paths: Vec<Option<&str>> =
            paths.take(FIELDS_MAX).map(|path| wanted(path).then_some(path)).collect();
        let last = paths.iter().rposition(Option::is_some);
        paths.truncate(last.map_or(0, |last| last + 1));
        let fields = paths.iter().enumerate().filter_map(|(at, path)| Some((at, (*path)?)));
        let mut fields: Vec<(usize, &str)> = fields.collect();
        fields.sort_by_key(|(_, path)| path.split('.').next() != Some("_id"));
        let plain = fields.is_sorted() && fields.iter().all(|(_, path)| !path.contains('.'));
        let name = |(at, path): (usize, &Option<&str>)| {
            let path = (*path)?;
            Some(if plain { path.into() } else { letter(at).to_string().into() })
        };
        let names = paths.iter().enumerate().map(name).collect();
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

/// Groups fields with the same first name, at the place of the first of them.
fn parts(fields: &[(usize, &str)]) -> Vec<Part> {
    let mut all = Vec::new();
    let head = |path: &str| path.split_once('.').map(|(head, _)| head.to_owned());
    for (position, (at, path)) in fields.iter().enumerate() {
        let Some(name) = head(path) else {
            all.push(Part::Field { at: *at, name: (*path).into() });
            continue;
        };
        let same = |(_, path): &&(usize, &str)| head(path).as_ref() == Some(&name);
        if fields[..position].iter().any(|field| same(&field)) {
            continue;
        }
        let inner = fields.iter().filter(same);
        let inner: Vec<_> = inner.map(|(at, path)| (*at, &path[name.len() + 1..])).collect();
        let bits = inner.iter().fold(0, |bits, (at, _)| bits | 1 << at);
        all.push(Part::Doc { name: name.into(), fields: bits, parts: parts(&inner) });
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
        assert_eq!(nested(&all, &["c"], &[]), "{ c: 2 }");
        assert_eq!(nested(&all, &[], &[]), "{}");
        assert_eq!(nested(&["a", "b"], &["a", "b"], &[0]), "{ b: 1 }");
    }
}
